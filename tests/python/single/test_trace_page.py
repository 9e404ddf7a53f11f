"""The page of ``roda-trace`` in a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Tab
from conftest import Launch
from horovod.observe import page, steps, trace

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "build" / "results"


def report() -> steps.Report:
    splits = [[{"pack": 1000.0 * step, steps.COMPUTE: 5000.0} for step in (1, 2, 3)] for _ in (0, 1)]
    return steps.Report(
        ranks=[0, 1],
        hosts={0: "node0", 1: "node1"},
        windows=[(0, 6000), (6000, 13000), (13000, 21000)],
        steps={rank: [steps.RankStep(split, 0, 0, 0) for split in own] for rank, own in enumerate(splits)},
        phases=["pack", steps.COMPUTE],
        held_up={1: [0, 0, 0]},
        launches=[],
        sizes=[],
        advice=["Rank 1 holds the others up."],
    )


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    opened = Tab(tmp_path / "profile")
    yield opened
    opened.close()


def keep_picture(tab: Tab, name: str) -> None:
    if RESULTS.exists():
        tab.screenshot(RESULTS / f"roda-trace{name}.png")


def test_a_click_shows_one_step(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page.render(report()))
    tab.open(file)
    assert tab.texts("#advice") == ["Rank 1 holds the others up."]
    assert tab.texts("#table td") == ["rank 0 node0", "2.000", "5.000", "rank 1 node1", "2.000", "5.000"]
    tab.click("#steps button", 2)
    assert tab.texts("#which") == ["Step 3 alone."]
    assert tab.texts("#table td")[:3] == ["rank 0 node0", "3.000", "5.000"]
    keep_picture(tab, "")
    tab.click("#steps button", 2)
    assert tab.texts("#which") == ["Mean of all steps."]
    assert tab.said == []


def look_at_the_report(tab: Tab, traces: list[Path], name: str) -> tuple[str, int]:
    """Return the first advice, and the number of steps."""
    file = traces[0].parent / "page.html"
    assert trace.main([*map(str, traces), "-o", str(file)]) == 0
    tab.open(file)
    assert len(tab.texts("#ranks > *")) == 2
    before = tab.texts("#table td")
    tab.click("#steps button", 1)
    assert tab.texts("#which") == ["Step 2 alone."]
    assert tab.texts("#table td") != before
    keep_picture(tab, f"-{name}")
    assert tab.said == []
    return tab.texts("#advice li")[0], len(tab.texts("#steps button"))


def test_the_report_of_a_job_with_a_straggler(tab: Tab, straggler: list[Path]) -> None:
    advice, steps = look_at_the_report(tab, straggler, "straggler")
    assert advice.startswith("Rank 1 holds the others up: for ")
    assert steps == 10


def test_the_report_of_the_digits(horovodrun: Launch, tab: Tab, tmp_path: Path) -> None:
    environment = {**os.environ, "HOROVOD_TIMELINE": str(tmp_path / "trace.{rank}.json")}
    script = str(ROOT / "examples" / "pytorch_digits.py")
    done = horovodrun("-np", "2", sys.executable, script, "--epochs", "1", env=environment)
    assert done.returncode == 0, done.stderr
    _, steps = look_at_the_report(tab, [tmp_path / f"trace.{rank}.json" for rank in (0, 1)], "digits")
    assert steps >= 22
