"""Training that goes on after workers fail, leave or come: ``import horovod.jax as hvd; hvd.elastic``."""

from __future__ import annotations

from typing import Any

import jax

from horovod.common.elastic import ObjectState, Training, run_fn
from horovod.jax._arrays import JaxRuntimeError
from horovod.jax.functions import broadcast_object, broadcast_parameters
from horovod.jax.mpi_ops import init, rank, shutdown


def run(func: Training) -> Training:
    """Decorate a training function so that it is started again, from the last commit, when a collective fails.

    Parameters
    ----------
    func : callable
        ``func(state, *args, **kwargs)``, where `state` is a :class:`JaxState`.

    Returns
    -------
    callable
        Takes the same arguments; see :func:`horovod.common.elastic.run_fn`. Functions are compiled anew after each
        change, because shapes and gradients depend on the number of ranks.
    """
    # A compiled function that ran before raises ValueError, in some versions.
    return run_fn(func, _reset, JaxRuntimeError, ValueError)


def _reset() -> None:
    shutdown()
    jax.clear_caches()
    init()


def _copied(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, tree)


class JaxState(ObjectState):
    """Attributes that are saved, restored and synchronised: pytrees of arrays, and other picklable objects.

    Copies are kept, so the arrays may be donated to compiled functions.

    Parameters
    ----------
    **kwargs
        The attributes and their first values, such as ``params=params, opt_state=opt_state, epoch=0``. Arrays have the
        same shapes on all ranks: no state of an optimizer with ``sharded=True``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(broadcast_object, rank, **kwargs)
        self.save()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _copied(value))

    def save(self) -> None:
        """Keep a copy of the attributes."""
        super().save()
        self._saved_state = _copied(self._saved_state)

    def sync(self) -> None:
        """Give all ranks what rank 0 saved last; collective. Arrays travel as they are, other objects pickled."""
        leaves, structure = jax.tree_util.tree_flatten(self._saved_state)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        arrays = broadcast_parameters([leaves[i] for i in places], 0, name="elastic_state")
        for i in places:
            leaves[i] = None
        leaves = broadcast_object(leaves, name="elastic_objects")
        for i, array in zip(places, arrays):
            leaves[i] = array
        self._saved_state = structure.unflatten(leaves)
        self._set_attrs()
