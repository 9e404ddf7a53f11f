"""`roda-build-plugin` of the wheel: its plugins use the system's C++ library, and the engine has another one inside."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from test_install import LOADING_JOB, Environment
from test_mpi import ROOT

SYSTEM = "/usr/bin:/bin"
LAUNCHERS = {"mpi": ["/usr/bin/mpirun.openmpi", "-H", "localhost:2", "-bind-to", "none"]}

pytestmark = pytest.mark.skipif(
    any(
        shutil.which(program, path=SYSTEM) is None
        for program in ("g++", "pkg-config", "mpicxx.openmpi", "mpirun.openmpi")
    ),
    reason="not all that plugins are compiled with is installed",
)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("builder"), Path(sys.executable))
    made.install(wheel)
    return made


@pytest.mark.parametrize("name", ["mpi", "ucx", "gloo"])
def test_two_ranks_over_a_plugin_of_this_machine(name: str, environment: Environment, tmp_path: Path) -> None:
    variables = {**ROOT, "PATH": f"{environment.bin}:{SYSTEM}", "HOROVOD_CPU_OPERATIONS": name}
    compilers = {"CXX": "g++", "MPICXX": "mpicxx.openmpi", "CXXFLAGS": "-O0"}  # half the time
    environment.run("roda-build-plugin", name, "--output", tmp_path, **variables, **compilers)
    plugin = tmp_path / f"roda_{name}.so"
    program = [environment.bin / "python", "-c", LOADING_JOB, f"/roda_{name}.so"]
    launcher = LAUNCHERS.get(name, ["horovodrun"])
    printed = environment.run(*launcher, "-np", "2", *program, HOROVOD_PLUGIN_PATH=str(tmp_path), **variables)
    assert printed.count(f"ranks [0, 1] over {plugin}\n") == 2, printed
