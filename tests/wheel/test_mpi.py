"""The wheel's one mpi plugin over MPIs of each family, from PyPI, beside whatever MPI the system has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_install import LOADING_JOB, Environment

ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HOROVOD_CPU_OPERATIONS": "mpi"}


@pytest.mark.parametrize(
    ("package", "library", "options", "preload"),
    [
        ("openmpi", "libmpi.so.40", ["--bind-to", "none", "--map-by", ":oversubscribe"], False),
        ("mpich", "libmpi.so.12", [], False),
        ("mpich", "libmpi_abi.so.1", [], True),  # what another part of the process has loaded is taken
    ],
)
def test_the_library_of_the_launcher_in_the_path(
    wheel: Path, tmp_path: Path, package: str, library: str, options: list[str], preload: bool
) -> None:
    environment = Environment(tmp_path / "env", Path(sys.executable))
    environment.install(wheel, package)
    file = environment.bin.parent / "lib" / library
    program = [environment.bin / "python", "-c", LOADING_JOB, "/libmpi"]
    if preload:
        program = ["/usr/bin/env", f"LD_PRELOAD={file}", *program]
    printed = environment.run("mpirun", "-np", "2", *options, *program, **ROOT)
    assert printed.count(f"ranks [0, 1] over {file.resolve()}\n") == 2, printed
