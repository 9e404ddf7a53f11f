#!/usr/bin/env python3
"""Feeds mutated files and messages to the Python package's readers: the launcher's, the tools', the services'.

usage: launcher_inputs.py [--seconds S] [--seed N]

A reader answers, or refuses with an error of its own; anything else, an answer that is wrong in itself, and one that
takes seconds, is a finding: its input is printed and the exit status is 1. The same seed makes the same inputs.
"""

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from horovod.common.model import MOST_64, printable
from horovod.observe import diagnosis, doctor, flight, metrics, page, rates, timeline, top, trace
from horovod.runner.blame import Blame
from horovod.runner.common.util import config_parser, hosts
from horovod.runner.elastic import control, discovery, worker
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.frames import HEADER, FrameError, take_frame
from horovod.runner.options import make_parser
from horovod.runner.util.wire import Wire, ask_for_proof

REFUSALS = (ValueError, flight.NoRecordError, timeline.NoTimelineError, FrameError, discovery.DiscoveryError,
            ConnectionError, EOFError)  # fmt: skip
MOST_SECONDS = 20.0  # for one input; a machine with other work to do needs much of it

WORDS = [
    "-1",
    "0",
    "1",
    "64",
    "1e9",
    "1e999",
    ".nan",
    "null",
    "~",
    "true",
    "no",
    "[]",
    "{}",
    "[1, 2]",
    '"a\\0b"',
    "a: 1",
    "x",
    "'",
    '"',
    ":",
    ",",
    "=",
    "#",
    "\n",
    "  ",
    "\t",
    "&a",
    "*a",
    "!!int",
    "!!python/object:os.system",
    "!!binary",
    "2026-13-45",
    "2001-01-01",
    "0x_",
    "0b",
    "1:60",
    "<<",
    "? ",
    "- ",
    "|",
    ">",
    "%YAML 9.9",
    "---",
    "\x00",
    "\x85",
    "\ufeff",
    "\U0001f984",
    "999999999999999999999",
    "slots=",
    "max_slots=",
    "localhost",
]


def config_seed(rng):
    """Write a file of some of the options that there are."""
    lines = []
    for option in rng.sample(config_parser.OPTIONS, 3):
        lines.append(f"{option.path[0]}:\n  {option.path[1]}: {rng.choice(WORDS)}\n")
    return "".join(lines)


def read_config(path, text):
    """Read a configuration file as horovodrun does."""
    path.write_bytes(text)
    config, unknown = config_parser.read_config(str(path))
    for line in unknown:
        if str(path) not in line:
            raise AssertionError(f"a warning does not name the file: {line}")
    args = argparse.Namespace(**{action.dest: None for action in make_parser()._actions})
    config_parser.set_args_from_config(args, config, set())
    config_parser.validate_config_args(args)
    env = config_parser.set_env_from_args({}, args)
    for name, value in env.items():
        if not isinstance(value, str) or "\0" in value:
            raise AssertionError(f"{name}={value!r} is nothing for an environment")


def read_hosts(_, text):
    """Read `host:slots,...` and give out ranks."""
    names = hosts.parse_hosts(text.decode("utf-8", "surrogateescape"))
    placed = hosts.get_host_assignments(names, 0, 8)
    if [slot.rank for slot in placed] != list(range(len(placed))) or len(placed) > 8:
        raise AssertionError(f"ranks are wrong: {placed}")


def read_host_file(path, text):
    """Read a file of hosts."""
    path.write_bytes(text)
    read_hosts(path, hosts.parse_host_files(str(path)).encode("utf-8", "surrogateescape"))


def read_slot(_, text):
    """Read the numbers of one process."""
    slot = hosts.SlotInfo.from_response_string(text.decode("utf-8", "surrogateescape"))
    if hosts.SlotInfo.from_response_string(slot.to_response_string()) != slot:
        raise AssertionError(f"{slot} does not survive the trip")


# --- JSON: values of other types and sizes in place of some, besides mutated bytes ---

NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 2**70, 1e308, float("nan"), float("inf"))
VALUES = (*NUMBERS, None, True, "", "x", "\ud800", "\x1b[2J", [], {})


def altered(rng, value):
    """Return the value as JSON, with a few of its fields changed, gone, or there twice."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.randrange(4)):
        at = value
        while isinstance(at, (dict, list)) and at:
            key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
            if not (isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8):
                how = rng.random()
                if how < 0.2:
                    del at[key]
                elif how < 0.3 and isinstance(at, list):
                    at.insert(rng.randrange(len(at)), at[key])
                else:
                    at[key] = rng.choice(VALUES)
                break
            at = at[key]
    return json.dumps(value)


def operations(rng):
    """Return some operations of a rank, as a dump has them."""
    names = [f"grad.{rng.randrange(5)}" for _ in range(rng.randrange(6))]
    return [
        {
            "number": number, "name": name, "collective": rng.choice(("allreduce", "join")), "dtype": "float32",
            "set": rng.randrange(2), "bytes": 4096, "submitted": number, "agreed": rng.choice((0, number + 1)),
            "launched": rng.choice((0, number + 2)), "ended": rng.choice((0, number + 3)), "code": 0,
            "awaited_rank": rng.randrange(-1, 3), "missing_count": rng.randrange(3),
        }
        for number, name in enumerate(names, 1)
    ]  # fmt: skip


def dump_seed(rng):
    """Write a dump of a few ranks, as another host's line has it."""
    ranks = [
        {
            "rank": rank, "size": 4, "pid": 1 << 20, "generation": 1, "host": "h", "transports": "shm",
            "where": "a.py:3", "stack": ["a.py:3 in step"], "wall_offset": 0, "started": 1, "last": 9, "ended": 9,
            "ended_bytes": 9, "operations": operations(rng), "process": rng.choice(("running", "stopped", "gone", "")),
        }
        for rank in range(rng.randrange(1, 4))
    ]  # fmt: skip
    rates = [{"operations": 1.5, "bytes": 2, "steps": None, "waits": 0.5, "runs": 0, "oldest_wait": 1.0} for _ in ranks]
    return altered(rng, {"roda_flight": 1, "taken": 10**9, "cause": "", "ranks": ranks, "rates": rates})


def must_be_printable(text):
    """Refuse a text that a terminal would obey, or that can't be written."""
    text.encode()
    if printable(text.replace("\n", "")) != text.replace("\n", ""):
        raise AssertionError(f"{text!r} is printed")


def read_dump(path, text):
    """Read a dump as roda-doctor does, with all that it says."""
    path.write_bytes(text)
    ranks = flight.read_files(path)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        print(*diagnosis.diagnose(ranks), sep="\n")
        for rank in ranks:
            doctor._print_rank(rank, True)
    must_be_printable(told.getvalue())
    flight.ranks_of(json.dumps(flight.as_dict(ranks)))


def read_rates(_, text):
    """Read another host's line as roda-top does."""
    told = rates.rates_of(text.decode("utf-8", "replace"))
    must_be_printable(top.table(told, {}) + metrics.prometheus(told))


def memory_seed(rng):
    """Write the memory of a rank."""
    numbers = rng.randrange(4), 4, 7, 0, 1, 10**18, 1, 64, 60, 10**6
    header = flight._HEADER.pack(b"rodaflt3", 16, flight._ENTRY.size, *numbers, b"host", b"shm", 2, b"train.py:5")
    room = bytearray(header)
    for number in range(1, 17):
        times = [10, *(20 if number < 15 else 0 for _ in range(3))]
        room += flight._ENTRY.pack(number, *times, 4096, 0, 0, -1, 0, 0, 7, 6, 0, b"grad%02d" % number)
    for _ in range(rng.randrange(4)):
        width = rng.choice((1, 4, 8))
        at = rng.randrange((len(room) if rng.random() < 0.5 else flight._HEADER.size) - width)
        room[at : at + width] = rng.choice((0, 1, MOST_64, rng.getrandbits(64))).to_bytes(8, "little")[:width]
    return bytes(room)


def read_memory(_, text):
    """Read a rank's memory, which is another process's."""
    rank = flight._rank(text)
    if rank is not None:
        must_be_printable("\n".join(diagnosis.diagnose([rank])))


def timeline_seed(rng):
    """Write a timeline of a few steps."""
    about = {"start_time_since_epoch_in_micros": 10**15, "rank": 0, "host": "h"}
    events = [{"name": "process_name", "ph": "M", "pid": 0, "args": about}]
    for pid in (1, 2):
        events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"t{pid}"}})
    for number in range(rng.randrange(4)):
        at, pid = number * 100, rng.randrange(1, 3)
        args = {"launch": number, "set": 0, "plan": "ring", "tensors": 1, "bytes": 4096}
        told = [("B", "NEGOTIATE_ALLREDUCE", {}), *(("X", str(rank), {"dur": 0}) for rank in range(2)),
                ("E", "NEGOTIATE_ALLREDUCE", {}), ("B", "ALLREDUCE", {}), ("B", "QUEUE", {}), ("E", "", {}),
                ("B", "SHM_ALLREDUCE", {"args": args}), ("X", timeline.PACKS, {"tid": 1, "dur": 2}), ("E", "", {}),
                ("E", "", {})]  # fmt: skip
        for step, (phase, name, more) in enumerate(told):
            events.append({"ph": phase, "name": name, "ts": at + step, "pid": pid, **more})
    return altered(rng, events)


def read_timeline(path, text):
    """Read a rank's timeline as roda-trace does, beside a good one, and write the page."""
    path.write_bytes(text)
    page.render(trace.analyse([path], {4096: 1.0})).encode()


def read_measured(path, text):
    """Read what roda-perf printed."""
    path.write_bytes(text)
    trace._read_measured(path)


# --- messages ---


def line_seed(rng):
    """Write what a worker says to the launcher."""
    kinds = ({"left": 0, "sync": True, "lost": None, "may_go": [0], "ready": rng.random() < 0.5}, {"formed": 1},
             {"failed": 1, "text": "no", "lost": 1}, {"lives": 1}, {"synced": 1})  # fmt: skip
    return "\n".join(altered(rng, rng.choice(kinds)) for _ in range(rng.randrange(1, 9)))


def read_line(_, text):
    """Hear two workers, as the launcher of an elastic job does, which must not fall over one."""
    hands = ("start", "tell", "end", "place_of", "retire")
    nothing = SimpleNamespace(**dict.fromkeys(hands, lambda *_, **__: {}))
    job = control.Control(ElasticSettings(num_proc=2, hosts="", min_num_proc=1), nothing, "horovodrun")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        job.hosts_found({"a": 2})
        job.carry_out()
        for number, line in enumerate(text.split(b"\n")):
            job.hear(1 + number % 2, line)
            job.carry_out()
    must_be_printable(said.getvalue())


def read_order(_, text):
    """Read what the launcher says to a worker."""
    worker._ORDER.take(worker.parse(text))


def frames_seed(rng):
    """Write what an agent sends."""
    kinds = ((b"o", b"words\n"), (b"x", bytes(4)), (b"m", b'{"lives": 1}\n'), (b"a", b"h 127.0.0.1"), (b"r", b"result"))
    sent = (rng.choice(kinds) for _ in range(rng.randrange(5)))
    return b"".join(HEADER.pack(kind, rng.randrange(4), len(payload)) + payload for kind, payload in sent)


def read_frames(_, text):
    """Take an agent's frames: an end must be near, whatever a length says."""
    buffer = bytearray(text)
    while take_frame(buffer, "h") is not None:
        continue
    if len(buffer) >= HEADER.size and HEADER.unpack_from(buffer)[2] > 1 << 31:
        raise AssertionError(f"{bytes(buffer[: HEADER.size])!r} is waited for")


def read_report(_, text):
    """Hear why programs of ranks end, in pieces, and tell whose fault that is."""
    blame = Blame()
    for rank, piece in enumerate(text[at : at + 40] for at in range(0, len(text), 40)):
        blame.hear(rank % 2, piece)
    blame.failed(1)
    if not all(isinstance(words, str) for words in blame.words_on(blame.culprit() or 0)):
        raise AssertionError("there are no words")


def read_message(_, text):
    """Take a message of who does not know the secret: nothing of it is made use of."""
    question, judge = ask_for_proof(b"k" * 32)
    if judge(bytearray(text)) is not None or Wire(b"k" * 32).read(io.BytesIO(text)) is not None:
        raise AssertionError(f"that is no proof for {question!r}")


def read_request(_, text):
    """Answer an HTTP request for metrics."""
    answer = top.Metrics(None, "", None)._reply(bytearray(text))
    if answer is not None and not answer.startswith((b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 404 Not Found\r\n")):
        raise AssertionError(f"{answer!r} is no answer")


def read_discovery(_, text):
    """Read what a discovery script printed."""
    discovery.parse_hosts_and_slots(text.decode("utf-8", "replace"), 2, "script")


TARGETS = (
    (read_config, config_seed),
    (read_hosts, lambda rng: ",".join(f"h{i}:{rng.randrange(9)}" for i in range(rng.randrange(5)))),
    (read_host_file, lambda rng: "".join(f"h{i} slots={rng.randrange(9)}\n" for i in range(rng.randrange(5)))),
    (read_slot, lambda rng: ",".join(str(rng.randrange(-2, 9)) for _ in range(6))),
    (read_dump, dump_seed),
    (read_rates, dump_seed),
    (read_memory, memory_seed),
    (read_timeline, timeline_seed),
    (read_measured, lambda rng: altered(rng, {"collective": "allreduce", "bytes": 4096, "algbw_GBps": 1.5})),
    (read_line, line_seed),
    (read_order, lambda rng: altered(rng, {"generation": 1, "sync": True, "environment": {"A": "b"}, "place": {}})),
    (read_frames, frames_seed),
    (read_report, lambda rng: altered(rng, {"error": "ValueError: no", "traceback": "here", "origin": 1}) + "\n"),
    (read_message, lambda rng: rng.randbytes(rng.randrange(90))),
    (read_request, lambda rng: "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
    (read_discovery, lambda rng: "".join(f"h{i}:{rng.randrange(9)}\n" for i in range(rng.randrange(5)))),
)


def mutated(rng, text):
    """Return the text as bytes with a few places changed, mostly."""
    data = bytearray(text if isinstance(text, bytes) else text.encode())
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0:
            data[at:at] = rng.choice(WORDS).encode()
        elif how == 1:
            data[at : at + 1] = rng.randbytes(1)
        elif how == 2:
            del data[at : at + rng.randrange(9)]
        else:
            data[at:at] = data[: rng.randrange(40)] * rng.randrange(3)
    return bytes(data)


def main():
    """Run until the time is over or something is found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311
    end = time.monotonic() + options.seconds
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        while time.monotonic() < end:
            read, seed = rng.choice(TARGETS)
            text = mutated(rng, seed(rng))
            runs += 1
            try:
                begin = time.monotonic()
                with contextlib.suppress(*REFUSALS):
                    read(path, text)
                if time.monotonic() - begin > MOST_SECONDS:
                    raise AssertionError(f"it took {time.monotonic() - begin:.0f} s")
            except BaseException:
                print(f"{read.__name__} on {text!r}", file=sys.stderr)
                raise
    print(f"Done {runs} runs")


if __name__ == "__main__":
    main()
