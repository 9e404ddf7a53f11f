"""Process sets for groups: torch tells only the members of a group about it, the engine needs every rank to agree."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
import weakref
from collections import Counter
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from horovod.common import program_end
from horovod.common.process_sets import ProcessSet, add_process_set, registered_set
from horovod.runner.util.threads import signals_blocked
from horovod.torch.distributed import _any_source
from horovod.torch.distributed._farewell import Farewell

_STOP = b"stop"
_FOREVER = timedelta(days=3650)
_EXIT_SECONDS = 5.0
_FAREWELL_SECONDS = 2.0


class SetRegistrar:
    """Registers on every rank the sets that members of a group ask for, in one order.

    Members put numbered entries into torch's store. On every rank a thread reads them, one after the other, and
    registers the set of each; it sleeps in the store's own wait in between.

    Parameters
    ----------
    store : torch.distributed.Store
        The same on all ranks. It must be possible to clone it, because a waiting store keeps others waiting.
    rank, size : int
        This process's numbers in the job. Rank 0 may be the store's server, and leaves last.
    """

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._store = dist.PrefixStore("roda/sets", store)
        self._rank, self._size = rank, size
        self._progress = threading.Condition()
        self._done = 0
        self._over = False  # the thread does no more
        self._asked: Counter[tuple[int, ...]] = Counter()  # groups of these ranks so far
        self._errors: dict[int, ValueError] = {}
        self._ending = threading.Lock()  # held while the store is told something that it must live to hear
        self._ended = False
        self._owner = os.getpid()
        self.farewell = Farewell(lambda who, now: self._put({"leaves": who, "now": now}), rank, size)
        listening = self._store.clone()
        listening.set_timeout(_FOREVER)
        self._thread = threading.Thread(target=self._run, args=(listening,), name="roda-sets", daemon=True)
        with signals_blocked():
            self._thread.start()

    def request(self, ranks: list[int], group: str, is_first: bool, timeout: timedelta) -> ProcessSet:
        """Return the set of `ranks`; every member calls it, the first one with `is_first`.

        Raises
        ------
        ValueError
            When the engine refuses the set, or torch has different names for the group: it would wait for ever.
        TimeoutError
            When some rank of the job did not register it within `timeout`.
        """
        return self._registered(ranks, self._meet(ranks, group, is_first), timeout)

    def request_alone(self, ranks: list[int], timeout: timedelta) -> ProcessSet:
        """Return the set of `ranks`, of which one member may ask before the others, or twice.

        Raises as `request` does.
        """
        return registered_set(ranks) or self._registered(ranks, self._put(ranks), timeout)

    def find_source(self, group: str, destination: int, tag: int, taken: list[int], timeout: timedelta) -> int:
        """Return which rank of a group sends to `destination` more messages than it has taken; RuntimeError if none."""
        waiting = self._store.clone()
        waiting.set_timeout(timeout)
        return int(waiting.get(f"source/{self._put([group, destination, tag, taken])}"))

    def claim(self, number: int, rank: int) -> None:
        """Answer to `find_source`, unless another rank has."""
        if self._store.add(f"claim/{number}", 1) == 1:
            self._store.set(f"source/{number}", str(rank))

    def _put(self, entry: list[Any] | dict[str, Any]) -> int:
        """Have the ranks of a set, a want, or a rank's end read by every rank; return the entry's number."""
        number = self._store.add("count", 1)
        self._store.set(f"entry/{number}", json.dumps(entry))
        return number

    def _registered(self, ranks: list[int], number: int, timeout: timedelta) -> ProcessSet:
        with self._progress:
            if not self._progress.wait_for(lambda: self._done >= number or self._over, timeout.total_seconds()):
                raise TimeoutError(f"Not every rank registered the process set of the ranks {ranks} within {timeout}.")
        if number in self._errors:
            raise self._errors[number]
        result = registered_set(ranks)
        if result is None:
            raise ValueError(
                f"The process set of the ranks {ranks} was removed, or the engine stopped, while its group was made."
            )
        return result

    def _meet(self, ranks: list[int], group: str, is_first: bool) -> int:
        """Return the number of the entry to wait for, once all members are there and call the group by one name."""
        key = f"{ranks}/{self._asked[tuple(ranks)]}"
        self._asked[tuple(ranks)] += 1
        if is_first:  # it decides: another one's thread may have registered the set already, or not yet
            number = self._done
            if registered_set(ranks) is None:
                number = self._put(ranks)
            self._store.set(f"of/{key}", json.dumps([number, group]))
        number, name = json.loads(self._store.get(f"of/{key}"))
        if name != group:
            self._store.set(f"odd/{key}", f"{group!r} on rank {self._rank} and {name!r} on rank {ranks[0]}")
        if self._store.add(f"met/{key}", 1) == len(ranks):
            disagree = self._store.check([f"odd/{key}"])
            self._store.set(f"verdict/{key}", self._store.get(f"odd/{key}") if disagree else "")
        if odd := self._store.get(f"verdict/{key}").decode():
            raise ValueError(
                f"torch calls the group of the ranks {ranks} {odd}: it counts a process's groups, and these ranks are "
                "in different numbers of them. Have every rank of the job call new_group(), for every group and in one "
                "order, without use_local_synchronization=True; or make as many groups on each of these ranks."
            )
        return number

    def _run(self, store: dist.Store) -> None:
        try:
            self._serve(store)
        finally:
            with self._progress:
                self._over = True
                self._progress.notify_all()

    def _serve(self, store: dist.Store) -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone, and with it the groups
            while (entry := store.get(f"entry/{self._done + 1}")) != _STOP:
                ranks = json.loads(entry)
                error = None
                if isinstance(ranks, dict):
                    self.farewell.note(ranks["leaves"], ranks["now"])
                elif isinstance(ranks[0], int):
                    error = _register(ranks)
                else:
                    _any_source.note_want(ranks[0], self._done + 1, *ranks[1:])
                with self._progress:
                    if error is not None:
                        self._errors[self._done + 1] = error
                    self._done += 1
                    self._progress.notify_all()
            with self._ending:
                self._ended = True
                store.set(f"ended/{self._rank}", "")

    def is_serving(self) -> bool:
        """Tell whether the thread runs: not in a forked child."""
        return os.getpid() == self._owner and self._thread.is_alive()

    def stop(self) -> None:
        """End the threads, on all ranks; in a forked child do nothing."""
        if not self.is_serving():
            return
        with contextlib.suppress(RuntimeError):  # the store is gone
            with self._ending:
                if not self._ended:
                    self._store.set(f"entry/{self._store.add('count', 1)}", _STOP)
            self._thread.join(_EXIT_SECONDS)
            if self._rank == 0:  # a store that goes away while others wait for it makes them complain
                others = [f"ended/{rank}" for rank in range(self._size)]
                self._store.wait(others, timedelta(seconds=_FAREWELL_SECONDS))


def _register(ranks: list[int]) -> ValueError | None:
    """Register a set unless it is; return why that was refused."""
    try:
        if registered_set(ranks) is None:
            add_process_set(ranks)
    except ValueError as refused:
        return refused if registered_set(ranks) is None else None  # the user's own call came first
    return None


_current: SetRegistrar | None = None
_world: weakref.ref[dist.ProcessGroup] | None = None  # the default group that it serves, unless that is of this backend


def serves(world: dist.ProcessGroup) -> bool:
    """Tell whether groups beside this default group, of another backend, are served."""
    return _world is not None and _world() is world


def open_registrar(store: dist.Store, rank: int, size: int, world: dist.ProcessGroup | None) -> None:
    """Serve the groups beside a default group; what served the last one ends. Nothing where stores have no clones.

    Parameters
    ----------
    store : torch.distributed.Store
        A store of all ranks.
    rank, size : int
        This process's numbers in the job.
    world : torch.distributed.ProcessGroup or None
        The default group where it is of another backend; None: it is being made, of this one.
    """
    global _current, _world
    close_registrar()
    _world = None if world is None else weakref.ref(world)
    _current = SetRegistrar(store, rank, size) if hasattr(store, "clone") else None


def leave_in_peace() -> None:
    """Stay while others need the job and not this rank."""
    if _current is not None and _current.is_serving():
        with contextlib.suppress(RuntimeError):  # the store is gone
            _current.farewell.leave()


program_end.stays.append(leave_in_peace)


@atexit.register
def close_registrar() -> None:
    """Serve no more groups."""
    global _current
    registrar, _current = _current, None
    if registrar is not None:
        registrar.stop()


def registrar() -> SetRegistrar:
    """Return what serves the groups; NotImplementedError where stores have no clones."""
    if _current is None:
        raise NotImplementedError("With this version of torch the backend roda receives from a rank that is named.")
    return _current


def set_of_pair(ranks: list[int], timeout: timedelta) -> ProcessSet:
    """Return the process set of two ranks, registered on every rank; either of them may call it first."""
    if _current is not None:
        return _current.request_alone(ranks, timeout)
    return set_for(ranks, "", False, timeout)


def set_for(ranks: list[int], group: str, is_first: bool, timeout: timedelta) -> ProcessSet:
    """Return the process set of a group's ranks, registered on every rank; called by every member."""
    if _current is not None:
        return _current.request(ranks, group, is_first, timeout)
    found = registered_set(ranks)
    if found is None:
        raise ValueError(
            f"There is no process set of the ranks {ranks}, and with this version of torch the other ranks cannot be "
            "told of it: call hvd.add_process_set(ranks) on every rank before torch.distributed.new_group(ranks) or "
            "messages between them."
        )
    return found
