"""Sets of ranks that run collectives among themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _roda
from horovod.common import program_end
from horovod.common.claims import Claims
from horovod.common.util import ranks_in_brief

_NOT_INITIALIZED, _NOT_DYNAMIC, _UNKNOWN, _NOT_MEMBER, _SHUTTING_DOWN, _EXISTS = -1, -2, -3, -4, -5, -6


class ProcessSet:
    """A set of world ranks, usable as the ``process_set`` argument of collectives once it is registered.

    Parameters
    ----------
    ranks_or_comm : sequence of int, or mpi4py.MPI.Comm
        World ranks of the members, or a communicator whose processes they are, where ``init`` is given one too.

    Attributes
    ----------
    process_set_id : int or None
        None until the set is registered.
    ranks : list of int
        Sorted.
    mpi_comm : object or None
        The communicator that the set was made from.

    Raises
    ------
    ValueError
        For what is neither ranks nor a communicator.
    """

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Iterable[int] | Any) -> None:
        if type(ranks_or_comm).__module__.partition(".")[0] == "mpi4py":
            self.mpi_comm = ranks_or_comm
            return
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            ranks = None
        if ranks is None or isinstance(ranks_or_comm, (str, bytes)) or not all(isinstance(r, int) for r in ranks):
            raise ValueError(
                "ProcessSet should be initialized with a list of process ranks or an mpi4py communicator, "
                f"got {ranks_or_comm!r}."
            )
        self.ranks = sorted(ranks)

    def _invalidate(self) -> None:
        self.process_set_id = None

    def next_unnamed(self) -> str:
        """Return the number of the next operation that got no name.

        Every set counts for itself, from its registration on: so ranks which are members of different sets still agree
        on the numbers, as long as the members of each set call its unnamed operations in the same order.
        """
        return self._counted().next()

    def claims(self) -> Claims:
        """Return what optimizers claimed in the set. Claims begin anew together with the numbers."""
        return self._counted().claims

    def _counted(self) -> _Numbers:
        return _numbers.get(self.process_set_id) or _numbers.setdefault(self.process_set_id, _Numbers())

    def size(self) -> int | None:
        """Return the number of members, or None while the set is not registered."""
        if self.process_set_id is None or not _roda.is_initialized():
            return None
        return self._checked(_roda.process_set_size(self.process_set_id))

    def rank(self) -> int | None:
        """Return this process's rank within the set, or None while the set is not registered."""
        if self.process_set_id is None or not _roda.is_initialized():
            return None
        return self._checked(_roda.process_set_rank(self.process_set_id))

    def included(self) -> bool | None:
        """Tell whether this process is a member, or None when that is not known yet."""
        if self.ranks is None or not _roda.is_initialized():
            return None
        return _roda.rank() in self.ranks

    @staticmethod
    def _checked(value: int) -> int:
        if value == _NOT_MEMBER:
            raise ValueError("Process is not part of provided process set.")
        if value < 0:
            raise ValueError("Process set does not exist or has not been registered.")
        return value

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    def __repr__(self) -> str:
        ranks = self.ranks or ()
        known = "all ranks" if self.process_set_id == 0 else f"rank{'s' * (len(ranks) != 1)} {ranks_in_brief(ranks)}"
        state = "not registered" if self.process_set_id is None else f"id {self.process_set_id}"
        return f"<ProcessSet, {state}: {known if self.mpi_comm is None or self.ranks else 'of a communicator'}>"


class _GlobalProcessSet(ProcessSet):
    """Id 0: all ranks. Its list of ranks is known from `init` on."""

    def __init__(self) -> None:
        super().__init__(())
        self.process_set_id = 0
        self.ranks = None

    def _invalidate(self) -> None:
        self.ranks = None


class _Numbers:
    """Numbers of unnamed operations, and optimizers' claims. Both begin anew after a join: before it ranks differed."""

    def __init__(self, joins: int = 0) -> None:
        self.joins = joins
        self.claims = Claims()
        self._count = itertools.count(1)

    def next(self) -> str:
        # Operations that were started before the join may still be in flight under that number: the names must differ.
        number = next(self._count)
        return f"{self.joins}.{number}" if self.joins else str(number)


# By the set's id, so that copies of a ProcessSet count together.
_numbers: dict[int | None, _Numbers] = {}

global_process_set: ProcessSet = _GlobalProcessSet()

_registered: list[ProcessSet] = []


def find_duplicate(process_sets: Sequence[ProcessSet], world: ProcessSet | None = None) -> int | None:
    """Return the index of the first set that has the ranks of an earlier one or of `world`, or None."""
    seen = [] if world is None else [world.ranks]
    for index, process_set in enumerate(process_sets):
        if process_set.ranks in seen:
            return index
        seen.append(process_set.ranks)
    return None


def _bind(process_set: ProcessSet, set_id: int) -> None:
    process_set.process_set_id = set_id
    if process_set is not global_process_set and not any(entry is process_set for entry in _registered):
        _registered.append(process_set)


def restart_numbers_after_join() -> None:
    """Begin the numbers of the global set's unnamed operations anew, on all ranks, after all of them joined."""
    _numbers[0] = _Numbers(_numbers[0].joins + 1 if 0 in _numbers else 1)


def bind_static_process_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Give every set of `process_sets` the id under which the engine registered it, after init."""
    _numbers.clear()
    global_process_set.ranks = list(range(_roda.size()))
    bind_registered_sets(process_sets)


def bind_registered_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Give every set of `process_sets` the id under which the engine knows its ranks.

    Raises
    ------
    ValueError
        When the engine does not know one of them; then none is given an id.
    """
    id_by_ranks = {tuple(_roda.process_set_ranks(set_id) or ()): set_id for set_id in _roda.process_set_ids()}
    for process_set in process_sets:
        if tuple(process_set.ranks or ()) not in id_by_ranks:
            raise ValueError(
                f"Horovod runs already, and no process set with these ranks is registered: {process_set}. "
                "Use hvd.add_process_set()."
            )
    for process_set in process_sets:
        _bind(process_set, id_by_ranks[tuple(process_set.ranks or ())])


def forget_process_sets() -> None:
    """Invalidate every registered set, after shutdown."""
    for process_set in _registered:
        process_set._invalidate()
    _registered.clear()
    _numbers.clear()
    global_process_set._invalidate()


def registered_set(ranks: Sequence[int]) -> ProcessSet | None:
    """Return the set of these ranks that was registered in this process, or None."""
    members = sorted(ranks)
    return next((entry for entry in [global_process_set, *_registered] if entry.ranks == members), None)


def set_of_id(set_id: int) -> ProcessSet | None:
    """Return the set that was registered in this process under `set_id`, or None."""
    return next((entry for entry in [global_process_set, *_registered] if entry.process_set_id == set_id), None)


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return the ranks of every process set that is registered now, by id."""
    return {set_id: _roda.process_set_ranks(set_id) or [] for set_id in _roda.process_set_ids()}


_get_process_set_ids_and_ranks = get_process_set_ids_and_ranks  # as Horovod's frameworks' modules call it


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a set while the engine runs; collective over all ranks of the job.

    Parameters
    ----------
    process_set : ProcessSet or sequence of int
        The same on all ranks.

    Returns
    -------
    ProcessSet
        The registered set.

    Raises
    ------
    ValueError
        When the set exists, dynamic process sets are off, or the engine does not run.
    NotImplementedError
        For a set made from a communicator.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise NotImplementedError("Dynamically adding a process set made from an MPI communicator is not supported.")
    result = _roda.add_process_set(process_set.ranks)
    if result < 0:
        if not process_set.ranks:
            reason = "a set needs at least one rank"
        elif result == _EXISTS:
            reason = "it exists already"
        else:
            reason = f"a rank is named twice or not in a job of {_roda.size()}"
        _raise_for(result, "adding", f"A process set with ranks {process_set.ranks} cannot be added: {reason}.")
    _numbers.pop(result, None)  # ids are reused
    _bind(process_set, result)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a set while the engine runs; collective over all ranks of the job.

    Parameters
    ----------
    process_set : ProcessSet
        The same on all ranks.

    Returns
    -------
    bool
        False for the global set and for one that is not registered.
    """
    set_id = process_set.process_set_id
    if set_id is None or set_id == 0:
        return False
    if process_set.included():
        program_end.finish()  # what the program has asked the set for, and a framework has yet to begin
    for entry in [process_set, *(entry for entry in _registered if entry.process_set_id == set_id)]:
        entry._invalidate()  # init() of a running engine may have bound several objects to one set
    _registered[:] = [entry for entry in _registered if entry.process_set_id is not None]
    result = _roda.remove_process_set(set_id)
    if result == _UNKNOWN:
        return False
    if result < 0:
        _raise_for(result, "removing", f"Process set {set_id} could not be removed (code {result}).")
    return True


def _raise_for(code: int, verb: str, otherwise: str) -> None:
    if code == _NOT_INITIALIZED:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    if code == _NOT_DYNAMIC:
        raise ValueError(
            f"Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow {verb} process sets after initialization "
            '(or call hvd.init(process_sets="dynamic")).'
        )
    if code == _SHUTTING_DOWN:
        raise ValueError("Horovod is shutting down.")
    raise ValueError(otherwise)
