#!/usr/bin/env python3
"""Random events in an elastic job on three hosts, and whether it goes on after each.

usage: events.py [--events 200] [--seed S] [--hosts 3]

Workers are killed (one, or several at once) and stopped; hosts and slots come and go; discovery fails, hangs, prints
rubbish. What happens follows from the seed. After each event all workers that are left must train together, with the
right values, no process that was not hit may start anew, and the job must end well. The hosts are network namespaces
(root); with --hosts 1 it is this one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable

from job import ElasticJob, JobError, is_alive
from network import Network, NoNamespacesError

LIMIT = 90.0  # seconds after an event; a stopped worker takes some 15
PATIENCE = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "5", "HOROVOD_ABORT_TIMEOUT_SECONDS": "3"}
SLOTS = 2
MODES = ("fail", "hang", "rubbish")


class Events:
    """What may happen to a job, and what is expected of it then."""

    def __init__(self, job: ElasticJob, names: list[str], draw: random.Random) -> None:
        self._job = job
        self._names = names
        self._draw = draw
        self._hosts = dict.fromkeys(names, SLOTS)
        self._mode = "ok"
        self._expected: int | None = None  # workers, after this event
        self._hit: set[int] = set()  # killed or stopped

    def _workers(self) -> list[int]:
        """Return the processes that train, those that have been there longest first."""
        self._job.look()
        order = {line["pid"]: i for i, line in reversed(list(enumerate(self._job.told)))}
        last = self._job.last("goes on", "step", "left")
        present = (pid for pid, line in last.items() if line["what"] != "left" and pid not in self._hit)
        return sorted(present, key=order.__getitem__)

    def kill(self) -> str:
        """Kill some workers, but never all: their state is the job's."""
        workers = self._job.wait_for("somebody trains", self._workers, LIMIT)
        victims = self._draw.sample(workers, min(self._draw.choice((1, 1, 1, 2, 3)), len(workers) - 1))
        return self._signal(victims, signal.SIGKILL)

    def stop(self) -> str:
        """Stop a worker."""
        workers = self._job.wait_for("somebody trains", self._workers, LIMIT)
        return self._signal(self._draw.sample(workers, min(1, len(workers) - 1)), signal.SIGSTOP)

    def kill_young(self) -> str:
        """Kill whatever has started and does not train yet."""
        self._job.look()
        young = [pid for pid in self._job.last("started") if pid not in self._job.last("goes on", "step")]
        return self._signal(young, signal.SIGKILL)

    def _signal(self, victims: list[int], number: signal.Signals) -> str:
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self._hit.update(victims)
        return f"{number.name} to {len(victims)}"

    def hosts(self) -> str:
        """Have hosts and slots come and go; as many workers follow, before anything else happens."""
        self._mode = "ok"
        self._job.set_discovery("ok")
        count = self._draw.randint(1, len(self._names))
        self._hosts = {name: self._draw.randint(0, SLOTS) for name in self._draw.sample(self._names, count)}
        if not any(self._hosts.values()):
            self._hosts[self._names[0]] = 1
        self._job.set_hosts(self._hosts)
        self._expected = sum(self._hosts.values())
        return f"hosts {self._hosts}"

    def discovery(self) -> str:
        """Have discovery go wrong, or right again."""
        self._mode = "ok" if self._mode != "ok" else self._draw.choice(MODES)
        self._job.set_discovery(self._mode)
        return f"discovery {self._mode}"

    def run(self) -> str:
        """Let something happen, and wait until the job trains again; JobError when it does not."""
        event: Callable[[], str] = self._draw.choice(
            (self.kill, self.kill, self.kill, self.stop, self.kill_young, self.hosts, self.hosts, self.discovery)
        )
        time.sleep(self._draw.choice((0.0, 0.0, 0.3, 1.0, 2.5)))  # the next comes while newcomers start, or later
        before = set(self._workers())
        since, self._expected = time.monotonic(), None
        text = event()
        now = self._job.wait_until_trained(self._expected, since, LIMIT, self._hit)
        restarted = {line["pid"] for line in self._job.told if line["what"] == "started" and line["time"] > since}
        if restarted & before:
            raise JobError(f"processes {restarted & before} started anew")
        lost = {pid for pid in before - self._hit if not is_alive(pid)}
        removed = self._job.text().count("has been removed from elastic job")
        if len(lost) > removed:
            raise JobError(f"processes {lost} have gone, and were not hit")
        return f"{text}: {len(now)} train at step {max(line['step'] for line in now.values())}"

    def settle(self) -> None:
        """Have all slots back, and wait until the job uses one on each host at least."""
        self._job.set_discovery("ok")
        self._job.set_hosts(dict.fromkeys(self._names, SLOTS))
        self._job.wait_until_trained(len(self._names) * SLOTS, time.monotonic(), LIMIT, self._hit)


def main() -> int:
    """Run the events of a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--hosts", type=int, default=3, choices=(1, 2, 3))
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(options.hosts)) if options.hosts > 1 else None
        names = [host.address for host in network.hosts] if network else ["localhost"]
        flags = ("-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "1", "2")
        job = stack.enter_context(ElasticJob(dict.fromkeys(names, SLOTS), *flags, network=network, **PATIENCE))
        events = Events(job, names, random.Random(seed))  # noqa: S311 (events, no secrets)
        try:
            job.wait_until_trained(len(names) * SLOTS, 0.0, LIMIT, set())
            for number in range(options.events):
                started = time.monotonic()
                print(f"{number:4} {events.run()} ({time.monotonic() - started:.1f} s)", flush=True)
            events.settle()
            status = job.finish(LIMIT)
        except JobError as error:
            print(f"FAILED, seed {seed}: {error}", flush=True)
            return 1
        if status != 0:
            print(f"FAILED, seed {seed}: horovodrun ended with {status}:\n{job.text()}")
            return 1
    print(f"{options.events} events: no failure")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoNamespacesError as error:
        sys.exit(f"no hosts can be made: {error}")
