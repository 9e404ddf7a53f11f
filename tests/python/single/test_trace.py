"""``roda-trace``: where the time of steps goes, who holds the others up, and the page that says so."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from horovod.observe import page, sampling, steps, timeline, trace
from traces import Job

EPOCH = 1_700_000_000_000_000


class Writer:
    """A rank's timeline, as the engine writes one."""

    def __init__(self, rank: int, host: str = "node", clock: int = 0) -> None:
        about = {"start_time_since_epoch_in_micros": EPOCH + clock, "rank": rank, "size": 2, "host": host}
        self._events: list[dict[str, object]] = [{"name": "process_name", "ph": "M", "pid": 0, "args": about}]
        self._tensors: dict[str, int] = {}
        self._launches = 0

    def _event(self, tensor: str, kind: str, at: float, name: str = "", **more: object) -> None:
        if tensor not in self._tensors:
            self._tensors[tensor] = len(self._tensors) + 1
            named = {"name": "process_name", "ph": "M", "pid": self._tensors[tensor], "args": {"name": tensor}}
            self._events.append(named)
        event = {"ph": kind, "ts": at, "pid": self._tensors[tensor], **more}
        self._events.append({"name": name, **event} if name else event)

    def announced(self, tensor: str, arrivals: dict[int, float]) -> None:
        """By rank: when it was heard."""
        self._event(tensor, "B", min(arrivals.values()), "NEGOTIATE_ALLREDUCE")
        for rank, at in sorted(arrivals.items(), key=lambda each: each[1]):
            self._event(tensor, "X", at, str(rank), dur=0)

    def ran(
        self,
        tensor: str,
        agreed: float,
        started: float,
        ended: float,
        size: int = 1 << 20,
        parts: tuple = (),
        formats: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`parts`: name, row, begin and end of each. `formats`: bytes meant and sent."""
        self._launches += 1
        args = {"launch": self._launches, "set": 0, "plan": "ring over shm", "tensors": 3, "bytes": size, **formats}
        self._event(tensor, "E", agreed, "NEGOTIATE_ALLREDUCE")
        self._event(tensor, "B", agreed, "ALLREDUCE")
        self._event(tensor, "B", agreed, "QUEUE")
        self._event(tensor, "E", started)
        self._event(tensor, "B", started, "SHM_ALLREDUCE", args=args)
        for what, row, begin, end in parts:
            self._event(tensor, "X", begin, what, tid=row, dur=end - begin, args={"slice": 0})
        self._event(tensor, "E", ended)
        self._event(tensor, "E", ended, args={"dtype": "float32", "shape": "[4]"})

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(self._events))
        return path


def steps_of(folder: Path, late: float = 0, length: float = 100, clock: int = 0) -> list[Path]:
    """Ten steps of two ranks with two tensors each; rank 1 submits later than rank 0. Its host's clock differs."""
    files = []
    for rank in (0, 1):
        writer = Writer(rank, f"node{rank}", clock * rank)
        for step in range(10):
            begin = step * (length + late) - clock * rank
            for tensor, at in (("a", begin + 40), ("b", begin + 50)):
                arrivals = {0: at, 1: at + late + 1}
                agreed = at + late + 2
                copies = ((timeline.PACKS, 1, agreed + 2, agreed + 3), (timeline.UNPACKS, 1, agreed + 6, agreed + 7))
                writer.announced(tensor, arrivals)
                writer.ran(tensor, agreed, agreed + 1, agreed + 8, parts=copies)
        files.append(writer.write(folder / f"trace.{rank}.json"))
    return files


report_of = trace.analyse


def data_of(text: str) -> dict[str, Any]:
    """Return what a page shows."""
    (data,) = re.findall(r"^const data = (.*);$", text, re.MULTILINE)
    return json.loads(data)


def test_a_step_is_split_without_rest(tmp_path: Path) -> None:
    report = report_of(steps_of(tmp_path))
    assert report.read == list(range(10))
    for rank in report.ranks.values():
        for number, (begin, end) in rank.windows.items():
            assert sum(rank.steps[number].split.values()) == pytest.approx(end - begin)
    step = report.ranks[0].steps[0].split
    assert step == {
        "pack": 2, "unpack": 2, "shm allreduce": 10, "queue": 2, "negotiate": 2, "wait for other ranks": 2,
        "own work": 80,
    }  # fmt: skip
    assert "wait for other ranks" not in report.ranks[1].steps[0].split


def test_stages_of_a_plan_are_told_apart(tmp_path: Path) -> None:
    writer = Writer(0)
    for begin in (0, 100):
        writer.announced("a", {0: begin, 1: begin})
        stages = (("SHM_REDUCESCATTER", 2, begin + 10, begin + 30), ("TCP_ALLREDUCE", 3, begin + 20, begin + 60))
        writer.ran("a", begin + 5, begin + 10, begin + 60, parts=stages)
    report = report_of([writer.write(tmp_path / "trace")])
    split = report.ranks[0].steps[0].split
    assert split["1. shm reducescatter"] + split["2. tcp allreduce"] == 50
    assert {"1. shm reducescatter", "2. tcp allreduce"} <= set(report.phases)


def test_a_planted_straggler_is_named_with_what_it_does(tmp_path: Path) -> None:
    report = report_of(steps_of(tmp_path, late=60))
    assert report.advice[0].startswith("Rank 1 holds the others up: for 4")
    assert 0.4 < report.held_up_share(1) < 0.5
    assert "most of it" not in report.advice[0]
    assert "its own work takes longer" in report.advice[0]


def test_a_rank_that_is_late_once_is_told_from_one_that_always_is(tmp_path: Path) -> None:
    writer = Writer(0)
    for step, late in enumerate((1, 1, 500, 1)):
        begin = step * 1000
        writer.announced("a", {0: begin, 1: begin + late})
        writer.ran("a", begin + late, begin + late, begin + late + 10)
    (advice,) = report_of([writer.write(tmp_path / "trace")]).advice
    assert "alone, most of it in step 3;" in advice


def test_without_its_file_a_straggler_is_named_all_the_same(tmp_path: Path) -> None:
    report = report_of(steps_of(tmp_path, late=60)[:1])
    assert re.match(r"Rank 1 holds the others up: .* there is no file of it", report.advice[0])


NOTHING = "No rank holds the others up, and communication costs little: there is nothing to gain here."
# The cause that is planted, and what the one advice says. In each job the ranks are out of step.
PLANTED = {
    "nothing": (Job(), NOTHING),
    "a job far out of step": (Job(late=lambda rank, step: 200 * rank), NOTHING),
    "a straggler": (
        Job(late=lambda rank, step: 40 * rank + (5000 if rank == 1 else 0)),
        r"Rank 1 holds the others up: for \d\d % .* its own work takes longer",
    ),
    "no overlap": (
        Job(run=1000, is_burst=True),
        r"Data move for 34 % of the time, 100 % of it after .* Submit each as soon as it is there",
    ),
    "a slow link": (
        Job(run=8000, plan="ring over tcp"),
        r"Data move for 9\d % of the time, .* The link is the limit, with 0.52 GB/s by ring over tcp: send fewer bytes",
    ),
    "shared cores": (
        Job(cores=2, run=1500, is_burst=True, late=lambda rank, step: 700 * ((rank + step) % 4)),
        "4 ranks of node0 share 2 cores: they take turns, .* Start at most 2 there",
    ),
    "small launches": (
        Job(tensors=30, run=20, bytes=1000, late=lambda rank, step: 9 * rank),
        "30 launches a step are smaller than 64 KiB",
    ),
}


@pytest.mark.parametrize("cause", PLANTED)
def test_the_advice_names_the_planted_cause_and_nothing_else(cause: str, tmp_path: Path) -> None:
    job, expected = PLANTED[cause]
    (advice,) = report_of(job.write(tmp_path)).advice
    assert re.match(expected, advice), advice


def test_a_terminal_sees_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = Job(2, 3).write(tmp_path)
    report_of(traces)
    assert capsys.readouterr().err == "", "no terminal"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    report_of(traces)
    shown = capsys.readouterr().err.split("\r\033[K")
    assert f"{'█' * 12}{'░' * 12} Reading rank 0: 1 of 2" in shown
    assert f"{'█' * 24} Reading rank 1: 2 of 2" in shown
    assert shown[-1] == "", "wiped"


@pytest.mark.parametrize("head", [1 << 18, 1000], ids=["a small file", "a large file"])
def test_a_job_that_still_runs_or_was_killed(head: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files end anywhere."""
    monkeypatch.setattr(timeline, "_HEAD", head)
    for path in (paths := Job(2, 20).write(tmp_path)):
        text = path.read_text()
        path.write_text(text[: text.rindex('"dtype"') + 3])
    report = report_of(paths)
    assert len(report.steps.lengths) in (19, 20)
    assert len(report.launches) == 79


def test_a_file_of_another_run_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though its launches have the same numbers."""
    paths = Job(3, 4).write(tmp_path)
    text = paths[1].read_text()
    epoch = re.search(r'"start_time_since_epoch_in_micros": (\d+)', text)[1]
    paths[1].write_text(text.replace(epoch, str(int(epoch) - 3600 * 1_000_000)))
    assert trace.main([*map(str, paths), "-o", str(tmp_path / "page.html")]) == 0
    told = "The timeline of rank 1 is left out: it is of another run than that of rank 0, 3600 s before."
    assert told in capsys.readouterr().out.splitlines()


def test_a_second_file_of_a_rank_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = Job(2, 4).write(tmp_path)
    assert trace.main([*map(str, paths), str(paths[1]), "-o", str(tmp_path / "page.html")]) == 0
    assert "A further timeline of rank 1 is left out." in capsys.readouterr().out.splitlines()


def test_a_full_disk_is_told_with_the_pages_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace.main([*map(str, Job(2, 4).write(tmp_path)), "-o", "/dev/full"]) == 1
    assert capsys.readouterr().err == "roda-trace: /dev/full: No space left on device\n"


def test_a_rank_of_another_job_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Job(2, 6).write(tmp_path)
    stranger = Writer(2)
    stranger.announced("other", {2: 0})
    stranger.ran("other", 1, 1, 1)
    files.append(stranger.write(tmp_path / "trace.2.json"))
    assert trace.main([*map(str, files), "-o", str(tmp_path / "page")]) == 0
    assert "The timeline of rank 2 has no step: all that" in capsys.readouterr().out
    assert "The timeline of rank 2 has no step: all that" in (tmp_path / "page").read_text()


def test_a_large_file_without_launches_is_read_whole(tmp_path: Path) -> None:
    (path,) = Job(1, 400).write(tmp_path)
    path.write_text(re.sub(r'"launch": \d+, "set": 0, ', "", path.read_text()))
    files = [timeline.TimelineFile(path)]
    told, whole = sampling.choose_steps(files, 100_000)
    assert len(told.lengths) == 400
    assert sampling.parts_of(files[0], told) == [(0, files[0].size)]
    assert len(steps.of_rank(whole, told, []).steps) == 400


def test_each_rank_has_its_own_steps(tmp_path: Path) -> None:
    """One that is ahead begins the next step within the first one's."""
    report = report_of(Job(late=lambda rank, step: 300 * (4 - rank)).write(tmp_path))
    for rank in report.ranks.values():
        running = rank.mean(lambda step: step.running)
        assert running == 4 * 200
        assert rank.mean(lambda step: step.overlapped) == pytest.approx(3 / 4 * running)


def test_a_long_job_is_read_in_parts(tmp_path: Path) -> None:
    """All steps' lengths are told, and the longest ones are read."""
    job = Job(steps=400, late=lambda rank, step: 40 * rank + (9000 if step == 333 and rank == 2 else 0))
    files = [timeline.TimelineFile(path) for path in job.write(tmp_path)]
    whole, _ = sampling.choose_steps(files)
    told, _ = sampling.choose_steps(files, 400_000)
    assert len(told.lengths) == 399, "all but the last one"
    assert 333 in told.drawn
    assert set(told.drawn) <= told.chosen
    assert len(told.chosen) < 200
    for file in files:
        parts = sampling.parts_of(file, told)
        assert sum(end - begin for begin, end in parts) < file.size
        sampled = steps.of_rank(file.timeline(parts), told, [])
        fully = steps.of_rank(file.timeline(), whole, [])
        assert sampled.steps.keys() == told.chosen
        assert all(sampled.steps[number] == fully.steps[number] for number in sampled.steps)


def test_hosts_clocks_are_brought_together(tmp_path: Path) -> None:
    report = report_of(steps_of(tmp_path, clock=5_000_000))
    assert report.clocks_apart == 0, "the files of both hosts tell the same moments"
    first, second = report.ranks.values()
    second.about = dataclasses.replace(second.about, start_time_since_epoch_in_micros=EPOCH)
    offsets, apart = steps.align([first, second])
    assert apart == 5_000_000
    assert {first.agreed[key] - second.agreed[key] for key in first.agreed} == {offsets[1]}


def test_a_tensor_may_be_announced_again_before_it_has_ended(tmp_path: Path) -> None:
    writer = Writer(0)
    writer.announced("a", {0: 0, 1: 1})
    writer._event("a", "E", 2, "NEGOTIATE_ALLREDUCE")
    writer._event("a", "B", 2, "ALLREDUCE")
    writer._event("a", "B", 2, "QUEUE")
    writer._event("a", "E", 3)
    writer._event("a", "B", 3, "SHM_ALLREDUCE", args={"launch": 1, "set": 0})
    writer.announced("a", {1: 4})
    writer._event("a", "E", 5)
    writer._event("a", "E", 5)
    writer._event("a", "X", 7, "0", dur=0)
    writer.ran("a", 8, 9, 10)
    first, second = timeline.read(writer.write(tmp_path / "trace")).uses
    assert (first.announced, first.agreed, first.started, first.ended) == (
        {0: 0, 1: 1}, 2, 3, 5,
    )  # fmt: skip
    assert (second.announced, second.ended) == ({1: 4, 0: 7}, 10)


def test_horovods_own_file_is_read(tmp_path: Path) -> None:
    """It tells nothing of launches, and not who wrote it: rank 0."""
    writer = Writer(0)
    for begin in (0, 100):
        writer.announced("a", {0: begin, 1: begin + 9})
        writer._event("a", "E", begin + 10, "NEGOTIATE_ALLREDUCE")
        writer._event("a", "B", begin + 10, "ALLREDUCE")
        writer._event("a", "B", begin + 12, "NCCL_ALLREDUCE")
        writer._event("a", "E", begin + 20)
        writer._event("a", "E", begin + 20)
    about = writer._events[0]["args"]
    writer._events[0]["args"] = {key: about[key] for key in about if key.startswith("start_time")}
    report = report_of([writer.write(tmp_path / "trace")])
    assert report.ranks[0].steps[0].split["nccl allreduce"] == 8
    assert report.held_up[1] == {0: 9, 1: 9}
    assert data_of(page.render(report))["sizes"] == []


def test_advice_on_what_moves_late_small_and_packed(tmp_path: Path) -> None:
    writer = Writer(0)
    for begin in (0, 1000):
        for tensor in range(30):
            at = begin + tensor
            writer.announced(f"t{tensor}", {0: at, 1: at})
            copies = ((timeline.PACKS, 1, begin + 110, begin + 400),)
            writer.ran(f"t{tensor}", begin + 100, begin + 100, begin + 900, size=1000, parts=copies)
    late, small, packed = report_of([writer.write(tmp_path / "trace")]).advice
    assert "after the step's last tensor was submitted" in late
    assert small.startswith("30 launches a step are smaller than 64 KiB")
    assert packed.startswith("Packing and unpacking take 36 % of the time in which data move")


def test_bandwidth_goes_by_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer(0)
    for begin, size in ((0, 1000), (1000, 1_000_000), (2000, 1_040_000)):
        writer.announced("a", {0: begin, 1: begin})
        writer.ran("a", begin, begin, begin + 100, size=size)
    file = writer.write(tmp_path / "trace")
    small, large = report_of([file]).sizes
    assert small == steps.BySize(512, 1, pytest.approx(0.01), pytest.approx(0.01), None)
    assert large == steps.BySize(512 << 10, 2, pytest.approx(10.2), pytest.approx(10.4), None)
    perf = tmp_path / "perf"
    lines = [{"collective": "allreduce", "bytes": size, "algbw_GBps": size / 40_000} for size in (4096, 1 << 20)]
    perf.write_text("\n".join(map(json.dumps, [*lines, {**lines[1], "collective": "barrier", "algbw_GBps": 1}])))
    assert trace.main([str(file), "--perf", str(perf), "-o", str(tmp_path / "page")]) == 0
    assert "Launches of 512 KiB to 1 MiB move 10.2 GB/s, where roda-perf measured 26.2" in capsys.readouterr().out
    assert data_of((tmp_path / "page").read_text())["sizes"] == [
        [512, 1, pytest.approx(0.01), pytest.approx(0.01), None],
        [512 << 10, 2, pytest.approx(10.2), pytest.approx(10.4), pytest.approx(26.2, abs=0.1)],
    ]
    assert trace.main([str(file), "--perf", str(file)]) == 1
    assert "is not what roda-perf --json prints" in capsys.readouterr().err


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing_of_the_job(tmp_path: Path) -> None:
    writer = Writer(0, host="</script><b>")
    writer.announced("a", {0: 0, 1: 1})
    writer.ran("a", 2, 3, 4)
    text = page.render(report_of([writer.write(tmp_path / "trace")]))
    assert "//" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(?:src=|href=|import\b|url\(|fetch\()", text)
    assert "</script><b>" not in text
    assert data_of(text)["ranks"] == ["0 </script><b>"]


def test_the_page_says_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_LANES", 4)
    monkeypatch.setattr(page, "_MOST_BARS", 200)
    monkeypatch.setattr(page, "_MOST_COLUMNS", 8)
    monkeypatch.setattr(page, "_MOST_ROWS", 3)
    straggler = 6
    text = page.render(report_of(Job(8, 20, late=lambda rank, step: 900 * (rank == straggler)).write(tmp_path)))
    assert "4 of 8 ranks have a lane" in text
    assert "A point of the map is the longest of several steps or ranks." in text
    assert "short bars of single steps have no room" in text
    data = data_of(text)
    assert data["ranks"] == ["0 node0", "2 node0", "4 node0", "6 node0"]
    assert data["heat"]["rows"] == ["ranks 0 and 1", "ranks 2 to 4", "ranks 5 to 7"]
    held_up = base64.b64decode(data["heat"]["values"][0]["data"])
    assert max(held_up[:16]) < min(held_up[16:]), "the straggler's row"
    assert sum(len(lane["phases"]) // 3 for step in data["drawn"] for lane in step["lanes"]) <= 200


def test_the_page_is_small_whatever_names_are(tmp_path: Path) -> None:
    writer = Writer(0)
    for begin in (0, 100_000):
        for tensor in range(50):
            name, at = f"{'layer' * 10_000}.{tensor}", begin + 10 * tensor
            writer.announced(name, {0: at})
            formats = {"bytes_meant": 512 << 10, "bytes_sent": 128 << 10} if tensor == 48 else {}
            writer.ran(name, at + 1, at + 2, at + 3, formats=formats)
    text = page.render(report_of([writer.write(tmp_path / "trace")]))
    assert len(text) < 100_000
    assert ".49 and 2 more: 1 MiB, ring over shm" in text
    assert ".48 and 2 more: 1 MiB (128 KiB sent for 512 KiB), ring over shm" in text
    assert data_of(text)["plans"] == [["ring over shm", 100, "100 MiB (256 KiB sent for 1 MiB)"]]


@pytest.mark.parametrize(
    ("text", "why"), [("no", "is no timeline"), ("[]", "is no timeline"), ("{}", "is no timeline"), (None, "No such")]
)
def test_what_is_no_timeline_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    assert trace.main([str(tmp_path / "x.json"), "-o", str(tmp_path / "page")]) == 1
    error = capsys.readouterr().err
    assert "x.json" in error
    assert why in error
    assert trace.main([str(Writer(0).write(tmp_path / "y.json")), "-o", str(tmp_path / "page")]) == 1
    assert "no operation that ended" in capsys.readouterr().err


def test_a_job_with_a_planted_straggler(
    straggler: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    assert trace.main([*map(str, straggler), "-o", str(target)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Rank 1 holds the others up: for "), told
    assert "its own work takes longer" in told
    data = data_of(target.read_text())
    mean = [dict(zip(data["phases"], own)) for own in data["mean"]]
    assert len(data["lengths"]) == 10
    assert mean[0]["wait for other ranks"] > mean[1]["wait for other ranks"]
    assert mean[1]["own work"] > mean[0]["own work"]
    assert all(own[phase] > 0 for own in mean for phase in ("pack", "unpack", "shm allreduce"))
    first = timeline.read(straggler[0])
    assert first.about.cores > 0
    launches = [use.args for use in first.uses if use.args.bytes is not None]
    assert {(each.tensors, each.bytes) for each in launches} == {(4, 4 * (4000 + 6)), (1, 4 << 20)}
    assert all(each.plan.endswith(" over shm") for each in launches)
