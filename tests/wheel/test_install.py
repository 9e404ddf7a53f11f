"""Installs the wheel into fresh environments, without a compiler on the path, and uses it there."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OLDEST = (3, 9)
LIMIT_S = 900


def version_of(python: Path) -> tuple[int, int] | None:
    """The version of a CPython that can make environments; None for anything else."""
    code = "import sys, venv, ensurepip; print(sys.implementation.name, *sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    name, *numbers = done.stdout.split() or [""]
    return (int(numbers[0]), int(numbers[1])) if name == "cpython" else None


@functools.cache
def pythons() -> dict[tuple[int, int], Path]:
    """One CPython of each version that the wheel is for: on the path, and of pyenv."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":")]
    candidates = [Path(sys.executable)]
    candidates += [folder / f"python3.{minor}" for folder in folders for minor in range(9, 20)]
    candidates += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python3"))
    found: dict[tuple[int, int], Path] = {}
    for python in candidates:
        version = version_of(python) if python.exists() else None
        if version and version >= OLDEST:
            found.setdefault(version, python)
    return found


class Environment:
    """A fresh virtual environment, in which nothing but its own programs is on the path."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.bin = folder / "bin"
        self.variables = {"PATH": str(self.bin), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        subprocess.run([python, "-m", "venv", folder], check=True, timeout=LIMIT_S)
        for compiler in ("cc", "c++", "gcc", "clang", "cmake", "ninja"):
            assert shutil.which(compiler, path=self.variables["PATH"]) is None

    def run(self, program: str, *arguments: str | Path, **variables: str) -> str:
        """Runs a program of the environment; returns what it prints."""
        command = [self.bin / program, *arguments]
        done = subprocess.run(
            command, env={**self.variables, **variables}, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, f"{program}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def pip(self, *arguments: str | Path) -> str:
        """Runs pip; returns what it prints."""
        # pip's own settings are the machine's: where its registry is.
        machine = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments, **machine)

    def install(self, *packages: str | Path) -> None:
        """Installs packages with what they depend on."""
        self.pip("install", "-q", *packages)


def versions() -> list[str]:
    return [f"{major}.{minor}" for major, minor in sorted(pythons())]


JOB = """
from horovod.common import operations
from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import global_process_set
basics = HorovodBasics()
basics.init()
operations.barrier(global_process_set)
print("rank", basics.rank(), "of", basics.size(), flush=True)
basics.shutdown()
"""


# Says which of the files that are loaded have a part in their name.
LOADING_JOB = """
import sys
from horovod.common import objects
from horovod.common.basics import HorovodBasics
basics = HorovodBasics()
basics.init()
assert basics.mpi_enabled() or "mpi" not in sys.argv[1]
ranks = objects.allgather_object(basics.rank())
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if sys.argv[1] in line}
print("ranks", ranks, "over", *files, flush=True)
basics.shutdown()
"""


@pytest.mark.parametrize("version", versions())
def test_every_python_runs_a_job_of_two_ranks(version: str, wheel: Path, tmp_path: Path) -> None:
    major, minor = map(int, version.split("."))
    environment = Environment(tmp_path / "env", pythons()[major, minor])
    environment.install(wheel)
    (tmp_path / "job.py").write_text(JOB)
    printed = environment.run("horovodrun", "-np", "2", environment.bin / "python", tmp_path / "job.py")
    assert "rank 0 of 2" in printed
    assert "rank 1 of 2" in printed
    assert "ucx" in environment.run("roda-info")


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("transport", ["", "tcp", "gloo"])
def test_two_ranks_train(transport: str, trainer: Environment) -> None:
    variables = {"HOROVOD_CPU_OPERATIONS": transport} if transport else {}
    printed = trainer.run("horovodrun", "-np", "2", trainer.bin / "python", HERE / "train.py", **variables)
    assert "rank 0 of 2 learned" in printed
    assert "rank 1 of 2 learned" in printed


@pytest.mark.parametrize("torch", [["torch==2.2.2", "numpy<2"], ["torch"]])
def test_it_trains_beside_old_and_new_torch(torch: list[str], wheel: Path, tmp_path: Path) -> None:
    """Gigabytes from the registry: of the last Python that both are made for."""
    python = pythons().get((3, 12)) or pythons().get((3, 11))
    if python is None:
        pytest.skip("no Python that both are made for")
    environment = Environment(tmp_path / "env", python)
    try:
        environment.install(wheel, *torch)
    except AssertionError as error:
        if "No matching distribution" in str(error):
            pytest.skip(f"{torch[0]} is not to be had")
        raise
    printed = environment.run("horovodrun", "-np", "2", environment.bin / "python", HERE / "train.py")
    assert "rank 0 of 2 learned with torch " in printed
    assert "rank 1 of 2 learned with torch " in printed


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_strict_mypy_finds_nothing_in_a_users_program(trainer: Environment) -> None:
    trainer.install("mypy")
    program = HERE.parent / "python" / "typing" / "program.py"
    cache = trainer.bin.parent / "mypy_cache"
    # As a module: where the interpreter behind has mypy, pip makes no command here.
    found = trainer.run("python", "-m", "mypy", "--strict", "--cache-dir", cache, program)
    assert "no issues found" in found


@pytest.fixture(scope="module")
def trainer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, and with this interpreter's PyTorch behind it."""
    folder = tmp_path_factory.mktemp("trainer")
    environment = Environment(folder, Path(sys.executable))
    environment.install(wheel)
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "torch.pth").write_text(f"{Path(spec.origin).parents[1]}\n")
    return environment
