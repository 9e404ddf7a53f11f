"""What ``horovodrun --check-build`` prints."""

from __future__ import annotations

from typing import NoReturn

import horovod
from horovod.common import util


def report(verbose: bool = False) -> str:
    """Return the report: frameworks, controllers and tensor operations that are usable here."""
    frameworks = [("TensorFlow", "tensorflow"), ("PyTorch", "torch"), ("MXNet", "mxnet")]
    gloo, mpi = util.gloo_built(verbose), util.mpi_built(verbose)
    sections: list[tuple[str, list[tuple[str, bool | int]]]] = [
        ("Available Frameworks", [(label, util.extension_available(name, verbose)) for label, name in frameworks]),
        ("Available Controllers", [("MPI", mpi), ("Gloo", True)]),
        (
            "Available Tensor Operations",
            [
                ("NCCL", util.nccl_built(verbose)),
                ("DDL", util.ddl_built(verbose)),
                ("CCL", util.ccl_built(verbose)),
                ("MPI", mpi),
                ("Gloo", gloo),
            ],
        ),
    ]
    lines = ["" if verbose else None, f"Horovod v{horovod.__version__}:"]
    for title, entries in sections:
        lines += ["", f"{title}:"]
        lines += [f"    [{'X' if usable else ' '}] {label}" for label, usable in entries]
    return "\n".join(line for line in lines if line is not None)


def check_build(verbose: bool) -> NoReturn:
    """Print the report, and end the program with status 0."""
    print(report(verbose), flush=True)
    raise SystemExit(0)
