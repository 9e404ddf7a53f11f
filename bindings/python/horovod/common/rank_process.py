"""Which process is a rank: what a rank starts inherits the variables that tell a rank its place, and is none itself.

A rank marks its environment while its engine runs. The mark has the rank's process id, so that another program in the
same process is the rank still, and the place that it was told: a process that has another one was given it by another
launcher, or by whoever started it. A forked child is the engine's to refuse: it has a copy of that.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_MARK = "_RODA_RANK"
_OURS = ("HOROVOD_RANK", "HOROVOD_SIZE") + tuple(
    f"HOROVOD_{kind}RENDEZVOUS_{part}" for kind in ("", "GLOO_") for part in ("ADDR", "PORT")
)
_OTHERS = (
    "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
    "JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "SGE_TASK_ID",
)  # fmt: skip

_ENGINES = "_RODA_ENGINES"  # "process id, number" of those that this process has started

_marked_by = 0  # the process, or the one that it was forked from


def _present(names: tuple[str, ...]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def mark(rank: int, size: int) -> None:
    """Note in the environment that this process is a rank; one that is alone needs no note."""
    global _marked_by
    if size > 1:
        _marked_by = os.getpid()
        os.environ[_MARK] = json.dumps({"pid": os.getpid(), "rank": rank, "place": _present(_OURS + _OTHERS)})


def unmark() -> None:
    """Take the note away: the job is over for this process."""
    if _MARK in os.environ and json.loads(os.environ[_MARK])["pid"] == os.getpid():
        del os.environ[_MARK]


def next_engine() -> int:
    """Return the number of the engine that this process starts now; another program in the process counts on."""
    pid, number = os.environ.get(_ENGINES, "0 0").split()
    latest = int(number) if int(pid) == os.getpid() else 0
    os.environ[_ENGINES] = f"{os.getpid()} {latest + 1}"
    return latest + 1


def started_by() -> tuple[int, int] | None:
    """Return the rank that started this process, and its process id; None for what was not started by one."""
    mark = json.loads(os.environ.get(_MARK, "null"))
    return None if mark is None or mark["pid"] == os.getpid() else (mark["rank"], mark["pid"])


def is_alone() -> bool:
    """Tell whether a rank started this process as a job of its own."""
    return started_by() is not None and os.environ.get("HOROVOD_SIZE") == "1"


def _is_main_imported_again() -> bool:
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and hasattr(multiprocessing.current_process(), "_inheriting")


def refuse_child() -> None:
    """Raise ValueError where a rank started this process, and nobody has given it a place in a job since."""
    rank, told = started_by(), _present(_OURS) or _present(_OTHERS)
    if rank is None or is_alone() or not told or rank[1] == _marked_by:
        return
    if told.items() <= json.loads(os.environ[_MARK])["place"].items():
        again = "multiprocessing ran the program again here: put hvd.init() in `if __name__ == '__main__':`. "
        raise ValueError(
            f"This process was started by rank {rank[0]} (process {rank[1]}) of a running job, and is no rank itself. "
            f"{again if _is_main_imported_again() else ''}"
            "To use Horovod in it alone, set HOROVOD_SIZE=1 in its environment. To start another job, use horovodrun, "
            "or another launcher after removing the variables that begin with HOROVOD_."
        )
