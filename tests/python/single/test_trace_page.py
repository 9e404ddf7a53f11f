"""The page of ``roda-trace`` in a browser."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Tab
from conftest import Launch
from horovod.observe import page, trace
from traces import Job

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "build" / "results"


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    opened = Tab(tmp_path / "profile")
    yield opened
    opened.close()


def keep_picture(tab: Tab, name: str) -> None:
    if RESULTS.exists():
        tab.screenshot(RESULTS / f"roda-trace{name}.png")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job whose rank 2 is late in step 14."""
    folder = tmp_path_factory.mktemp("planted")
    file = folder / "page.html"
    late = Job(late=lambda rank, step: 40 * rank + (9000 if rank == 2 and step == 13 else 0))
    file.write_text(page.render(trace.analyse(late.write(folder))))
    return file


def test_a_click_shows_one_step(tab: Tab, planted: Path) -> None:
    tab.open(planted)
    assert tab.texts("#which") == ["Mean of the steps that were read."]
    assert tab.texts("#steps button")[2].startswith("step 14: 17")
    tab.click("#steps button", 2)
    assert tab.texts("#which") == ["Step 14 alone."]
    keep_picture(tab, "")
    tab.click("#steps button", 2)
    assert tab.texts("#which") == ["Mean of the steps that were read."]
    assert tab.said == []


def test_a_step_zooms_and_pans(tab: Tab, planted: Path) -> None:
    tab.open(planted)
    tab.click("#steps button", 2)
    whole = tab.evaluate("view")
    tab.click("#in")
    near = tab.evaluate("view")
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
    tab.evaluate("by('lanes').onkeydown(new KeyboardEvent('keydown', {key: 'ArrowRight'}))")
    moved = tab.evaluate("view")
    assert moved[0] > near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    tab.evaluate("by('lanes').onkeydown(new KeyboardEvent('keydown', {key: '0'}))")
    assert tab.evaluate("view") == whole
    tab.evaluate("tellUnder({offsetX: 200, offsetY: 20})")
    assert tab.texts("#under")[0].startswith("rank 0 node0, ")
    assert "wait for other ranks" in tab.texts("#under")[0]


def test_the_map_tells_what_is_pointed_at(tab: Tab, planted: Path) -> None:
    tab.open(planted)
    for key in ("ArrowDown", "ArrowDown", *("ArrowRight",) * 13):
        tab.evaluate(f"by('heat').onkeydown(new KeyboardEvent('keydown', {{key: '{key}'}}))")
    assert tab.texts("#point") == ["rank 2, step 14: the others wait for it alone for 15 ms"]


def test_a_step_opens_in_perfetto(tab: Tab, planted: Path) -> None:
    """In a window that is given the step once it has answered."""
    tab.open(planted)
    tab.evaluate("window.sent = []; window.open = at => window.other = { at, postMessage: what => sent.push(what) }")
    tab.click("#steps button", 2)
    tab.click("#perfetto")
    tab.evaluate("dispatchEvent(Object.assign(new Event('message'), { source: {}, data: 'PONG' }))")
    assert tab.evaluate("sent.filter(each => each.perfetto).length") == 0
    tab.evaluate("dispatchEvent(Object.assign(new Event('message'), { source: other, data: 'PONG' }))")
    assert tab.evaluate("other.at") == "https://ui.perfetto.dev"
    assert tab.evaluate("sent.at(-1).perfetto.title") == "Step 14"
    events = json.loads(tab.evaluate("new TextDecoder().decode(sent.at(-1).perfetto.buffer)"))["traceEvents"]
    assert [each["args"]["name"] for each in events if each["ph"] == "M"] == [f"rank {n} node0" for n in range(4)]
    waits = {each["pid"]: each["dur"] for each in events if each["name"] == "wait for other ranks"}
    assert set(waits) == {0, 1, 3}
    assert "shm allreduce" in {each["name"] for each in events}


def test_all_of_many_ranks_are_seen_at_once(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page.render(trace.analyse(Job(64, 3).write(tmp_path))))
    tab.look_as(1280, "light")
    tab.open(file)
    assert tab.evaluate(
        "document.querySelector('.scroll').scrollHeight <= document.querySelector('.scroll').clientHeight"
    )


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark"), (2400, "light")])
def test_the_page_fits_screens(tab: Tab, planted: Path, width: int, scheme: str) -> None:
    tab.look_as(width, scheme)
    tab.open(planted)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    shade = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (shade == "rgb(255, 255, 255)") == (scheme == "light")
    keep_picture(tab, f"-{width}-{scheme}")


def look_at_the_report(tab: Tab, traces: list[Path], name: str) -> tuple[str, int]:
    """Return the first advice, and the number of steps."""
    file = traces[0].parent / "page.html"
    assert trace.main([*map(str, traces), "-o", str(file)]) == 0
    tab.open(file)
    assert len(tab.texts("#ranks > *")) == 2
    before = tab.texts("#table")
    tab.click("details summary")
    tab.click("#steps button", 1)
    assert tab.texts("#which")[0].endswith(" alone.")
    assert tab.texts("#table") != before
    keep_picture(tab, f"-{name}")
    assert tab.said == []
    return tab.texts("#advice li")[0], tab.evaluate("data.steps")


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
