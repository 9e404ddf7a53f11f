"""``roda-top``: rates between two looks, and metrics."""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from horovod.observe import flight, jobs, metrics, others, top, trace
from horovod.observe.diagnosis import diagnose
from horovod.observe.rates import diagnosis, line_of, rates, rates_of

SECOND = 10**9


def rank(taken: int, operations: list[flight.Operation], ended: int = 0, sent: int = 0) -> flight.Rank:
    place = {"pid": 7, "generation": 1, "host": 'a"b', "transports": "shm", "wall_offset": 0, "started": 0}
    told = {"last": 0, "ended": ended, "ended_bytes": sent, "operations": operations}
    return flight.Rank(rank=0, size=1, **place, **told, taken=taken * SECOND, process="running")


def operation(
    name: str, submitted: float, agreed: float = 0, launched: float = 0, ended: float = 0, last: int = -1
) -> flight.Operation:
    times = [int(at * SECOND) for at in (submitted, agreed, launched, ended)]
    return flight.Operation(int(submitted * 1000) + 1, name, "allreduce", "float32", 0, 4, *times, 0, last, 0)


def test_rates_are_of_what_lies_between_two_looks() -> None:
    before = rank(10, [], ended=100, sent=1000)
    operations = [
        operation("old", 8, 9, 9, 9.5),
        operation("a", 9.5, 10.5, 10.5, 11),  # half a second each of what is looked at
        operation("b", 10.25, 10.5, 10.75, 11),  # at the same time
        operation("c", 13, 13, 13, 13.5),
        operation("d", 13.75),
    ]
    told = rates(before, rank(14, operations, ended=104, sent=1400))
    assert told.operations == 1
    assert told.bytes == 100
    assert told.waits == pytest.approx((0.5 + 0.25) / 4)
    assert told.runs == pytest.approx((0.5 + 0.5) / 4)
    assert told.oldest_wait == pytest.approx(0.25)
    assert told.steps is None


def test_steps_are_told_by_names_that_come_again() -> None:
    names = [("a", at) for at in (1, 3, 5, 7)] + [("b", at) for at in (1.5, 3.5, 5.5, 7.5)]
    twice = [("barrier", at / 2) for at in range(2, 16)]
    operations = [operation(name, at, at, at, at) for name, at in sorted([*names, *twice], key=lambda each: each[1])]
    told = rates(rank(7, []), rank(8, operations))
    assert told.steps == pytest.approx(0.5)


def steps_of_rank(
    every: float, last: float, taken: int, number: int = 0, waits: float = 0.0, late: int = 0
) -> flight.Rank:
    """Return a rank with an operation at the end of each step, for which it waited for a late rank a part of it."""
    ends = [at * every for at in range(1, 200) if at * every <= last]
    operations = [operation("grad", end - waits * every, end, end, end, late) for end in ends]
    told = rank(taken, operations, ended=len(ends), sent=4 * len(ends))
    told.rank, told.size, told.last = number, 4, len(ends)
    return told


def test_all_rates_fall_to_nothing_in_a_hang() -> None:
    """In the same time: that of some steps, where that is longer than between two looks."""
    fast = [steps_of_rank(0.05, 8, taken) for taken in (8, 9, 10)]
    told = [rates(*looks) for looks in zip(fast, fast[1:])]
    assert [(each.steps, each.operations, each.bytes) for each in told] == [(0, 0, 0), (0, 0, 0)]
    slow = [rates(steps_of_rank(2, 8, taken - 1), steps_of_rank(2, 8, taken)) for taken in (8, 10, 12, 15, 17)]
    assert slow[0].steps == slow[0].operations == 0.5
    assert slow[0].bytes == 2
    assert [each.operations for each in slow] == [0.5, 3 / 8, 2 / 8, 1 / 8, 0]
    assert [each.steps for each in slow] == [each.operations for each in slow]


def test_a_rank_that_is_gone_does_nothing() -> None:
    gone = steps_of_rank(0.05, 8, 8)
    gone.process = "gone"
    told = rates(steps_of_rank(0.05, 7, 7), gone)
    assert (told.steps, told.operations, told.bytes, told.waits) == (0, 0, 0, 0)
    assert 'roda_steps_per_second{rank="0",host="a\\"b",pid="7"} 0' in metrics.prometheus([told]).splitlines()


def test_a_straggler_of_a_slow_job_is_named() -> None:
    def looks(waits: list[float], late: list[int]) -> list[rates]:
        return [
            rates(*(steps_of_rank(0.1, taken, taken, number, share, late[number]) for taken in (9, 10)))
            for number, share in enumerate(waits)
        ]

    late = looks([0.08, 0.48, 0.48, 0.48], [3, 0, 0, 0])
    assert diagnosis(late) == ["Ranks 1 to 3 wait 48 % of the time for rank 0."]
    assert diagnosis(late)[0] in top.table(late, {})
    told = metrics.prometheus(late)
    assert [float(each) for each in re.findall(r"roda_late_ratio\{.*} (.*)", told)] == pytest.approx([0.48, 0, 0, 0.08])
    for waits, last in (([0.4] * 4, [1, 2, 3, 0]), ([0, 0.02, 0.02, 0.02], [0] * 4), ([0, 0, 0, 0.5], [0] * 4)):
        assert diagnosis(looks(waits, last))[0].startswith("Nothing waits for another rank")


def test_in_a_hang_the_rank_that_alone_is_missing_is_late() -> None:
    waiting = rank(10, [operation("a", 1, 1, 1, 1), operation("b", 6)])
    waiting.operations[-1].awaited_rank, waiting.operations[-1].missing_count = 1, 1
    told = rates(rank(0, []), waiting)
    assert (told.awaited, told.awaits) == (1, pytest.approx(0.4))
    waiting.operations[-1].missing_count = 2  # and who is the last of them is not known
    assert rates(rank(0, []), waiting).awaited == -1


def test_a_file_for_metrics_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for file, why in ((tmp_path / "none" / "x", "No such file"), (tmp_path, "Is a directory"), (Path("/"), "")):
        with pytest.raises(OSError, match=f"^--prometheus-file {file}: {why}"):
            metrics.Metrics(file, "127.0.0.1", None).tell([])
    assert not list(tmp_path.parent.glob(".*" + tmp_path.name + "*"))


def test_a_rank_that_submits_more_meanwhile_does_not_wait() -> None:
    operations = [operation(name, at, 8, 8, 8, last=1) for name, at in (("a", 1), ("b", 3), ("c", 7))]
    told = rates(rank(0, []), rank(10, operations))
    assert (told.awaited, told.awaits, told.waits) == (1, pytest.approx(0.1), pytest.approx(0.7))


def test_the_next_step_may_begin_in_the_tick_in_which_the_wait_ended() -> None:
    steps = [operation(name, at, at + 2, at + 2, at + 2, last=1) for at in range(0, 8, 2) for name in ("a", "b")]
    in_no_time = [operation("c", 8, 8, 8, 8, last=1)]
    assert rates(rank(0, []), rank(10, steps + in_no_time)).awaits == pytest.approx(0.8)


def test_a_look_is_a_line_of_json() -> None:
    told = json.loads(top.as_json([rates(steps_of_rank(2, 8, 7), steps_of_rank(2, 8, 8))], {"b": "it sleeps"}))
    assert told["ranks"][0]["steps_per_second"] == 0.5
    assert told["unknown"] == {"b": "it sleeps"}
    assert told["diagnosis"]


def test_keys_sort_and_quit() -> None:
    keys = iter("sxsq")
    shown: list[str] = []
    terminal = argparse.Namespace(wait=lambda _: next(keys))
    assert top._pause(terminal, 60, "rank", shown.append) == ""
    assert shown == ["wait", "run"]
    told = [rates(steps_of_rank(0.1, 9, 9, n, n / 10), steps_of_rank(0.1, 10, 10, n, n / 10)) for n in range(4)]
    assert [each.rank.rank for each in top._sorted(told, "wait")] == [3, 2, 1, 0]
    assert [each.rank.rank for each in top._sorted(reversed(told), "rank")] == [0, 1, 2, 3]


def test_the_view_fits_its_terminal() -> None:
    told = [rates(steps_of_rank(0.1, 9, 9, n), steps_of_rank(0.1, 10, 10, n)) for n in range(64)]
    lines = top.table(told, {}, size=os.terminal_size((50, 24))).splitlines()
    assert len(lines) < 20
    assert max(len(line) for line in lines[:-1]) <= 50
    assert lines[-3] == "… and 50 more ranks"
    assert "… and 1 more rank\n" in top.table(told[:15], {}, size=os.terminal_size((50, 24)))


def test_steps_lately_are_a_row_of_bars(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert top.sparkline([0, 5, 10, 10, 2]) == "▁▅██▂"
    assert top.sparkline([0, 0]) == "▁▁"
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    terminal = top._Terminal(is_used=True)
    terminal.show("view", [0, 13.37], "rank")
    terminal.show("view", [0, 0], "rank")
    first, second = capsys.readouterr().out.split("\033[H\033[J")[1:]
    assert first.startswith("view\n\nsteps/s  ▁█  13.4\n\n")
    assert "steps/s" not in second


def has_begun(program: subprocess.Popen[bytes]) -> None:
    """Wait until the kernel tells a program's words: a moment after Popen returns, which waits for exec's begin."""
    while not Path(f"/proc/{program.pid}/cmdline").read_bytes():
        time.sleep(0.001)


def test_the_one_job_is_found_and_several_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = psutil.Process().pid
    found: dict[int, list[flight.Rank]] = {}
    monkeypatch.setattr(jobs, "jobs", lambda: found)
    with pytest.raises(flight.NoRecordError, match="no job of yours runs here"):
        jobs.find_job("roda-top")
    first = rank(1, [])
    first.pid = mine
    found[mine] = [first]
    assert jobs.find_job("roda-top") == mine
    command = ["sh", "-c", "echo\nread x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as program:
        has_begun(program)
        first.pid = program.pid
        assert "sh -c echo read x" in jobs._about(mine, [first])
        program.communicate()
    found[program.pid] = [rank(1, [])]
    found[program.pid][0].pid = program.pid  # has ended since it was found
    first.pid = mine
    assert jobs.find_job("roda-top") == mine
    found[mine + 1] = [first]
    with pytest.raises(
        flight.NoRecordError, match=rf"2 jobs run here; say which, as roda-top PID:\n  {mine}: 1 rank, "
    ):
        jobs.find_job("roda-top")


def test_the_jobs_timelines_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"HOROVOD_TIMELINE": "trace.{rank}.json"}
    with subprocess.Popen(["/bin/sleep", "1000"], env=environment, cwd=tmp_path) as writer:
        has_begun(writer)
        first = rank(1, [])
        first.pid = writer.pid
        monkeypatch.setattr(jobs, "jobs", lambda: {writer.pid: [first]})
        with pytest.raises(flight.NoRecordError, match="write no timeline"):
            jobs.find_timelines("roda-trace")
        (tmp_path / "trace.0.json").write_text("[]")
        assert jobs.find_timelines("roda-trace") == [tmp_path / "trace.0.json"]
        monkeypatch.setattr(jobs, "jobs", lambda: {writer.pid: [first], writer.pid + 1: [first]})
        monkeypatch.setattr(flight, "open_job", lambda _: argparse.Namespace(read=lambda: [first]))
        with pytest.raises(flight.NoRecordError, match="2 jobs run here; say which, as roda-trace PID"):
            trace._timelines([])
        assert trace._timelines([Path(str(writer.pid))]) == [tmp_path / "trace.0.json"]
        writer.kill()


def test_metrics_are_prometheus_text() -> None:
    told = [rates(rank(1, [], ended=3), rank(2, [operation("a", 1.5)], ended=5, sent=9))]
    lines = metrics.prometheus(told).splitlines()
    assert 'roda_operations_total{rank="0",host="a\\"b",pid="7"} 5' in lines
    assert 'roda_wait_ratio{rank="0",host="a\\"b",pid="7"} 0.5' in lines
    assert 'roda_up{rank="0",host="a\\"b",pid="7"} 1' in lines
    samples = [line.split("{")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    assert "roda_steps_per_second" not in samples
    assert all(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}" in lines for name in samples)


def test_an_elastic_job_is_followed_into_its_next_generation() -> None:
    """Which has memory of its own; that of the last one stands still."""
    taken = iter(range(1, 100))

    class Job:
        def __init__(self, generation: int, moves: bool) -> None:
            self.generation, self.moves, self.last = generation, moves, 5

        def read(self) -> list[flight.Rank]:
            self.last += self.moves
            now = rank(next(taken), [], ended=self.last)
            now.generation, now.last = self.generation, self.last
            return [now]

    jobs = [Job(1, moves=True), Job(2, moves=True)]
    looks = top.Looks(lambda: jobs.pop(0))
    assert [each.operations for each in looks.look()] == [1]
    looks.job.moves = False
    assert [(each.rank.generation, each.operations) for each in looks.look()] == [(2, 0)]
    assert [(each.rank.generation, each.operations) for each in looks.look()] == [(2, 1)]
    assert not jobs


def test_what_another_host_tells_is_what_it_saw() -> None:
    old = [operation(f"old.{number}", number / 100, 9, 9, 9) for number in range(1, 200)]
    told = [rates(rank(9, []), rank(14, [*old, operation("waits", 11), operation("runs", 10, 11, 11)], ended=199))]
    line = line_of(told)
    (read,) = rates_of(line)
    assert (read.operations, read.waits, read.oldest_wait) == (told[0].operations, told[0].waits, told[0].oldest_wait)
    assert diagnose([read.rank]) == diagnose([told[0].rank])
    assert [each.name for each in read.rank.operations] == ["old.1", "runs", "waits"], "not what has ended"
    for spoilt in ("{", "{}", line.replace('"waits": 0', '"wanes": 0'), line.replace('"roda_flight": 1', '"x": 1')):
        with pytest.raises(flight.NoRecordError):
            rates_of(spoilt)


# As `agent <host> <command>`.
AGENT = """#!/bin/sh
echo Welcome to $1
case $1 in
says) echo '{"its": "last"}'; exit 0 ;;
fails) echo '{"its": "last"}'; echo first >&2; echo 'it broke' >&2; exit 3 ;;
ends) exit 0 ;;
hangs) exec sleep 1000 ;;
esac
"""


def test_hosts_that_can_not_be_asked_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs holds nobody up."""
    monkeypatch.setattr(others, "_ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(flight, "mark_of_job", lambda ranks: "JOB=1")
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    parser = argparse.ArgumentParser()
    others.add_others(parser)
    hosts = ["here", "says", "fails", "ends", "hangs", "-oProxyCommand=reboot"]
    here = [rank(1, [])]
    here[0].host = "here"
    with others.Others(parser.parse_args(["--rsh-agent", str(agent)]), ["nothing"], json.loads) as asked:
        asked.ask(hosts, here)
        asked.wait()
        while not asked.are_over():
            time.sleep(0.05)
        assert asked.answers() == [{"its": "last"}]
        unknown = asked.unknown()
        assert re.fullmatch(r"it has said nothing for \d+ s", unknown.pop("hangs"))
        assert unknown == {
            "-oProxyCommand=reboot": "that is no name of a host",
            "ends": "the remote shell ended with status 0",
            "fails": "it broke",
        }
        asked.ask(["here", "says"], here)
        assert not asked.unknown(), "who has left the job is asked no more"
    with others.Others(parser.parse_args(["--rsh-agent", "/nowhere"]), ["nothing"], json.loads) as asked:
        asked.ask(["says"], here)
        assert "No such file" in asked.unknown()["says"]
    with others.Others(parser.parse_args(["--here"]), ["nothing"], json.loads) as asked:
        asked.ask(hosts, here)
        assert (asked.unknown(), asked.answers(), asked.are_over()) == ({}, [], True)


def test_there_is_no_such_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert top.main(["99999999"]) == 1
    assert capsys.readouterr().err == "roda-top: there is no process 99999999\n"


TRAINS = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "binding")!r})
import arrays as hvd
import numpy as np
hvd.init()
for step in range(100000):
    time.sleep(0.005 if hvd.rank() == 0 else 0.02)
    hvd.allreduce(np.ones(1000), name="grad")
"""


def test_a_job_is_watched_until_it_ends(
    start_horovodrun: Callable[..., subprocess.Popen[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = start_horovodrun("-np", "2", sys.executable, "-c", TRAINS)
    for _ in range(600):
        try:
            ranks = flight.open_job(job.pid).read()
        except flight.NoRecordError:
            ranks = []
        if ranks and min(each.ended for each in ranks) > 10:
            break
        time.sleep(0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        for port, reason in ((taken, "Address already in use"), (65536, "port must be 0-65535")):
            assert top.main(["--prometheus-port", str(port), str(job.pid)]) == 1
            told = f"roda-top: --prometheus-port {port}: can't listen there at 127.0.0.1: "
            assert told in (error := capsys.readouterr().err)
            assert reason in error
    with pytest.MonkeyPatch.context() as patch:  # other jobs may run here
        patch.setattr(jobs, "_own_processes", lambda: [each.pid for each in ranks])
        assert top.main(["--once", "--json", "--interval", "0.5"]) == 0
    told = capsys.readouterr()
    assert re.match(rf"roda-top: {job.pid}: 2 ranks, 2 here, for \d+ s: \S*python", told.err)
    assert [each["state"] for each in json.loads(told.out)["ranks"]] == ["running", "running"]
    file = tmp_path / "roda.prom"
    command = [sys.executable, "-c", "from horovod.observe.top import main; raise SystemExit(main())"]
    arguments = ["--interval", "0.5", "--prometheus-file", str(file), "--prometheus-port", "0", str(job.pid)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watcher:
        address = watcher.stderr.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        header, first, second = (watcher.stdout.readline().split() for _ in range(3))
        assert header[:3] == ["rank", "host", "process"]
        assert (first[0], second[0], first[-1]) == ("0", "1", "shm")
        share = header.index("wait")
        assert float(first[share + 1].rstrip("%")) > float(second[share + 1].rstrip("%")), "rank 0 waits for rank 1"
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 (the test's own)
            served = answer.read().decode()
        assert re.search(r'^roda_bytes_total{rank="1",.*} [1-9]', served, re.MULTILINE)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("metrics", "other"), timeout=30)  # noqa: S310
        for each in ranks:
            psutil.Process(each.pid).kill()
        rest, _ = watcher.communicate(timeout=60)
        assert watcher.returncode == 0
    assert "gone" in rest
    assert 'roda_up{rank="0"' in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["roda.prom"]
