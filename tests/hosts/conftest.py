"""Hosts for the tests, and jobs that span them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from network import Network, NoNamespacesError

JOBS = Path(__file__).parent / "jobs"
HPC = Path(__file__).parents[2] / "examples" / "hpc"
LIMIT = 90  # seconds; no job here needs half of it


def make(count: int, **options: object) -> Iterator[Network]:
    """Make hosts, or skip with the reason."""
    network = Network(count, **options)
    try:
        network.__enter__()
    except NoNamespacesError as error:
        pytest.skip(f"no network namespaces: {error}")
    try:
        yield network
    finally:
        network.__exit__()


@pytest.fixture(scope="session")
def two_hosts() -> Iterator[Network]:
    """Two hosts, one cable, which no test pulls."""
    yield from make(2)


@pytest.fixture(scope="session")
def three_hosts() -> Iterator[Network]:
    """Three hosts on a bridge, shaped, whose cables no test pulls."""
    yield from make(3, rate="2gbit")


@pytest.fixture
def fragile_hosts() -> Iterator[Network]:
    """Two hosts for one test alone, which may break them."""
    yield from make(2)


@pytest.fixture
def twins() -> Iterator[Network]:
    """Two hosts of one name."""
    yield from make(2, names=("twin", "twin"))


@pytest.fixture(scope="session")
def crossed_hosts() -> Iterator[Network]:
    """Two hosts whose first interface leads nowhere, as docker0 does."""
    yield from make(2, has_dead_ends=True)


@pytest.fixture(scope="session")
def ipv6_hosts() -> Iterator[Network]:
    """Two hosts that have IPv6 alone."""
    yield from make(2, is_ipv6=True)


class Done:
    """A job that has ended: its status, its output, and what its ranks told."""

    def __init__(self, process: subprocess.Popen[str], told: Path) -> None:
        self.stdout, self.stderr = process.communicate(timeout=LIMIT)
        self.status = process.returncode
        self.told = sorted(line for path in told.iterdir() for line in path.read_text(encoding="utf-8").splitlines())

    def __repr__(self) -> str:
        return "\n".join([f"status {self.status}", *self.told, self.stdout, self.stderr])


class Runner:
    """Starts jobs on hosts, and ends them with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[subprocess.Popen[str], Path] = {}

    def start(
        self, network: Network, slots: Sequence[int], command: Sequence[str], on: int = 0, **variables: str
    ) -> subprocess.Popen[str]:
        """Start a launcher's command line on one of the hosts."""
        told = self._folder / f"told{len(self._jobs)}"
        told.mkdir()
        environment = {
            **os.environ,
            **network.environment(*slots),
            "TELL_FOLDER": str(told),
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **variables,
        }
        process = subprocess.Popen(
            network.command(network.hosts[on], command), env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._jobs[process] = told
        return process

    def told(self, process: subprocess.Popen[str]) -> Path:
        """Return where the ranks of a job tell."""
        return self._jobs[process]

    def end(self, process: subprocess.Popen[str]) -> Done:
        """Wait for a job's end."""
        return Done(process, self._jobs[process])

    def close(self) -> None:
        """End what is left."""
        for process in self._jobs:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.communicate()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Jobs of one test."""
    runner = Runner(tmp_path)
    yield runner
    runner.close()


def horovodrun(network: Network, slots: Sequence[int], job: str, *arguments: str) -> list[str]:
    """Return horovodrun's command line for a job, with all slots filled."""
    return [
        "horovodrun", "-np", str(sum(slots)), "-H", network.host_list(*slots), *arguments,
        sys.executable, str(JOBS / job),
    ]  # fmt: skip


def mpirun(network: Network, slots: Sequence[int], job: str, *arguments: str) -> list[str]:
    """Return Open MPI's command line for a job."""
    exported = ("PATH", "TELL_FOLDER", "OMP_NUM_THREADS", *arguments)
    return [
        "mpirun.openmpi", "-np", str(sum(slots)), "-H", network.host_list(*slots),
        "--bind-to", "none", "--map-by", "slot", "-mca", "pml", "ob1", "-mca", "btl", "^openib",
        "-mca", "oob_tcp_if_include", "wire0",
        *(word for name in exported for word in ("-x", name)), sys.executable, str(JOBS / job),
    ]  # fmt: skip


def with_training(folder: Path) -> Path:
    """Return a folder whose train.py tells where ranks are, with the `python` that scripts of examples/hpc start."""
    (folder / "train.py").write_text(f"import sys\nsys.path.insert(0, {str(JOBS)!r})\nimport placement\n")
    return folder


Launch = Callable[..., Done]


@pytest.fixture
def launch(runner: Runner) -> Launch:
    """Run a job to its end: by what, where, how many ranks on each host, which, and variables."""

    def run(by: str, network: Network, slots: Sequence[int], job: str, *arguments: str, **variables: str) -> Done:
        if by == "mpirun":
            if shutil.which("mpirun.openmpi") is None:
                pytest.skip("there is no mpirun of Open MPI")
            command = mpirun(network, slots, job, *arguments, *variables)
        else:
            command = horovodrun(network, slots, job, *arguments)
        return runner.end(runner.start(network, slots, command, **variables))

    return run
