#!/usr/bin/env python3
"""Runs trials of the fault matrix, and says what came of them.

usage: run.py [--seconds S | --trials N] [--seed SEED] [--only NUMBER ...] [--jobs N] [--junit FILE]

A trial is a small job to which one fault happens in one phase. Which trials a run has, and what happens in each,
follows from the seed alone: `--seed SEED --only NUMBER` repeats one. The exit status is 1 when a rank hung, was not
told, was told the wrong rank, got wrong data, or anything of a job was left behind. How long the news took is reported
and fails nothing.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from horovod import _roda
from job import Job, Network
from network import NoNamespacesError
from trials import FAULTS, TRANSPORTS, Rank, Trial, Verdict, all_left_out, draw, judge


def told(ranks: list[Rank]) -> list[str]:
    """Return how each rank ended, as it told it."""
    lines = []
    for rank in ranks:
        ends = [f"{line['what']} {line['text']}" for line in rank.told if line["what"] in ("fine", "error")]
        lines.append(f"rank {rank.rank}, status {rank.status or 'none'}: {' '.join(ends)}")
    return lines


class Runner:
    """Runs trials side by side; every thread has a pair of hosts of its own."""

    def __init__(self, limit: float, is_verbose: bool) -> None:
        self._limit = limit
        self._is_verbose = is_verbose
        self._own = threading.local()
        self._lock = threading.Lock()
        self._networks: list[Network] = []

    def run(self, trial: Trial) -> Verdict | None:
        """Run one, unless the time is over."""
        started = time.monotonic()
        if started > self._limit:
            return None
        ranks, when, leaks = Job(trial, self._network() if trial.hosts > 1 else None).run()
        verdict = judge(trial, ranks, when, leaks)
        verdict.seconds = time.monotonic() - started
        with self._lock:
            print(f"{trial} ({verdict.seconds:.1f} s)", flush=True)
            for line in told(ranks) if self._is_verbose else ():
                print(f"     {line}", flush=True)
            for fault in verdict.faults:
                print(f"     FAILED: {fault}", flush=True)
        return verdict

    def _network(self) -> Network:
        if not hasattr(self._own, "network"):
            with self._lock:
                self._own.network = Network(2).__enter__()
                self._networks.append(self._own.network)
        return self._own.network

    def close(self) -> None:
        """Remove the hosts."""
        for network in self._networks:
            network.__exit__()


def hosts_here() -> tuple[tuple[int, ...], str]:
    """Return on how many hosts jobs can run here, and why on no more."""
    try:
        with Network(2):
            return (1, 2), ""
    except NoNamespacesError as error:
        return (), str(error)


def row(title: str, verdicts: list[Verdict]) -> str:
    """Return a line of the table."""
    latencies = [[x for v in verdicts for x in v.at_once], [x for v in verdicts for x in v.by_timeout]]
    times = "".join(f"{statistics.median(x):9.2f}{max(x):8.2f}" if x else f"{'-':>9}{'-':>8}" for x in latencies)
    sums = [sum(getattr(v, name) for v in verdicts) for name in ("survivors", "told", "named")]
    bad = [sum(getattr(v, name) for v in verdicts) for name in ("hangs", "wrong", "leaks")]
    failed = sum(bool(v.faults) for v in verdicts)
    counts = "".join(f"{n:10}" for n in sums)
    return f"{title:14}{len(verdicts):7}{counts}{times}{''.join(f'{n:7}' for n in bad)}{failed:8}"


def print_table(verdicts: list[Verdict]) -> None:
    """Print what came of all trials: by fault, phase, transport and number of hosts."""
    print(f"\n{'':51}{'told at once, s':>17}{'by a timeout, s':>17}")
    times = f"{'median':>9}{'longest':>8}"
    print(f"{'':14} trials survivors      told     named{times}{times}  hangs  wrong  leaks  failed")
    for key in ("fault", "phase", "transport", "hosts"):
        groups: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            value = getattr(verdict.trial, key)
            groups.setdefault(f"{value} host(s)" if key == "hosts" else value, []).append(verdict)
        for title, group in sorted(groups.items()):
            print(row(title, group))
        print()
    print(row("all", verdicts))


def write_junit(path: Path, verdicts: list[Verdict], skipped: list[tuple[str, str]]) -> None:
    """Write a report with a case for each trial, and for what is left out."""
    cases = []
    for v in verdicts:
        failure = f"<failure>{escape(chr(10).join(v.faults))}</failure>" if v.faults else ""
        cases.append(f"<testcase name={quoteattr(str(v.trial))} time='{v.seconds:.2f}'>{failure}</testcase>")
    cases += [f"<testcase name={quoteattr(n)}><skipped message={quoteattr(why)}/></testcase>" for n, why in skipped]
    path.write_text(f'<testsuites><testsuite name="faults">{"".join(cases)}</testsuite></testsuites>\n')


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="to start trials for")
    parser.add_argument("--trials", type=int, help="how many; default: every fault in every phase once")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER")
    parser.add_argument("--jobs", type=int, default=3, help="trials at a time; default: %(default)s")
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--verbose", action="store_true", help="print what every rank told")
    options = parser.parse_args()
    hosts, reason = hosts_here()
    if not hosts:
        print(f"skipped: {reason}")
        if options.junit:
            write_junit(options.junit, [], [("all", reason)])
        return 0
    unusable = tuple(t for t in TRANSPORTS if t != "default" and not _roda.transport_usable(t))
    transports = tuple(t for t in TRANSPORTS if t not in unusable)
    print(f"seed {options.seed}, transports {' '.join(transports)}", flush=True)
    count = options.trials or (1 << 30 if options.seconds else sum(len(phases) for phases in FAULTS.values()))
    drawn = itertools.islice(draw(options.seed, transports, hosts), max(options.only) if options.only else count)
    chosen = (trial for trial in drawn if not options.only or trial.number in options.only)
    runner = Runner(time.monotonic() + (options.seconds or 1 << 30), options.verbose)
    verdicts: list[Verdict] = []
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                trial = next(chosen, None)
            verdict = trial and runner.run(trial)
            if not verdict:
                return
            verdicts.append(verdict)

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            for future in [pool.submit(work) for _ in range(options.jobs)]:
                future.result()
    finally:
        runner.close()
    verdicts.sort(key=lambda v: v.trial.number)
    print_table(verdicts)
    skipped = [*all_left_out(transports, hosts), *((f"over {t}", "not usable here") for t in unusable)]
    for what, why in skipped:
        print(f"left out: {what}: {why}")
    failed = [v for v in verdicts if v.faults]
    for verdict in failed:
        print(f"again: {sys.argv[0]} --seed {options.seed} --only {verdict.trial.number}   # {verdict.faults[0][:200]}")
    if options.junit:
        write_junit(options.junit, verdicts, skipped)
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
