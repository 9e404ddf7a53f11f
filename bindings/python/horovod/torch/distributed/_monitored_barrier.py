"""A barrier that names who did not come, on every rank that did; it needs torch's store alone, not the engine."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from datetime import timedelta

import torch.distributed as dist

_calls: Counter[str] = (
    Counter()
)  # by group; torch uses a name again, in the same store, when the default group is remade


def monitored_barrier(store: dist.Store, group: str, rank: int, size: int, timeout: timedelta) -> None:
    """Wait until all ranks of a group have called this.

    Parameters
    ----------
    store : torch.distributed.Store
        The group's.
    group : str
        Its name.
    rank, size : int
        Of this process in the group.
    timeout : datetime.timedelta
        For everybody to come, from the first rank's call on; the others wait as long for the first rank, and then for
        its verdict.

    Raises
    ------
    RuntimeError
        On every rank, whether it came too late or not, that names all who did.
    """
    _calls[group] += 1
    prefix = f"roda/monitored/{group}/{_calls[group]}"
    store.set(f"{prefix}/{rank}", "")
    keys = [f"{prefix}/{other}" for other in range(size)]
    missing: list[int] = []
    if rank == 0:
        with contextlib.suppress(RuntimeError):  # the timeout is over; a store that is gone says so below
            store.wait(keys, timeout)
        missing = [other for other, key in enumerate(keys) if not store.check([key])]
        store.set(f"{prefix}/missing", json.dumps(missing))
    else:
        try:
            store.wait(keys[:1], timeout)
        except RuntimeError:
            if store.check(keys[:1]):
                raise
            missing = [0]
        else:
            store.wait([f"{prefix}/missing"], 2 * timeout)
            missing = json.loads(store.get(f"{prefix}/missing"))
    if missing:
        names = ", ".join(map(str, missing))
        raise RuntimeError(
            f"[Rank {rank}]: Ranks {names} of the group {group} failed to pass monitored_barrier in "
            f"{timeout.total_seconds() * 1000:.0f} ms: look at what they do."
        )
