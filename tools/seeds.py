#!/usr/bin/env python3
"""Plays a seed of tests/seeds again, line by line, and cuts one that goes wrong down to less that still does.

``--seed 17`` tells what happens, and where that goes wrong the shortest job that does; ``--seconds 600`` plays fresh
ones, up to the first that goes wrong, which is cut down.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Orders of a job that has less in it: its steps are others than the seed's.
SCHEDULES = 40


@dataclass(frozen=True)
class Cut:
    """A seed's job, or part of it: at most so many ranks and hosts (0: all), these calls (none: all), faults or not."""

    seed: int
    schedule: int = 0
    ranks: int = 0
    hosts: int = 0
    calls: tuple[int, ...] = ()
    faults: bool = True

    def options(self) -> list[str]:
        """The options of the program seeds."""
        options = ["--seed", str(self.seed), "--schedule", str(self.schedule), "--faults", str(int(self.faults))]
        options += ["--ranks", str(self.ranks), "--hosts", str(self.hosts)]
        return options + (["--calls", ",".join(map(str, self.calls))] if self.calls else [])


class Seeds:
    """The program of a build."""

    def __init__(self, build: Path) -> None:
        self.program = build / "tests/seeds/seeds"
        plugins = ":".join(str(build / "transports" / name) for name in ("loop", "tcp"))
        self.environment = {**os.environ, "HOROVOD_PLUGIN_PATH": os.environ.get("HOROVOD_PLUGIN_PATH", plugins)}

    def run(self, options: list[str], limit: float | None = None) -> tuple[int, str]:
        """Its status, and what it says; a rank that never gives way has a status of its own."""
        command = [str(self.program), *options]
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, env=self.environment, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return 3, "a rank never gives way"
        return done.returncode, done.stdout

    def wrong(self, cut: Cut, schedules: int) -> tuple[Cut, str] | None:
        """The first of so many orders that goes wrong, from the cut's own on, and how."""
        status, text = self.run([*cut.options(), "--schedules", str(schedules)], 300)
        told = re.search(r"^schedule (\d+) ranks (\d+) hosts (\d+) calls (\d+): (.*)", text, re.MULTILINE | re.DOTALL)
        if told:
            return replace(cut, schedule=int(told[1]), ranks=int(told[2]), hosts=int(told[3])), told[5]
        return (cut, text or f"the program ends with {status}") if status not in (0, 2) else None


def shorter(cut: Cut, calls: int) -> Iterator[Cut]:
    """What is less than the cut, the least first; `calls`: of the whole job."""
    if cut.faults:
        yield replace(cut, faults=False)
    for ranks in range(2, cut.ranks):
        yield replace(cut, ranks=ranks)
    for hosts in range(1, cut.hosts):
        yield replace(cut, hosts=hosts)
    kept = cut.calls or tuple(range(calls))
    size = len(kept) // 2
    while size:
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            if rest:
                yield replace(cut, calls=rest)
        size //= 2


def shrink(seeds: Seeds, cut: Cut) -> Cut:
    """The least that still goes wrong, as far as it is found by leaving out one thing at a time."""
    _, text = seeds.run(cut.options(), 300)
    counted = re.search(r"^\d+ ranks on \d+ hosts, (\d+) calls: ", text, re.MULTILINE)
    calls = int(counted[1]) if counted else 64
    while True:
        for less in shorter(cut, calls):
            found = seeds.wrong(replace(less, schedule=cut.schedule), SCHEDULES)
            if found:
                cut = found[0]
                print(
                    f"  {cut.ranks} ranks on {cut.hosts} hosts, {len(cut.calls) or calls} calls, faults: {cut.faults}"
                )
                break
        else:
            return cut


def main() -> int:
    """Plays what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--schedule", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--build", type=Path, default=ROOT / "build/native")
    arguments = parser.parse_args()
    seeds = Seeds(arguments.build)
    seed = arguments.seed
    if seed is None:
        status, text = seeds.run(["--seconds", str(arguments.seconds)])
        print(text, end="")
        failed = re.search(r"^seed (\d+): ", text, re.MULTILINE)
        if not failed:
            return status
        seed = int(failed[1])
    status, text = seeds.run(Cut(seed, arguments.schedule).options(), 300)
    print(text, end="")
    if status == 0:
        return 0
    print("cut down:")
    found = seeds.wrong(Cut(seed, arguments.schedule), 1)
    if not found:
        return status
    least = shrink(seeds, found[0])
    print(seeds.run(least.options(), 300)[1], end="")
    print(f"once more: {seeds.program} {' '.join(least.options())}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
