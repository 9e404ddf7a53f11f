"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.tensorflow import mpi_ops
from horovod.tensorflow.mpi_ops import Sum


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Normalises by the mean and the variance over all ranks' batches, which weigh alike.

    Parameters
    ----------
    fused : bool
        Not supported: False.
    **kwargs
        Of ``tf.keras.layers.BatchNormalization``.

    Raises
    ------
    ValueError
        For ``fused=True``.
    """

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        super().__init__(**kwargs)

    def _moments(self, inputs: Any, *arguments: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return mean and variance; what Keras calls for them."""
        mean, variance = super()._moments(inputs, *arguments, **kwargs)
        if mpi_ops.size() == 1:
            return mean, variance
        both = tf.stack([mean, variance + tf.math.square(mean)])
        mean, mean_of_squares = tf.unstack(
            mpi_ops._allreduce(both, "SyncBatchNormalization", Sum) / tf.cast(mpi_ops.size_op(), both.dtype)
        )
        return mean, mean_of_squares - tf.math.square(mean)
