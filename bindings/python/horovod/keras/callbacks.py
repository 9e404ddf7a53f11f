"""Callbacks for ``model.fit``."""

from __future__ import annotations

import keras

from horovod._keras import callbacks as _impl
from horovod._keras.binding import bind

BroadcastGlobalVariablesCallback = bind(_impl.BroadcastGlobalVariablesCallbackImpl, keras)
MetricAverageCallback = bind(_impl.MetricAverageCallbackImpl, keras)
LearningRateScheduleCallback = bind(_impl.LearningRateScheduleCallbackImpl, keras)
LearningRateWarmupCallback = bind(_impl.LearningRateWarmupCallbackImpl, keras)
BestModelCheckpoint = bind(_impl.BestModelCheckpointImpl, keras, "ModelCheckpoint")
StragglerCallback = bind(_impl.StragglerCallbackImpl, keras)
