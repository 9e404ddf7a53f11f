"""Training that goes on after workers fail, leave or come."""

from __future__ import annotations

import keras

from horovod._keras import elastic as _impl
from horovod._keras.backend import framework_of
from horovod._keras.binding import bind
from horovod.common.elastic import Training

KerasState = bind(_impl.KerasStateImpl, keras, None)
CommitStateCallback = bind(_impl.CommitStateCallbackImpl, keras)
UpdateBatchStateCallback = bind(_impl.UpdateBatchStateCallbackImpl, keras)
UpdateEpochStateCallback = bind(_impl.UpdateEpochStateCallbackImpl, keras)


def run(func: Training) -> Training:
    """Decorate a training function as ``elastic.run`` of the framework that Keras computes with does."""
    return framework_of(keras).hvd.elastic.run(func)
