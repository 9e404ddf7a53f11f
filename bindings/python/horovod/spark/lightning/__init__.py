"""An estimator of Spark ML that trains by Lightning 2's Trainer."""

from __future__ import annotations

import importlib.util

from horovod.common.util import require_framework

if importlib.util.find_spec("pytorch_lightning") is None:
    require_framework("lightning", "horovod.spark.lightning")

from horovod.spark.lightning.estimator import TorchEstimator as TorchEstimator, TorchModel as TorchModel
