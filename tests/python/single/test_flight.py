"""The flight recorder, and what ``roda-doctor`` makes of it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from horovod.common import stacks
from horovod.observe import doctor, flight
from horovod.observe.diagnosis import bytes_in_words, diagnose, ranks_in_words

NOW = 100_000_000_000
SECOND = 1_000_000_000


def operation(name: str, ago: float, far: str = "ended", **more: object) -> flight.Operation:
    at = NOW - int(ago * SECOND)
    steps = ("submitted", "agreed", "launched", "ended")
    times = {step: at if steps.index(step) <= steps.index(far) else 0 for step in steps}
    fields = {"collective": "allreduce", "dtype": "float32", "set": 0, "bytes": 4096, "code": 0}
    missing = {"awaited_rank": -1, "missing_count": 0}
    return flight.Operation(**{"number": at, "name": name, **fields, **missing, **times, **more})


def rank(number: int, *operations: flight.Operation, size: int = 3, **more: object) -> flight.Rank:
    numbers = {"rank": number, "size": size, "pid": 1000 + number, "last": 9, "ended": 9, "ended_bytes": 9}
    place = {"generation": 1, "host": "node", "transports": "shm", "wall_offset": 0, "started": 0}
    told = {**numbers, **place, "operations": list(operations), "taken": NOW, "process": "running"}
    return flight.Rank(**{**told, **more})


def test_ranks_and_bytes_read_well() -> None:
    assert ranks_in_words([2]) == "rank 2"
    assert ranks_in_words([1, 0]) == "ranks 0 and 1"
    assert ranks_in_words([0, 1, 2, 3, 7]) == "ranks 0 to 3 and 7"
    assert ranks_in_words([0, 1, 3]) == "ranks 0, 1 and 3"
    assert bytes_in_words(4 << 20) == "4 MiB"


def test_a_rank_that_went_no_further_is_named_with_what_the_others_wait_for() -> None:
    both = operation("grad.1", 40)
    waits = operation("grad.2", 34, "submitted")
    first, *_ = diagnose([rank(0, both, waits), rank(1, both, waits), rank(2, both)])
    assert first == (
        "Rank 2 (process 1002 on node) diverged first: the last that it submitted was 'grad.1' (allreduce, float32, "
        "4 KiB), 40.0 s before. Ranks 0 and 1 have waited for 34.0 s for rank 2 to submit 'grad.2' (allreduce, "
        "float32, 4 KiB)."
    )


def test_the_line_that_all_wait_at_is_told() -> None:
    both, waits = operation("grad.1", 40), operation("grad.2", 34, "submitted")
    ranks = [rank(number, both, waits, where="train.py:57") for number in (0, 1)]
    first, *_ = diagnose([*ranks, rank(2, both)])
    assert "Ranks 0 and 1 have waited for 34.0 s at train.py:57 for rank 2 to submit" in first
    ranks[0].where = "train.py:60"
    assert "have waited for 34.0 s for rank 2" in diagnose([*ranks, rank(2, both)])[0]


def test_of_ranks_that_went_two_ways_the_few_diverged() -> None:
    """Though the one that stands alone has waited for longer."""
    most, alone = operation("a", 20, "submitted"), operation("b", 30, "submitted")
    first, *_ = diagnose([rank(0, most), rank(1, alone), rank(2, most)])
    assert first.startswith("Rank 1 (process 1001 on node) diverged first: it submitted 'b'")
    assert "Ranks 0 and 2 have waited for 20.0 s for rank 1 to submit 'a'" in first


def test_of_two_ranks_that_went_two_ways_the_one_that_did_so_for_the_first_time_diverged() -> None:
    """Whichever has waited for longer."""
    names = ["grad.1", "grad.0", "loss"] * 2 + ["grad.1", "grad.0"]
    steps = [operation(name, 60 - at, number=at) for at, name in enumerate(names, 1)]
    for one, two in [(20.0, 10.0), (20.0, 30.0), (0.9, 1.0), (0.0, 1.0)]:  # one has not waited for long
        usual, other = operation("loss", one, "submitted", number=9), operation("grad.1", two, "submitted", number=9)
        first, *_ = diagnose([rank(0, *steps, usual), rank(1, *steps, other)])
        assert first.startswith("Rank 1 (process 1001 on node) diverged first: it submitted 'grad.1'")
        assert f"Rank 0 has waited for {one:.1f} s for rank 1 to submit 'loss'" in first


def test_of_two_ranks_that_both_did_what_is_new_none_is_blamed() -> None:
    old = operation("grad", 40, number=1)
    one, other = (operation(name, 30, "submitted", number=2) for name in "ab")
    first, *_ = diagnose([rank(0, old, one, where="train.py:5"), rank(1, old, other)])
    assert first.startswith(
        "Ranks 0 and 1 went different ways: rank 0 (process 1000 on node, at train.py:5) has waited for 30.0 s for "
        "rank 1 to submit 'a' (allreduce, float32, 4 KiB), and rank 1 (process 1001 on node) has waited for 30.0 s "
        "for rank 0 to submit 'b'"
    )


def test_of_several_tensors_the_first_is_told() -> None:
    """Though their times are the same, which are as fine as the clock is."""
    for names in ("ab", "ba"):
        waits = [operation(name, 30, "submitted", number=at) for at, name in enumerate(names, 1)]
        assert f"for rank 1 to submit '{names[0]}'" in diagnose([rank(0, *waits), rank(1)])[0]


def test_a_job_that_ended_at_once_has_not_waited() -> None:
    ended = "Rank 1 (node) ended with ValueError: bad"
    waits = [rank(number, operation("grad", 0.05, "submitted"), cause=ended) for number in (0, 1)]
    assert diagnose([*waits, rank(2, cause=ended)]) == [f"The job ended: {ended}"]


def test_a_rank_that_has_joined_is_not_missing() -> None:
    waits = operation("grad", 30, "submitted")
    joined = operation("join.noname", 50, "submitted", collective="join")
    first, *_ = diagnose([rank(0, waits), rank(1, operation("grad", 60)), rank(2, joined)])
    assert "for rank 1 to submit 'grad'" in first


def test_members_of_a_process_set_alone_are_missing_in_it() -> None:
    waits = operation("grad", 30, "submitted", set=1)
    first, *_ = diagnose([rank(0, waits), rank(1, operation("old", 60, set=1)), rank(2, operation("x", 90))])
    assert "for rank 1 to submit 'grad' (allreduce, float32, 4 KiB, process set 1)" in first


@pytest.mark.parametrize("state", ["stopped", "in a debugger", "gone"])
def test_a_process_that_does_nothing_is_told_of(state: str) -> None:
    waits, runs = operation("grad", 30, "submitted"), operation("loss", 20, "launched")
    missing, *_ = diagnose([rank(0, waits), rank(1, waits), rank(2, process=state)])
    assert missing.startswith(f"Rank 2 (process 1002 on node) diverged first: its process is {state}.")
    running, *_ = diagnose([rank(0, runs), rank(1, runs), rank(2, runs, process=state)])
    assert running.startswith(
        f"Rank 2 (process 1002 on node) holds the others up: its process is {state}. Ranks 0 to 2"
    )


def test_a_job_at_work_is_not_taken_for_one_that_hangs() -> None:
    """Operations that wait and run for less than a second are its daily bread."""
    waits, runs = operation("grad", 0.2, "submitted"), operation("loss", 0.4, "launched")
    told = diagnose([rank(0, operation("old", 0.6), runs, waits), rank(1), rank(2)])
    assert told == ["Nothing waits for another rank; the last operation ended 0.6 s ago."]


def test_a_rank_that_was_looked_at_before_it_submitted_is_not_blamed() -> None:
    """Another host answered later, and its rank waits for what this one has submitted meanwhile."""
    ended, waits = operation("old", 5), operation("grad", 1.5, "submitted")
    for apart, is_blamed in [(0.2, True), (1.0, False)]:
        first, *_ = diagnose([rank(0, ended, size=2), rank(1, ended, waits, size=2)], apart=apart)
        assert ("Rank 0 (process 1000 on node) diverged first" in first) == is_blamed


def test_ranks_of_other_hosts_are_known_from_what_the_engine_noted() -> None:
    waits = operation("grad", 30, "submitted", awaited_rank=5, missing_count=2)
    alone, absent = diagnose([rank(0, waits, size=8), rank(1, waits, size=8)])
    assert "for rank 5 and 1 more to submit 'grad'" in alone
    assert alone.endswith("; run roda-doctor where that runs, too.")
    assert absent == "Nothing is known here of ranks 2 to 7, on other hosts."
    others = [rank(each, operation("old", 60 - each), size=8, host="far") for each in range(2, 8)]
    together, *_ = diagnose([rank(0, waits, size=8), rank(1, waits, size=8), *others])
    assert together.startswith("Rank 2 (process 1002 on far) diverged first")


def test_what_is_no_record_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "roda-flight.node.1.1.json").write_text("[]")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        for job, why in {
            str(stranger.pid): "are no ranks of a Roda job that runs",
            str(tmp_path): "it is no dump of a flight recorder",
            str(tmp_path / "none"): "No such file",
        }.items():
            assert doctor.main([job]) == 1
            assert why in capsys.readouterr().err


def test_who_comes_too_late_to_save_says_so_where_no_engine_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flight.save(os.getpid(), str(tmp_path))
    assert "are no ranks of a Roda job that runs" in capsys.readouterr().err
    (tmp_path / "roda-flight.node.1.1.json").touch()
    flight.save(os.getpid(), str(tmp_path))
    assert not capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_strangers_may_not_look() -> None:
    become = "import os, psutil, sys; from horovod.observe.doctor import main; os.setuid(65534)"
    script = f"{become}; sys.exit(main([sys.argv[1]]))"
    done = subprocess.run([sys.executable, "-c", script, str(os.getpid())], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"process {os.getpid()} may be looked at by its owner and by root alone" in done.stderr


HANGS = """
import sys, time, torch
import horovod.torch as hvd
hvd.init()
for step in range(3):
    hvd.allreduce(torch.ones(1024), name=f"grad.{step}")
if hvd.rank() == 1:
    time.sleep(100)
try:
    hvd.allreduce(torch.ones(1024), name="diverges")
except hvd.HorovodInternalError:
    pass
"""
# What rank 0 does then.
WAITS = re.compile(r"Rank 0 has waited for \d+\.\d s at <string>:10 for rank 1 to submit 'allreduce.diverges'")
# Where rank 1 is then.
SLEEPS = r"Rank 1 \(process \d+ on \S+, at <string>:8\) diverged first: the last that it submitted was 'allred"


def asks(job: object, capsys: pytest.CaptureFixture[str], until: str | re.Pattern[str], *options: str) -> str:
    """Ask until the answer is there: for as long as a loaded machine may take."""
    for _ in range(600):
        doctor.main([str(job), *options])
        text = capsys.readouterr().out
        if re.search(until, text):
            break
        time.sleep(0.1)
    return text


def test_a_job_that_hangs_and_then_dies(
    start_horovodrun: Callable[..., subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What is read of it live, while a rank is stopped, and from what it leaves when that one is killed."""
    monkeypatch.setenv("RODA_FLIGHT_FOLDER", str(tmp_path))
    job = start_horovodrun("-np", "2", sys.executable, "-c", HANGS)
    told = asks(job.pid, capsys, "diverged first")
    assert re.match(SLEEPS, told), told
    assert "          <string>:8 in <module>\n" in asks(job.pid, capsys, "in <module>", "-v")
    assert "'allreduce.grad.2' (allreduce, float32, 4 KiB)" in told
    assert "Rank 0 has waited for" in told
    assert "for rank 1 to submit 'allreduce.diverges'" in told

    ranks = flight.open_job(job.pid).read()
    assert [each.rank for each in ranks] == [0, 1]
    assert flight.open_job(job.pid).hosts() == ["localhost"]
    assert {each.transports for each in ranks} == {"shm"}
    other, victim = (psutil.Process(each.pid) for each in ranks)
    victim.suspend()
    assert "its process is stopped" in asks(other.pid, capsys, "stopped")

    held = flight.open_job(job.pid)
    victim.send_signal(signal.SIGKILL)
    job.wait(60)
    assert len(held.read()[1].operations) == 3, "who has it mapped reads it on"
    (dump,) = tmp_path.glob("roda-flight.*.json")
    assert dump.stat().st_mode & 0o777 == 0o600
    assert [each["name"] for each in json.loads(dump.read_text())["ranks"][1]["operations"]] == [
        f"allreduce.grad.{step}" for step in range(3)
    ]
    first, second, *_ = asks(dump, capsys, "diverged").splitlines()
    assert first.startswith("The job ended: ")
    assert re.match(
        r"Rank 1 \(process \d+ on \S+\) diverged first: the last that it submitted was 'allreduce.gra", second
    )


def test_a_rank_that_is_killed_while_it_waits_has_said_where(
    start_horovodrun: Callable[..., subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("RODA_FLIGHT_FOLDER", str(tmp_path))
    job = start_horovodrun("-np", "2", sys.executable, "-c", HANGS)
    told = asks(job.pid, capsys, WAITS)
    assert "      at <string>:10\n" in told
    waiting, sleeping = flight.open_job(job.pid).read()
    assert not sleeping.where
    os.kill(waiting.pid, signal.SIGKILL)
    assert job.wait(60) != 0
    (dump,) = tmp_path.glob("roda-flight.*.json")
    assert WAITS.search(asks(dump, capsys, WAITS))


def test_a_stall_says_where_a_rank_is_that_does_not_wait(
    start_horovodrun: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "1")
    job = start_horovodrun("-np", "2", sys.executable, "-c", HANGS)
    assert job.stderr is not None
    told = next(line for line in job.stderr if "Submitted last, on this host" in line)
    assert re.search(r"rank 1 'allreduce.grad.2', \d+ s ago, and is at <string>:8\. `roda-doctor", told), told


@pytest.mark.parametrize(("elastic", "number"), [([], signal.SIGTERM), (["--min-np", "2"], signal.SIGKILL)])
def test_a_job_that_hangs_and_is_ended(
    start_horovodrun: Callable[..., subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    elastic: list[str],
    number: signal.Signals,
) -> None:
    """By who ends its launcher, politely or not: what it hung at is not lost."""
    monkeypatch.setenv("RODA_FLIGHT_FOLDER", str(tmp_path))
    job = start_horovodrun("-np", "2", *elastic, sys.executable, "-c", HANGS)
    asks(job.pid, capsys, WAITS)
    ranks = [psutil.Process(each.pid) for each in flight.open_job(job.pid).read()]
    job.send_signal(number)
    assert job.wait(60) in (128 + number, -number)
    psutil.wait_procs(ranks, timeout=60)
    (dump,) = tmp_path.glob("roda-flight.*.json")
    assert dump.stat().st_mode & 0o777 == 0o600
    told = asks(tmp_path, capsys, "diverged first")
    assert re.match(SLEEPS, told)
    assert WAITS.search(told), told


def test_ranks_that_a_scheduler_ends_by_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No launcher of ours is there to save what they recorded."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    told_all = {**os.environ, **job, "RODA_FLIGHT_FOLDER": str(tmp_path)}
    ranks = [
        subprocess.Popen([sys.executable, "-c", HANGS], env={**told_all, "RANK": number, "LOCAL_RANK": number})
        for number in "01"
    ]
    try:
        asks(ranks[0].pid, capsys, WAITS)
        for each in ranks:
            each.terminate()
        assert [each.wait(60) for each in ranks] == [-signal.SIGTERM] * 2
    finally:
        for each in ranks:
            each.kill()
    (dump,) = tmp_path.glob("roda-flight.*.json")
    told = asks(dump, capsys, "diverged first")
    assert re.match(SLEEPS, told)
    assert WAITS.search(told), told


FORKS = """
import os, signal, time
from horovod.common import basics
basics._save_when_terminated()
reads, writes = os.pipe()
child = os.fork()
while child == 0:
    os.write(writes, b".")  # what comes earlier Python drops
    time.sleep(0.1)
os.read(reads, 1)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_children_that_are_ended_save_nothing(tmp_path: Path) -> None:
    """A loader's workers are ended as a matter of course."""
    told = {**os.environ, "RODA_FLIGHT_FOLDER": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FORKS], env=told, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGTERM
    assert done.stderr.count("The flight recorder: ") == 1, "by the process itself"


OFFERS = """
import sys
from horovod.common import stacks
stacks.offer()
print("ready", flush=True)
sys.stdin.read()
"""
KEEPS_A_SIGNAL = f"""
import signal
signal.signal(signal.SIGURG, lambda *_: print("seen"))
{OFFERS}"""


def test_a_program_that_takes_the_signal_itself_is_not_asked_for_its_stack() -> None:
    command = [sys.executable, "-c", KEEPS_A_SIGNAL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        assert stacks.ask([program.pid]) == {}
        assert program.communicate()[0] == ""


def test_all_who_ask_at_once_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that a scheduler ends together ask each other, and any one of them writes the dump."""
    monkeypatch.setattr(stacks, "_MOST_SECONDS", 60.0)  # however busy the machine is
    command = [sys.executable, "-c", OFFERS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(8) as many:
            told = list(many.map(stacks.ask, [[program.pid]] * 8))
        assert all(set(each) == {program.pid} for each in told)
        program.communicate()
