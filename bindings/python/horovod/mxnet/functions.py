"""Parameters and Python objects, sent from one rank to all or gathered from all."""

from __future__ import annotations

import types
from typing import Any

import mxnet as mx

from horovod.common import objects
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.mxnet.mpi_ops import broadcast_, size


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Give the root's values to the parameters of all ranks.

    Parameters
    ----------
    params : dict or mx.gluon.ParameterDict
        Arrays or gluon's parameters by name, with the same names on all ranks. A parameter that is initialised later
        gets the root's value then.
    root_rank : int
        World rank of the sender.
    prefix : str, optional
        Put in front of the names, where two models have the same.

    Raises
    ------
    ValueError
        For what is neither.
    """
    if size() == 1:
        return
    if not hasattr(params, "items"):
        raise ValueError(f"broadcast_parameters() takes a dict of arrays or gluon's parameters, not {type(params)}.")
    sent = []
    for key, parameter in sorted(params.items()):
        name = (prefix or "") + str(key)
        if isinstance(parameter, mx.nd.NDArray):
            sent.append(broadcast_(parameter, root_rank, name=name))
            continue
        try:
            sent.append(broadcast_(parameter.data(), root_rank, name=name))
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_initialised(parameter, root_rank, name)
    for array in sent:  # other ranks may be past their last operation, and wait for nothing
        array.wait_to_read()


def _broadcast_when_initialised(parameter: Any, root_rank: int, name: str) -> None:
    initialise = parameter._init_impl

    def and_broadcast(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(*args, **kwargs)
        broadcast_(self.data(), root_rank, name=name).wait_to_read()

    parameter._init_impl = types.MethodType(and_broadcast, parameter)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Send a picklable object from the root to all ranks, as :func:`horovod.common.objects.broadcast_object`."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Collect one picklable object of every rank, as :func:`horovod.common.objects.allgather_object`."""
    return objects.allgather_object(obj, name, process_set)
