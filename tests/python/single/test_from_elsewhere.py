"""Files and messages from elsewhere: a fault is a sentence that names file, field and what was expected."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from horovod.observe import doctor, flight, others, steps, timeline, trace
from horovod.observe.diagnosis import diagnose
from horovod.runner.boot import agent_text, boot_command, framed
from horovod.runner.common.util import config_parser
from horovod.runner.elastic.control import Control
from horovod.runner.elastic.discovery import DiscoveryError, HostDiscoveryScript
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.frames import HEADER, FrameError, take_frame
from horovod.runner.job import Connection, HostJob

OPERATION = {
    "number": 1, "name": "grad", "collective": "allreduce", "dtype": "float32", "set": 0, "bytes": 4, "submitted": 1,
    "agreed": 2, "launched": 3, "ended": 4, "code": 0, "awaited_rank": -1, "missing_count": 0,
}  # fmt: skip
RANK = {
    "rank": 0, "size": 2, "pid": 7, "generation": 1, "host": "h", "transports": "shm", "where": "", "wall_offset": 0,
    "started": 1, "last": 1, "ended": 1, "ended_bytes": 4, "operations": [OPERATION],
}  # fmt: skip
DUMP = {"roda_flight": 1, "taken": 5, "cause": "", "cause_rank": 0, "ranks": [RANK]}


def changed(value: object, path: tuple, to: object) -> object:
    """Return a copy in which one field is another; without it for `...`."""
    copy = json.loads(json.dumps(value))
    *above, last = path
    at = copy
    for step in above:
        at = at[step]
    if to is ...:
        del at[last]
    else:
        at[last] = to
    return copy


DEEP = "[" * 100_000
IN_OPERATION = ("ranks", 0, "operations", 0)
DUMP_FAULTS = {
    "deep": (DEEP, "is nested too deeply", ""),
    "cut": (json.dumps(DUMP)[:300], "is no JSON", ""),
    "nan": (json.dumps(changed(DUMP, ("taken",), float("nan"))), "NaN is no number", ""),
    "digits": ('{"roda_flight": ' + "9" * 5000 + "}", "a number of 5000 digits", ""),
    "list": ("[]", "is []", "expected: an object"),
    "version": (changed(DUMP, ("roda_flight",), 2), "of another version of Roda", ""),
    "no version": (changed(DUMP, ("roda_flight",), ...), "has no 'roda_flight'", "expected: a whole number"),
    "ranks": (changed(DUMP, ("ranks",), 3), "ranks is 3", "expected: a list"),
    "null": (changed(DUMP, ("ranks", 0), None), "ranks[0] is None", "expected: an object"),
    "size": (changed(DUMP, ("ranks", 0, "size"), 0), "ranks[0].size is 0", "from 1 to 2147483647"),
    "above": (changed(DUMP, ("ranks", 0, "rank"), 2), "ranks[0].rank is 2", "less than the size, which is 2"),
    "host": (changed(DUMP, ("ranks", 0, "host"), ["h"]), "ranks[0].host is ['h']", "expected: a text"),
    "truth": (changed(DUMP, ("ranks", 0, "pid"), True), "ranks[0].pid is True", "expected: a whole number"),
    "missing": (changed(DUMP, (*IN_OPERATION, "dtype"), ...), "ranks[0].operations[0] has no 'dtype'", "a text"),
    "type": (changed(DUMP, (*IN_OPERATION, "bytes"), "4"), "ranks[0].operations[0].bytes is '4'", "a whole number"),
    "range": (changed(DUMP, (*IN_OPERATION, "ended"), 2**63), "operations[0].ended is 9223372036854775808", "to 922"),
}


@pytest.mark.parametrize("kind", DUMP_FAULTS)
def test_a_fault_of_a_dump_is_a_sentence(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, found, expected = DUMP_FAULTS[kind]
    file = tmp_path / "roda-flight.h.1.1.json"
    file.write_text(told if isinstance(told, str) else json.dumps(told))
    assert doctor.main([str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"roda-doctor: {file} can't be read: ")
    assert found in line
    assert expected in line
    assert len(line) < 600


def test_bytes_that_are_no_text_or_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe{}")
    assert doctor.main([str(tmp_path / "binary")]) == 1
    assert "is no text in UTF-8" in capsys.readouterr().err
    monkeypatch.setattr(flight, "_MOST_BYTES", 1 << 20)
    assert doctor.main(["/dev/zero"]) == 1
    assert "is too large; expected: at most 1048576 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("process", ["²", "1" * 5000, "0"])
def test_what_is_no_process(process: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([process]) == 1
    assert capsys.readouterr().err.startswith("roda-doctor: ")


def test_a_folder_that_has_more_than_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "roda-flight.h.1.1.json")  # nobody writes to it
    (tmp_path / "roda-flight.h.2.1.json").write_text(json.dumps(DUMP))
    assert doctor.main([str(tmp_path)]) == 0


def test_a_job_of_any_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = [changed(RANK, ("size",), 2_000_000_000), changed(changed(RANK, ("rank",), 3), ("size",), 2_000_000_000)]
    (tmp_path / "dump").write_text(json.dumps({**DUMP, "ranks": ranks}))
    assert doctor.main([str(tmp_path / "dump")]) == 0
    told = capsys.readouterr().out
    assert "Nothing is known here of ranks 1, 2 and 4 to 1999999999, on other hosts." in told


def test_what_a_terminal_obeys_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waits = {**OPERATION, "name": "\x1b]0;gone\x07 \ud800", "agreed": 0, "launched": 0, "ended": 0}
    (tmp_path / "dump").write_text(json.dumps({**DUMP, "ranks": [changed(RANK, ("operations", 0), waits)]}))
    assert doctor.main([str(tmp_path / "dump")]) == 0
    told = capsys.readouterr().out
    assert "�]0;gone� �" in told
    assert "\x1b" not in told


def test_a_name_that_runs_and_is_waited_for_again() -> None:
    """The latest of a name is what counts."""
    runs, waits = {**OPERATION, "ended": 0}, {**OPERATION, "number": 2, "agreed": 0, "launched": 0, "ended": 0}
    (rank,) = flight.ranks_of(json.dumps(changed(DUMP, ("ranks", 0, "operations"), [runs, waits])))
    assert diagnose([rank])
    (rank,) = flight.ranks_of(json.dumps(changed(DUMP, ("ranks", 0, "operations"), [waits, {**runs, "number": 3}])))
    assert diagnose([rank])


# --- memory of other processes ---


def memory(entries: int = 4, **more: object) -> bytes:
    told = {"rank": 1, "size": 4, "pid": 7, "host": b"h", **more}
    numbers = entries, flight._ENTRY.size, told["rank"], told["size"], told["pid"], 0, 1, 0, 1, 4, 4, 4
    header = flight._HEADER.pack(b"rodaflt3", *numbers, told["host"], b"shm", 0, b"")
    entry = flight._ENTRY.pack(1, 1, 2, 3, 4, 4, 0, 0, -1, 0, 0, 7, 4, 0, b"grad")
    return header + entry * told.get("there", entries)


@pytest.mark.parametrize(
    ("room", "why"),
    [
        (memory()[:200], "has 200 bytes"),
        (memory(entries=2**32 - 1, there=1), "no room for them"),
        (memory(pid=-1), "pid is -1"),
        (memory(size=-4), "size is -4"),
        (memory(rank=9), "less than the size"),
    ],
)
def test_memory_that_is_no_recorder(room: bytes, why: str) -> None:
    with pytest.raises(flight.NoRecordError, match=why):
        flight._rank(room)
    told = flight._rank(memory())
    assert told is not None
    assert [each.name for each in told.operations] == ["grad"] * 4


@pytest.mark.parametrize(
    "rooms", [b"", struct.pack("=8x8sQQQQQ", b"rodaroom", 0, 0, 2**63, 0, 0),
              struct.pack("=8x8sQQQQQ", b"rodaroom", 0, 1 << 12, 2**60, 0, 0),
              struct.pack("=8x8sQQQQQ", b"rodaroom", 0, 1 << 12, 0, 2**40, 9)],
)  # fmt: skip
def test_memory_that_is_not_laid_out_as_ours(rooms: bytes, tmp_path: Path) -> None:
    (tmp_path / "memory").write_bytes(rooms)
    with pytest.raises(flight.NoRecordError):
        flight._LiveHost(tmp_path / "memory").read()


def test_a_host_whose_name_is_a_path_and_a_folder_that_is_made(tmp_path: Path) -> None:
    rank = flight._rank(memory(host=b"../../up"))
    assert rank is not None
    flight.write_dump([rank], tmp_path / "a/b")
    assert [each.name for each in (tmp_path / "a/b").iterdir()] == ["roda-flight..._.._up.7.1.json"]


# --- timelines ---

EVENTS = [
    {"name": "process_name", "ph": "M", "pid": 0,
     "args": {"start_time_since_epoch_in_micros": 1, "rank": 0, "host": "h"}},
    {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a"}},
    {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": 0, "pid": 1},
    {"name": "0", "ph": "X", "ts": 0, "pid": 1, "dur": 0},
    {"name": "NEGOTIATE_ALLREDUCE", "ph": "E", "ts": 1, "pid": 1},
    {"name": "ALLREDUCE", "ph": "B", "ts": 1, "pid": 1},
    {"name": "SHM_ALLREDUCE", "ph": "B", "ts": 2, "pid": 1,
     "args": {"launch": 1, "set": 0, "plan": "ring", "tensors": 1, "bytes": 4}},
    {"ph": "E", "ts": 3, "pid": 1},
    {"ph": "E", "ts": 4, "pid": 1},
]  # fmt: skip
TIMELINE_FAULTS = {
    "deep": (DEEP, "is nested too deeply", ""),
    "cut": (json.dumps(EVENTS)[:500], "is no JSON", ""),
    "infinite": (json.dumps(changed(EVENTS, (2, "ts"), float("inf"))), "Infinity is no number", ""),
    "large": (json.dumps(EVENTS).replace('"ts": 3', '"ts": 1e400'), "[7].ts is inf", "a number from"),
    "object": ("{}", "is {}", "expected: a list"),
    "empty": ("[]", "no event that tells start_time_since_epoch_in_micros", ""),
    "event": (changed(EVENTS, (4,), 7), "[4] is 7", "expected: an object"),
    "pid": (changed(EVENTS, (4, "pid"), []), "[4].pid is []", "expected: a whole number"),
    "no phase": (changed(EVENTS, (4, "ph"), ...), "[4] has no 'ph'", "expected: a text"),
    "rank": (changed(EVENTS, (3, "name"), "1_0"), "[3].name is '1_0'", "expected: the number of a rank"),
    "bytes": (changed(EVENTS, (6, "args", "bytes"), -1), "[6].args.bytes is -1", "expected: a whole number"),
    "launch": (changed(EVENTS, (6, "args", "launch"), {}), "[6].args.launch is {}", "expected: a whole number"),
    "no end": (EVENTS[:-1], "no operation that ended", ""),
    "no begin": ([*EVENTS[:2], *EVENTS[7:]], "no operation that ended", ""),
    "no time": ([{**each, "ts": 0} for each in EVENTS], "no step", ""),
}


@pytest.mark.parametrize("kind", TIMELINE_FAULTS)
def test_a_fault_of_a_timeline_is_a_sentence(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told, found, expected = TIMELINE_FAULTS[kind]
    file = tmp_path / "trace.0.json"
    file.write_text(told if isinstance(told, str) else json.dumps(told))
    assert trace.main([str(file), "-o", str(tmp_path / "page")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("roda-trace: ")
    assert kind == "no time" or str(file) in line
    assert found in line
    assert expected in line
    file.write_text(json.dumps(EVENTS))
    assert trace.main([str(file), "-o", str(tmp_path / "page")]) == 0


def test_the_page_takes_the_place_of_no_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in "01":
        (tmp_path / rank).write_text(json.dumps(EVENTS))
    assert trace.main([str(tmp_path / "1"), "-o", str(tmp_path / "0")]) == 1
    assert f"{tmp_path / '0'} is a timeline" in capsys.readouterr().err
    assert json.loads((tmp_path / "0").read_text()) == EVENTS


def test_a_timeline_that_begins_in_the_middle_tells_the_rest(tmp_path: Path) -> None:
    again = [{**each, "ts": each["ts"] + 10} for each in EVENTS[2:]]
    (tmp_path / "trace").write_text(json.dumps([*EVENTS[:2], *EVENTS[6:], *again]))
    (use,) = timeline.read(tmp_path / "trace").uses
    assert use.ended == 14


def test_a_fault_of_what_was_measured_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace").write_text(json.dumps(EVENTS))
    good = json.dumps({"collective": "allreduce", "bytes": 4, "algbw_GBps": 1.5})
    (tmp_path / "perf").write_text(f"{good}\n{good.replace('1.5', '[]')}\n")
    assert trace.main([str(tmp_path / "trace"), "--perf", str(tmp_path / "perf"), "-o", str(tmp_path / "page")]) == 1
    assert "perf is not what roda-perf --json prints: line 2.algbw_GBps is []; expected" in capsys.readouterr().err


def test_points_of_time_that_are_cut() -> None:
    times = [(float(n), n + 0.5) for n in range(0, 40, 2)]
    for window in ((-5.0, -1.0), (0.25, 7.0), (3.0, 3.9), (10.4, 10.6), (38.2, 90.0), (5.0, 4.0)):
        plain = [(max(b, window[0]), min(e, window[1])) for b, e in times]
        assert steps.within(times, window) == [(b, e) for b, e in plain if e > b]
    assert steps._minus([(0.0, 3.0), (5.0, 6.0)], times[:2]) == [(0.5, 2.0), (2.5, 3.0), (5.0, 6.0)]


# --- messages ---


def test_frames_that_are_none() -> None:
    connection = Connection(HostJob("h", True, []), None)
    assert list(connection.frames(HEADER.pack(b"o", 1, 2) + b"hi" + HEADER.pack(b"x", 1, 4))) == [(b"o", 1, b"hi")]
    assert list(connection.frames(b"\0\0\0\1")) == [(b"x", 1, b"\0\0\0\1")]
    for kind, length in ((b"o", 2**32 - 1), (b"o", 0), (b"x", 3), (b"W", 5), (b"m", 1 << 17), (b"u", 5000)):
        with pytest.raises(FrameError, match=rf"host h is none of its messages: kind b'.', rank 0, {length} bytes"):
            take_frame(bytearray(HEADER.pack(kind, 0, length)), "h")


SHELL = """#!{python}
import os
os.write(1, b"roda-agent ready\\n")
heard = b""
while b'"secret": "' not in heard:  # the job
    heard += os.read(0, 1 << 16)
os.write(1, b"Welcome to this host, and good luck to you\\n")
os.read(0, 1)
"""


def test_a_program_that_writes_into_the_agents_output(tmp_path: Path) -> None:
    """As a remote shell's banner does that comes late: before, its words were a length, and the launcher waited."""
    shell = tmp_path / "shell"
    shell.write_text(SHELL.format(python=sys.executable))
    shell.chmod(0o755)
    command = ["horovodrun", "-np", "1", "-H", "192.0.2.1:1", "--rsh-agent", str(shell), "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "What came from the agent of host 192.0.2.1 is none of its messages: kind b'W'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [b"T", b"K", b""])
def test_an_agent_that_is_told_to_end_starts_no_more_ranks(command: bytes) -> None:
    """Of hundreds: the launcher waited until the last one was there."""
    slots = [{"rank": rank, "environment": {}} for rank in range(3)]
    told = {"command": ["true"], "function": None, "secret": "00", "grace": 1.0, "add_to_environment": True}
    job = json.dumps({**told, "environment": {}, "slots": slots})
    with subprocess.Popen(boot_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        frames, _ = agent.communicate(agent_text() + framed(job) + command, timeout=60)
    assert frames == b"roda-agent ready\n"


def test_input_that_comes_before_the_ranks_reaches_all_of_them() -> None:
    slots = [{"rank": rank, "environment": {}, "stdin": True} for rank in range(3)]
    told = {"command": ["cat"], "function": None, "secret": "00", "grace": 60.0, "add_to_environment": True}
    job = json.dumps({**told, "environment": {}, "slots": slots})
    with subprocess.Popen(boot_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        agent.stdin.write(agent_text() + framed(job) + b"I" + framed(b"early") + b"I" + framed(b""))
        agent.stdin.flush()
        frames = agent.stdout.read()
        agent.stdin.close()
    printed = [
        (rank, data)
        for kind, rank, data in Connection(HostJob("h", True, []), None).frames(frames[17:])
        if kind == b"o"
    ]
    assert sorted(printed) == [(rank, b"early") for rank in range(3)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "is no JSON"), (b"[]", r"is \[\]; expected: an object"), (b"{}", "says nothing, or several"),
        (b'{"left": 0, "formed": 1}', "several things"), (b'{"formed": "1"}', "formed is '1'; expected: a whole"),
        (b'{"left": 0, "ready": 1}', "ready is 1; expected: true or false"), (DEEP.encode(), "nested too deeply"),
        (b'{"left": 0, "lost": -1}', "lost is -1"), (b'{"left": 0, "may_go": [0, null]}', r"may_go\[1\] is None"),
        (b"\xff\xff", "is no JSON"),
    ],
)  # fmt: skip
def test_a_worker_that_says_something_else_is_ended(line: bytes, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[tuple[str, bool]] = []
    hands = SimpleNamespace(start=lambda _: None, end=lambda worker, at_once: ended.append((worker.name, at_once)))
    control = Control(ElasticSettings(num_proc=2, hosts="", min_num_proc=2), hands, "horovodrun")
    control.hosts_found({"a": 2})
    control.carry_out()
    number = next(iter(control.membership.workers))
    control.hear(number, line)
    control.hear(99, line)  # it has ended meanwhile
    assert ended == [("a[0]", True)]
    error = capsys.readouterr().err
    assert error.startswith("horovodrun: Worker a[0] wrote a line to the descriptor of its job that ")
    assert re.search(why, error)


def test_a_script_that_prints_without_end(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="printed more than 1 MiB"):
        HostDiscoveryScript("head -c 300000000 /dev/zero | tr '\\0' 'a'", 1, 60.0).find_available_hosts_and_slots()
    with pytest.raises(DiscoveryError, match="has not ended within 0.2 seconds"):
        HostDiscoveryScript("exec 1>&- 2>&-; sleep 600", 1, 0.2).find_available_hosts_and_slots()
    assert HostDiscoveryScript("echo a; echo no >&2", 3, 60.0).find_available_hosts_and_slots() == {"a": 3}


def test_a_configuration_that_grows_when_it_is_read(tmp_path: Path) -> None:
    merged = ["a0: &a0 {x: 1, y: 2}", *(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}" for n in range(9))]
    (tmp_path / "a.yaml").write_text("\n".join(merged))
    with pytest.raises(ValueError, match=r"a.yaml:3:\d+: not YAML: more than 16 aliases"):
        config_parser.read_config(str(tmp_path / "a.yaml"))
    (tmp_path / "b.yaml").write_text("params: &a {cycle_time_ms: 3}\nlogging: *a\n")
    assert config_parser.read_config(str(tmp_path / "b.yaml"))[0]["params"] == {"cycle_time_ms": 3}
    (tmp_path / "c.yaml").write_text("#" * (1 << 17))
    with pytest.raises(ValueError, match="c.yaml: not YAML: is too large; expected: at most 65536 bytes"):
        config_parser.read_config(str(tmp_path / "c.yaml"))


def test_what_another_host_says_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "_MOST_CHARACTERS", 1000)
    child = others._Child(["/bin/sh", "-c", "printf '{'; head -c 100000 /dev/zero | tr '\\0' a; echo"], flight.ranks_of)
    limit = time.monotonic() + 60
    while not child.has_ended and time.monotonic() < limit:
        time.sleep(0.01)
    assert "is no JSON" in child.unknown()
