"""An estimator of Spark ML that trains models of Keras 3, on TensorFlow, PyTorch or JAX."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("keras", "horovod.spark.keras")

from horovod.spark.keras.estimator import KerasEstimator as KerasEstimator, KerasModel as KerasModel
