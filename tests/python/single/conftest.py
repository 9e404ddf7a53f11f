"""Tests that need one process, and start whatever else they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]


def launcher() -> list[str]:
    """Return the command that is ``horovodrun``."""
    script = shutil.which("horovodrun")
    return [script] if script else [sys.executable, "-m", "horovod.runner.launch"]


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
