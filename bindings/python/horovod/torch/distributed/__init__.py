"""The ``torch.distributed`` backend ``roda``: ``torch.distributed.init_process_group("roda")``.

Importing ``horovod.torch`` registers it. ``docs/python.md`` says what it offers and how a program is started.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed as dist

from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import global_process_set
from horovod.torch.distributed import _rendezvous

BACKEND = "roda"


def _create(options: Any, _: Any) -> dist.ProcessGroup:
    from horovod.torch.distributed import _process_group, _sets

    name, rank, ranks = options.group_id, options.group_rank, list(options.global_ranks_in_group)
    if not dist.is_initialized():  # the default group: everybody
        _rendezvous.start_engine(options.store, rank, options.group_size)
        _sets.open_registrar(options.store, rank, options.group_size)
        return _process_group.RodaProcessGroup(
            name, rank, list(range(options.group_size)), global_process_set, options.timeout
        )
    process_set = _sets.set_for(ranks, name, rank == 0, options.timeout)
    return _process_group.RodaProcessGroup(name, rank, ranks, process_set, options.timeout)


def register() -> None:
    """Make the backend known to torch; does nothing the second time, and before torch 2.1."""
    if not dist.is_available() or BACKEND.upper() in dist.Backend._plugins:
        return
    if "devices" not in inspect.signature(dist.Backend.register_backend).parameters:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])
    _rendezvous.register(HorovodBasics())
