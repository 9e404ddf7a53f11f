"""A barrier that names who did not come, on every rank that did; it needs torch's store alone, not the engine."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from datetime import timedelta

import torch.distributed as dist

_GRACE = 2.0  # seconds

_calls: Counter[str] = (
    Counter()
)  # by group; torch uses a name again, in the same store, when the default group is remade


def monitored_barrier(
    store: dist.Store, group: str, rank: int, size: int, timeout: timedelta, wait_all_ranks: bool
) -> None:
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
    wait_all_ranks : bool
        Name all that did not come, else the first.

    Raises
    ------
    RuntimeError
        On every rank, whether it came too late or not, that names who did.
    """
    _calls[group] += 1
    prefix = f"roda/monitored/{group}/{_calls[group]}"
    store.set(f"{prefix}/{rank}", "")
    keys = [f"{prefix}/{other}" for other in range(size)]
    missing: list[int] = []
    if rank == 0 and timeout <= timedelta(0):  # to torch's store, no time is for ever
        text = f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {timeout.total_seconds() * 1000:.0f} ms"
        raise RuntimeError(f"{text}: no rank was waited for.")
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
        who = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
        how = f"{who} failed to pass monitoredBarrier in {timeout.total_seconds() * 1000:.0f} ms"
        if rank and rank not in missing:
            how = (
                f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                f"from rank 0: {how}"
            )
        raise RuntimeError(f"[Rank {rank}]: {how} in the group {group}: look at what they do.")


def name_the_late(store: dist.Store, rank: int, size: int, what: str, number: int, limit: float) -> RuntimeError:
    """Return the error of an operation, a group's so many-th, that did not end in `limit` seconds.

    It names the ranks that did not wait as long for that operation; the others get a moment to say that they do.
    """
    keys = [f"roda/late/{number}/{other}" for other in range(size)]
    late, others = list(range(size)), ""
    with contextlib.suppress(RuntimeError):  # the store is gone
        store.set(keys[rank], what)
        with contextlib.suppress(RuntimeError):  # not all come
            store.wait(keys, timedelta(seconds=min(max(limit, 0.1), _GRACE)))
        late = [other for other in late if not store.check([keys[other]])]
        said = {other: store.get(keys[other]).decode() for other in range(size) if other not in late}
        others = "; ".join(f"rank {other} is in {word}" for other, word in said.items() if word != what)
    who = f"ranks {', '.join(map(str, late))} did not come" if late else others or "all ranks came"
    return RuntimeError(f"[Rank {rank}]: Timed out after {limit * 1000:.0f} ms in {what}, call {number}: {who}.")
