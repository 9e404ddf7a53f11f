"""Which variables reach the workers, and where a worker finds its rank."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]

# Never sent to workers: belong to the launcher's own shell, device choice or job.
IGNORE_REGEXES = (
    "BASH_FUNC_.*",
    "OLDPWD",
    ".*CUDA_VISIBLE_DEVICES",
    "_HOROVOD_SECRET_KEY",
    "HOROVOD_SECRET_FD",
    "HOROVOD_RSH_AGENT",
    "HOROVOD_TERMINATION_GRACE_SECONDS",
    "_RODA_RANK",
)
_IGNORED = re.compile("|".join(f"(?:{pattern})" for pattern in IGNORE_REGEXES))


def is_exportable(name: str) -> bool:
    """Tell whether a variable of the launcher is sent to the workers."""
    return _IGNORED.match(name) is None


def exportable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that are sent to the workers."""
    return {name: value for name, value in environment.items() if is_exportable(name)}


def get_env_rank_and_size() -> tuple[int, int]:
    """Return this worker's rank and the job's size, from Horovod's, Open MPI's or PMI's variables.

    Raises
    ------
    RuntimeError
        When only one variable of a pair is set.
    """
    for rank_name, size_name in (
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            raise RuntimeError(
                "Could not determine process rank and size: only one of "
                f"{rank_name} and {size_name} found in environment"
            )
    return 0, 1


def is_kubeflow_mpi(environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether the Kubeflow MPI operator started us: its agent stands in for ssh then."""
    environment = os.environ if environment is None else environment
    return environment.get("OMPI_MCA_plm_rsh_agent") == "/etc/mpi/kubexec.sh"
