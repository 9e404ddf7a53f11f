#!/usr/bin/env python3
r"""Measures programs that print as `roda-conformance --measure` does, in turns, and prints medians side by side.

    compare_messages.py --rounds 5 \
        'transport=mpirun -np 2 roda-conformance --plugin mpi --launched --measure messages --repeats 1' \
        'raw=mpirun -np 2 another-program --repeats 1'

Every round runs every program once, in an order that rotates. What not all of them print is left out. The last column
compares the first with the second: microseconds added to one message one way, or the share of the bandwidth. On a
machine that others use, --best takes every program's best round in place of medians: what disturbs only makes slower.
"""

import argparse
import re
import shlex
import subprocess
from statistics import median

TIME = re.compile(r"^(\w+) +(\d+) bytes +median +([\d.]+) us", re.MULTILINE)
BANDWIDTH = re.compile(r"^(bandwidth) +(\d+) bytes +([\d.]+) MB/s", re.MULTILINE)


def measure(programs, rounds):
    """Return {kind: {bytes: {program: [figure of every round]}}}."""
    figures = {}
    for turn in range(rounds):
        order = list(programs)
        first = turn % len(order)
        for name in order[first:] + order[:first]:
            done = subprocess.run(  # noqa: S603 (what the caller names)
                shlex.split(programs[name]),
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=True,
            )
            for kind, size, figure in TIME.findall(done.stdout) + BANDWIDTH.findall(done.stdout):
                found = figures.setdefault(kind.lower(), {}).setdefault(int(size), {})
                found.setdefault(name, []).append(float(figure))
    return figures


def table(figures, kind, names, best):
    """Write one kind's figures as a Markdown table."""
    is_rate = kind == "bandwidth"
    chosen = median if not best else max if is_rate else min
    unit, last = ("MB/s", "share") if is_rate else ("us", "added, us")
    lines = [f"| {kind}, bytes | {' | '.join(f'{name}, {unit}' for name in names)} | {last} |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for size, rounds in sorted(figures.items()):
        pairs = [[chosen(rounds[name]) for name in names[:2]]] if best else zip(rounds[names[0]], rounds[names[1]])
        compared = median(a / b if is_rate else a - b for a, b in pairs)
        cells = [f"{chosen(rounds[name]):.{0 if is_rate else 2}f}" for name in names]
        lines.append(f"| {size} | {' | '.join(cells)} | {compared:.2f} |")
    return "\n".join(lines)


def main():
    """Measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="NAME=COMMAND", help="two or more")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--best", action="store_true", help="the best round of each program, not medians")
    options = parser.parse_args()
    if malformed := [program for program in options.programs if not re.match(r"[^=]+=.*\S", program)]:
        parser.error(f"'{malformed[0]}' is not of the form NAME=COMMAND")
    programs = dict(program.split("=", 1) for program in options.programs)
    if len(programs) < 2:
        parser.error("two programs of different names are needed: the last column compares the second with the first")
    figures = measure(programs, options.rounds)
    for kind, found in figures.items():
        common = {size: rounds for size, rounds in found.items() if len(rounds) == len(programs)}
        if common:
            print(table(common, kind, list(programs), options.best) + "\n")


if __name__ == "__main__":
    main()
