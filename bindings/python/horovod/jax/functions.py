"""Pytrees and Python objects, sent from one rank to all or gathered from all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from horovod.common.objects import allgather_object as allgather_object, broadcast_object as broadcast_object
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax import mpi_ops


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def broadcast_parameters(
    params: Any, root_rank: int, process_set: ProcessSet = global_process_set, name: str = "broadcast_parameters"
) -> Any:
    """Return the root's values of a pytree: parameters, the state of an optimizer, keys of random numbers.

    Parameters
    ----------
    params : pytree of arrays
        Of the same structure, shapes and dtypes on all ranks. Numbers become arrays.
    root_rank : int
        World rank of the sender.
    process_set : ProcessSet
        Who takes part.
    name : str
        The name by which the ranks match.
    """
    leaves, structure = jax.tree_util.tree_flatten(params)
    plain = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]
    sent = mpi_ops.broadcast(plain, root_rank, name, process_set)
    return structure.unflatten(
        [
            jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else value
            for leaf, value in zip(leaves, sent)
        ]
    )
