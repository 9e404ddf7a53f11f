"""Process sets for groups: torch tells only the members of a group about it, the engine needs every rank to agree."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from datetime import timedelta

import torch.distributed as dist

from horovod.common.process_sets import ProcessSet, add_process_set, registered_set

_STOP = b"stop"
_FOREVER = timedelta(days=3650)
_EXIT_SECONDS = 5.0


class SetRegistrar:
    """Registers on every rank the sets that members of a group ask for, in one order.

    Members put numbered entries into torch's store. On every rank a thread reads them, one after the other, and
    registers the set of each; it sleeps in the store's own wait in between.

    Parameters
    ----------
    store : torch.distributed.Store
        The same on all ranks. It must be possible to clone it, because a waiting store keeps others waiting.
    """

    def __init__(self, store: dist.Store) -> None:
        self._store = dist.PrefixStore("roda/sets", store)
        self._progress = threading.Condition()
        self._done = 0
        self._errors: dict[int, ValueError] = {}
        self._owner = os.getpid()
        listening = self._store.clone()
        listening.set_timeout(_FOREVER)
        self._thread = threading.Thread(target=self._run, args=(listening,), name="roda-sets", daemon=True)
        self._thread.start()

    def request(self, ranks: list[int], group: str, is_first: bool, timeout: timedelta) -> ProcessSet:
        """Return the set of `ranks`; every member calls it, the first one with `is_first`.

        Raises
        ------
        ValueError
            When the engine refuses the set.
        TimeoutError
            When some rank of the job did not register it within `timeout`.
        """
        found = registered_set(ranks)
        if found is not None:
            return found
        if is_first:
            number = self._store.add("count", 1)
            self._store.set(f"entry/{number}", json.dumps(ranks))
            self._store.set(f"of/{group}", str(number))
        else:
            number = int(self._store.get(f"of/{group}"))
        with self._progress:
            if not self._progress.wait_for(lambda: self._done >= number, timeout.total_seconds()):
                raise TimeoutError(f"Not every rank registered the process set of the ranks {ranks} within {timeout}.")
        if number in self._errors:
            raise self._errors[number]
        result = registered_set(ranks)
        if result is None:
            raise ValueError(f"The process set of the ranks {ranks} was removed while its group was made.")
        return result

    def _run(self, store: dist.Store) -> None:
        while True:
            try:
                entry = store.get(f"entry/{self._done + 1}")
            except RuntimeError:  # the store is gone, and with it the groups
                return
            if entry == _STOP:
                return
            error = None
            try:
                if registered_set(ranks := json.loads(entry)) is None:
                    add_process_set(ranks)
            except ValueError as refused:
                error = refused
            with self._progress:
                if error is not None:
                    self._errors[self._done + 1] = error
                self._done += 1
                self._progress.notify_all()

    def stop(self) -> None:
        """End the threads, on all ranks; in a forked child do nothing."""
        if os.getpid() != self._owner or not self._thread.is_alive():
            return
        with contextlib.suppress(RuntimeError):  # the store is gone
            self._store.set(f"entry/{self._store.add('count', 1)}", _STOP)
        self._thread.join(_EXIT_SECONDS)


_current: SetRegistrar | None = None


def open_registrar(store: dist.Store) -> None:
    """Serve the groups of a new default group; what served the last one ends. Nothing where stores have no clones."""
    global _current
    close_registrar()
    _current = SetRegistrar(store) if hasattr(store, "clone") else None


@atexit.register
def close_registrar() -> None:
    """Serve no more groups."""
    global _current
    registrar, _current = _current, None
    if registrar is not None:
        registrar.stop()


def set_for(ranks: list[int], group: str, is_first: bool, timeout: timedelta) -> ProcessSet:
    """Return the process set of a group's ranks, registered on every rank; called by every member."""
    if _current is not None:
        return _current.request(ranks, group, is_first, timeout)
    found = registered_set(ranks)
    if found is None:
        raise ValueError(
            f"There is no process set of the ranks {ranks}, and with this version of torch the other ranks cannot be "
            "told of it: call hvd.add_process_set(ranks) on every rank before torch.distributed.new_group(ranks)."
        )
    return found
