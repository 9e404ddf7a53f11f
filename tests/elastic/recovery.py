#!/usr/bin/env python3
"""How long the others stand still when a worker is killed, and when another joins.

usage: recovery.py [--kills 20] [--np 4] [--hosts 1] [--seed S]

Kills a worker of a job that trains, again and again: `recovery` is from the kill to the end of the slowest survivor's
first step after it. Then waits until another worker has joined: `join` is the longest time between two steps of a
survivor, with the step and the synchronisation in it. With two or three hosts they are network namespaces (root).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import time

from job import ElasticJob
from network import Network, NoNamespacesError

LIMIT = 60.0  # seconds, for what takes a few


def quartiles(name: str, seconds: list[float]) -> str:
    """Return a line of the table."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    numbers = (min(seconds), low, middle, high, max(seconds))
    return f"{name:10}" + "".join(f"{number * 1000:10.0f}" for number in numbers)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--np", type=int, default=4, help="workers, as many on each host")
    parser.add_argument("--hosts", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311 (victims, no secrets)
    recoveries, joins = [], []
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(options.hosts)) if options.hosts > 1 else None
        names = [host.address for host in network.hosts] if network else ["localhost"]
        hosts = dict.fromkeys(names, options.np // len(names))
        size = sum(hosts.values())
        flags = ("-np", str(size), "--min-np", "1", "--max-np", str(size), "--blacklist-cooldown-range", "1", "1")
        job = stack.enter_context(ElasticJob(hosts, *flags, network=network))
        job.wait_until_trained(size, 0.0, LIMIT, set())
        for _ in range(options.kills):
            time.sleep(draw.uniform(0.1, 0.3))
            victim = draw.choice(sorted(job.last("goes on", "step")))
            killed_at = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            job.wait_until_trained(size - 1, killed_at, LIMIT, {victim})
            first = [line for line in job.told if line["what"] == "goes on" and line["time"] > killed_at]
            recoveries.append(max(line["time"] for line in first) - killed_at)
            recovered_at = max(line["time"] for line in first)
            job.wait_until_trained(size, recovered_at, LIMIT, {victim})
            later = [line for line in job.told if line["what"] == "goes on" and line["time"] > recovered_at]
            joins.append(max(line["gap"] for line in later if line["gap"] is not None))
        if job.finish(LIMIT) != 0:
            print(job.text(), file=sys.stderr)
            return 1
    print(f"{options.kills} kills, {size} workers on {len(names)} host(s), milliseconds")
    print(f"{'':10}" + "".join(f"{name:>10}" for name in ("least", "quarter", "median", "3/4", "most")))
    print(quartiles("recovery", recoveries))
    print(quartiles("join", joins))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoNamespacesError as error:
        sys.exit(f"no hosts can be made: {error}")
