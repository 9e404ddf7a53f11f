"""The README's first command, on the product that is installed already."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(not (ROOT / ".venv/bin/horovodrun").exists(), reason="tools/test.sh has not installed it here")
def test_demo_trains_and_says_what_came_out() -> None:
    done = subprocess.run(
        [ROOT / "tools/demo.sh", "--epochs", "4"],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for words in ("epoch  4/4", "final accuracy", "images/s on 4 processes", "build/demo/trace.html"):
        assert words in done.stdout, done.stdout
    assert len(done.stdout.splitlines()) <= 40
    assert "\033" not in done.stdout, "colours where there is no terminal"
    assert (ROOT / "build/demo/trace.html").stat().st_size > 1000
