"""An estimator of Spark ML that trains PyTorch's models."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("torch", "horovod.spark.torch")

from horovod.spark.torch.estimator import TorchEstimator as TorchEstimator, TorchModel as TorchModel
