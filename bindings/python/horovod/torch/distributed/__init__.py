"""The ``torch.distributed`` backend ``roda``: ``torch.distributed.init_process_group("roda")``.

Importing ``horovod.torch`` registers it. ``docs/python.md`` says what it offers and how a program is started.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import add_process_set, get_process_set_ids_and_ranks
from horovod.torch.distributed import _rendezvous

BACKEND = "roda"


def _create(options: Any, _: Any) -> dist.ProcessGroup:
    from horovod.torch.distributed._process_group import RodaProcessGroup

    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    if not dist.is_initialized():  # the default group: everybody
        _rendezvous.start_engine(options.store, options.group_rank, options.group_size)
    return RodaProcessGroup(options.group_id, options.group_rank, ranks)


def new_group(ranks: Sequence[int], **options: Any) -> Any:
    """Make a group of some ranks; every rank of the job calls it, in the same order.

    ``torch.distributed.new_group`` tells only the members of a group about it, but the engine needs all ranks to agree
    on a process set: this registers the set, then calls it.

    Parameters
    ----------
    ranks : sequence of int
        The members.
    **options
        As ``torch.distributed.new_group``.
    """
    members = sorted(ranks)
    if members not in get_process_set_ids_and_ranks().values():
        add_process_set(members)
    return dist.new_group(members, **options)


def register() -> None:
    """Make the backend known to torch; does nothing the second time, and before torch 2.1."""
    if not dist.is_available() or BACKEND.upper() in dist.Backend._plugins:
        return
    if "devices" not in inspect.signature(dist.Backend.register_backend).parameters:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])
    _rendezvous.register(HorovodBasics())
