"""mpi4py communicators as arguments, without importing mpi4py: a program that passes one has imported it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from horovod.common.process_sets import ProcessSet


def was_launched_by_mpi() -> bool:
    """Tell whether an MPI launcher started this process."""
    return any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"))


def is_communicator(value: object) -> bool:
    """Tell whether `value` is an mpi4py communicator."""
    return type(value).__module__.partition(".")[0] == "mpi4py"


def is_member(comm: Any) -> bool:
    """Tell whether this process belongs to `comm`: a split leaves the others with the null communicator."""
    return bool(comm)


def ranks_within(comm: Any, world: Any) -> list[int]:
    """Return the ranks in `world` of the processes of `comm`, sorted."""
    group = comm.Get_group()
    ranks = type(group).Translate_ranks(group, list(range(group.Get_size())), world.Get_group())
    return sorted(ranks)


def resolve_process_sets(process_sets: Sequence[ProcessSet], world: Any) -> list[list[int]]:
    """Give sets that were made from communicators their ranks, and return the lists to register.

    Collective over `world`. Every process passes a communicator that it belongs to, so one entry of `process_sets` can
    stand for several sets (the parts of a split): each becomes one, in the order of their lowest ranks. A set that
    equals an earlier one, or the world, is the same set and is not registered twice.

    Parameters
    ----------
    process_sets : sequence of ProcessSet
        Equally long on all processes.
    world : mpi4py.MPI.Comm
        The communicator that ``init`` was given.

    Returns
    -------
    list of list of int
        The same on all processes.

    Raises
    ------
    ValueError
        When the processes named different numbers of sets.
    """
    mine: list[list[int] | None] = []
    for process_set in process_sets:
        if process_set.mpi_comm is not None and is_member(process_set.mpi_comm):
            process_set.ranks = ranks_within(process_set.mpi_comm, world)
        mine.append(process_set.ranks)
    everyone = world.allgather(mine)
    seen = [list(range(world.Get_size()))]
    if len({len(sets) for sets in everyone}) > 1:
        raise ValueError("The processes named different numbers of process sets.")
    for entry in zip(*everyone):
        for ranks in sorted({tuple(ranks) for ranks in entry if ranks is not None}):
            if list(ranks) not in seen:
                seen.append(list(ranks))
    return seen[1:]
