"""A program as users of JAX write it, for type checkers: it is never run. JAX's own functions are partly unknown."""

from __future__ import annotations

import horovod.jax as hvd
import jax
import jax.numpy as jnp
from horovod.common.exceptions import HorovodInternalError
from horovod.jax.elastic import JaxState
from typing_extensions import assert_type

hvd.init(process_sets="dynamic")
assert_type(hvd.rank(), int)
number: int = hvd.Sum

# --- collectives ---

x = jnp.zeros(3)  # pyright: ignore[reportUnknownMemberType]
total: jax.Array = hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16)
both: list[jax.Array] = hvd.grouped_allreduce([x, x])
gathered: jax.Array = hvd.allgather(x, rows=[3, 3])
sent: jax.Array = hvd.broadcast(x, root_rank=0)
received: tuple[jax.Array, jax.Array] = hvd.alltoall(x, splits=[1, 2])
rows: jax.Array = hvd.reducescatter(x, op=hvd.Sum)
hvd.barrier()
assert_type(hvd.join(), int)
evens = hvd.add_process_set([0, 2])
assert_type(evens, hvd.ProcessSet)
assert_type(hvd.remove_process_set(evens), bool)


@jax.jit  # pyright: ignore[reportUnknownMemberType]
def scaled(y: jax.Array) -> jax.Array:
    summed: jax.Array = hvd.allreduce(y, op=hvd.Sum)
    return summed / hvd.size()


# --- training ---

params: dict[str, jax.Array] = hvd.broadcast_parameters({"w": x}, root_rank=0)
epoch: int = hvd.broadcast_object(3, root_rank=0)
losses: list[float] = hvd.allgather_object(0.5)

# --- elastic ---

state = JaxState(params=params, epoch=0)
state.register_reset_callbacks([lambda: None])


@hvd.elastic.run
def train(state: JaxState, rate: float) -> int:
    state.epoch += 1
    state.commit()
    return int(state.epoch)


try:
    assert_type(train(state, 0.1), int)
except (HorovodInternalError, hvd.CollectiveError):
    hvd.shutdown()
