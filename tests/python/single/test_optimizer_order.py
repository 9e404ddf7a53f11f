"""Ranks that make or use optimizers in different orders, in a job in which no engine was before."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import Launch

TESTS = Path(__file__).resolve().parents[1] / "parallel" / "test_two_optimizers.py"


def test_another_order_on_another_rank_is_an_error(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", sys.executable, "-m", "pytest", "-q", str(TESTS), "-k", "copies or another_order")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("6 passed") == 2, done.stdout
