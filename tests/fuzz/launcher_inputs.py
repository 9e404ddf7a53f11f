#!/usr/bin/env python3
"""Feeds mutated configuration files, host strings, host files and slot lists to the launcher's readers.

usage: launcher_inputs.py [--seconds S] [--seed N]

A reader answers, or raises ValueError; anything else, and an answer that is wrong in itself, is a finding: its input is
printed and the exit status is 1. The same seed makes the same inputs.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from horovod.runner.common.util import config_parser, hosts
from horovod.runner.options import make_parser

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


TARGETS = (
    (read_config, config_seed),
    (read_hosts, lambda rng: ",".join(f"h{i}:{rng.randrange(9)}" for i in range(rng.randrange(5)))),
    (read_host_file, lambda rng: "".join(f"h{i} slots={rng.randrange(9)}\n" for i in range(rng.randrange(5)))),
    (read_slot, lambda rng: ",".join(str(rng.randrange(-2, 9)) for _ in range(6))),
)


def mutated(rng, text):
    """Return the text as bytes with a few places changed."""
    data = bytearray(text.encode())
    for _ in range(rng.randrange(5)):
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
                read(path, text)
            except ValueError:
                pass
            except BaseException:
                print(f"{read.__name__} on {text!r}", file=sys.stderr)
                raise
    print(f"Done {runs} runs")


if __name__ == "__main__":
    main()
