"""A program as users of Keras write it, for type checkers: it is never run. Keras itself has few types."""

from __future__ import annotations

from typing import Any

import horovod.keras as hvd
import keras  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import assert_type

hvd.init()
assert_type(hvd.rank(), int)
mean: Any = hvd.allreduce([1.0, 2.0], name="mean")
gathered: Any = hvd.allgather([hvd.rank()])
first: Any = hvd.broadcast(1.0, root_rank=0)

model: Any = keras.Sequential([keras.layers.Dense(1)])
optimizer: Any = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Average)
model.compile(optimizer=optimizer, loss="mse")
state = hvd.elastic.KerasState(model, epoch=0, batch=0)
callbacks: list[Any] = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=3),
    hvd.elastic.CommitStateCallback(state),
    hvd.elastic.UpdateEpochStateCallback(state),
]


@hvd.elastic.run
def train(state: Any, epochs: int) -> int:
    model.fit([[1.0]], [[1.0]], epochs=epochs - state.epoch, callbacks=callbacks)
    state.commit()
    return epochs


assert_type(train(state, 3), int)
loaded: Any = hvd.load_model("model.keras")
hvd.shutdown()
