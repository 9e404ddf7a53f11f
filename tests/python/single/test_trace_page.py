"""The page of ``roda-trace`` in a browser; docs/testing.md says how to run it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from horovod.observe import page, steps

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
RESULTS = Path(__file__).parents[3] / "build" / "results"


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


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_click_shows_one_step(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page.render(report()))
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
        tab.goto(file.as_uri())
        assert "Rank 1 holds the others up." in tab.locator("#advice").inner_text()
        cells = tab.locator("#table td")
        assert cells.all_inner_texts() == ["rank 0 node0", "2.000", "5.000", "rank 1 node1", "2.000", "5.000"]
        third = tab.locator("#steps button").nth(2)
        third.click()
        assert tab.locator("#which").inner_text() == "Step 3 alone."
        assert cells.all_inner_texts()[:3] == ["rank 0 node0", "3.000", "5.000"]
        tab.screenshot(path=(RESULTS if RESULTS.exists() else tmp_path) / "roda-trace.png", full_page=True)
        third.click()
        assert tab.locator("#which").inner_text() == "Mean of all steps."
        assert said == []
        browser.close()
