"""Training that goes on after workers fail, leave or come."""

from __future__ import annotations

from tensorflow import keras

from horovod._keras import bind, elastic as _impl, framework_of

run = framework_of(keras).hvd.elastic.run

KerasState = bind(_impl.KerasStateImpl, keras, None)
CommitStateCallback = bind(_impl.CommitStateCallbackImpl, keras)
UpdateBatchStateCallback = bind(_impl.UpdateBatchStateCallbackImpl, keras)
UpdateEpochStateCallback = bind(_impl.UpdateEpochStateCallbackImpl, keras)
