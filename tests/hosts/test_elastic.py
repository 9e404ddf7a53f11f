"""Elastic jobs over hosts: random events of one seed (tests/elastic/events.py runs more, and others)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EVENTS = Path(__file__).parents[1] / "elastic" / "events.py"


@pytest.mark.usefixtures("two_hosts")  # skips where none can be made
def test_a_job_goes_on_whatever_happens() -> None:
    command = [sys.executable, str(EVENTS), "--hosts", "3", "--events", "15", "--seed", "11"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
