"""A program as users of TensorFlow write it, for type checkers: it is never run."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow
from horovod.tensorflow.elastic import TensorFlowKerasState
from typing_extensions import assert_type

tf: Any = tensorflow  # which has no types of its own

hvd.init()
assert_type(hvd.rank(), int)
number: int = hvd.Sum

# --- collectives ---

x: Any = tf.zeros(3)
total: Any = hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16)
hvd.grouped_allreduce([x, x])
gathered: Any = hvd.allgather(x)
sent: Any = hvd.broadcast(x, root_rank=0)
hvd.alltoall(x, splits=[1, 2])
rows: Any = hvd.reducescatter(x, op=hvd.Sum)
evens = hvd.add_process_set([0, 2])
assert_type(evens, hvd.ProcessSet)
assert_type(hvd.remove_process_set(evens), bool)

# --- training ---

model: Any = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer: Any = tf.keras.optimizers.SGD(0.1)
with tf.GradientTape() as tape:
    loss: Any = tf.reduce_mean(model(x))
distributed = hvd.DistributedGradientTape(tape, op=hvd.Average, groups=1)
optimizer.apply_gradients(zip(distributed.gradient(loss, model.trainable_variables), model.trainable_variables))
hvd.broadcast_variables(model.variables, root_rank=0)
epoch: int = hvd.broadcast_object(3, root_rank=0)
losses: list[float] = hvd.allgather_object(0.5)

# --- elastic ---

state = TensorFlowKerasState(model, optimizer, epoch=0)
state.register_reset_callbacks([lambda: None])


@hvd.elastic.run
def train(state: TensorFlowKerasState, rate: float) -> int:
    state.epoch += 1
    state.commit()
    return int(state.epoch)


assert_type(train(state, 0.1), int)
hvd.shutdown()
