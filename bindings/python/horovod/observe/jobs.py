"""The jobs that run on this machine, for tools that are not told which one is meant."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from horovod.common.model import printable
from horovod.observe import flight

_MOST_OF_COMMAND = 60  # characters


def _own_processes() -> Iterable[int]:
    """Yield the processes that may be looked at."""
    for name in os.listdir("/proc"):
        if name.isdigit() and os.access(f"/proc/{name}/fd", os.R_OK | os.X_OK):
            yield int(name)


def _launcher_of(pid: int) -> int:
    """Return the process that started a rank's job, or the rank where that is none of ours."""
    import psutil

    with contextlib.suppress(psutil.Error):
        for parent in psutil.Process(pid).parents():
            if not any("horovod" in word for word in parent.cmdline()):
                break
            pid = parent.pid
    return pid


def jobs() -> dict[int, list[flight.Rank]]:
    """Return the jobs with ranks on this machine: these ranks, by the process that started them, or by the first."""
    found: dict[int, list[flight.Rank]] = {}
    for ranks in flight.ranks_by_memory(_own_processes()):
        running = [rank for rank in ranks if rank.process != "gone"]
        if running:
            found.setdefault(_launcher_of(running[0].pid), []).extend(running)
    return found


def _about(pid: int, ranks: list[flight.Rank]) -> str:
    first = min(ranks, key=lambda rank: rank.rank)
    words = Path(f"/proc/{first.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    command = printable(" ".join(" ".join(words).split()))  # of a program behind -c in one line
    short = f"{command[:_MOST_OF_COMMAND]}…" if len(command) > _MOST_OF_COMMAND else command
    seconds = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - first.started) / 1e9
    return f"{pid}: {first.size} rank{'s' if first.size > 1 else ''}, {len(ranks)} here, for {seconds:.0f} s: {short}"


def _find(program: str) -> tuple[int, list[flight.Rank]]:
    """Return the process of the one job that runs here, and its ranks here; say which job that is.

    Raises
    ------
    NoRecordError
        There is none, or there are several; the text lists them.
    """
    found = jobs()
    told = []
    for pid, ranks in sorted(found.items()):
        try:
            told.append(_about(pid, ranks))
        except OSError:  # the job has ended meanwhile
            del found[pid]
    if not found:
        raise flight.NoRecordError("no job of yours runs here, and nothing else was named")
    if len(found) > 1:
        raise flight.NoRecordError("\n  ".join([f"{len(found)} jobs run here; say which, as {program} PID:", *told]))
    print(f"{program}: {told[0]}", file=sys.stderr)
    return next(iter(found.items()))


def find_job(program: str) -> int:
    """Return the process of that job; NoRecordError as :func:`_find`."""
    return _find(program)[0]


def find_timelines(program: str, pid: int | None = None) -> list[Path]:
    """Return the files into which the ranks here of the one job write their timelines, or those of a process's job.

    Raises
    ------
    NoRecordError
        There is no such job, or several, or it writes none.
    """
    import psutil

    pid, ranks = _find(program) if pid is None else (pid, flight.open_job(pid).read())
    found = []
    for rank in ranks:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(rank.pid)
            name = process.environ().get("HOROVOD_TIMELINE", "").replace("{rank}", str(rank.rank))
            found += [path for path in [Path(process.cwd(), name)] if path.is_file()]
    if not found:
        raise flight.NoRecordError(
            f"the ranks of {pid} write no timeline; HOROVOD_TIMELINE names one when a job begins"
        )
    return sorted(set(found))
