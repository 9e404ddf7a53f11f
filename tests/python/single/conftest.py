"""Tests that need one process, and start whatever else they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]
PYTHON = sys.executable
FIELDS = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def launcher() -> list[str]:
    """Return the command that is ``horovodrun``."""
    script = shutil.which("horovodrun")
    return [script] if script else [sys.executable, "-m", "horovod.runner.launch"]


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{100000 + os.getpid()}.5"


def alive(marker: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if marker in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def horovodrun() -> Launch:
    """Run a job to its end."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*launcher(), *arguments], capture_output=True, text=True, timeout=120, **options)

    return run


@pytest.fixture
def start_horovodrun() -> Callable[..., subprocess.Popen[str]]:
    """Start a job."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*launcher(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


STRAGGLES = """
import time, torch
import horovod.torch as hvd
hvd.init()
tensors = [torch.ones(1000 + i) for i in range(4)]
for step in range(10):
    time.sleep(0.01 + 0.04 * hvd.rank())
    hvd.grouped_allreduce(tensors, name="grad")
    hvd.allreduce(torch.ones(1 << 20), name="large")
hvd.shutdown()
"""


@pytest.fixture(scope="session")
def straggler(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The timelines of a job of two ranks, whose rank 1 always comes late."""
    folder = tmp_path_factory.mktemp("straggler")
    environment = {**os.environ, "HOROVOD_TIMELINE": str(folder / "trace.{rank}.json")}
    command = [*launcher(), "-np", "2", sys.executable, "-c", STRAGGLES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [folder / f"trace.{rank}.json" for rank in (0, 1)]
