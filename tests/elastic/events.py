#!/usr/bin/env python3
"""Random events in an elastic job on three hosts, and whether it goes on after each.

usage: events.py [--events 200] [--seed S] [--hosts 3]

Workers are killed (one, or several at once) and stopped; a host's agent is killed, its cable pulled; hosts and slots
come and go; discovery fails, hangs, prints rubbish. The kinds of events, their order and the pauses before them follow
from the seed, as long as no kind is added here; whom one hits follows from who is there, too. After each event all
workers that are left must train together, with the right values, no process that was not hit may start anew, and the
job must end well. The hosts are network namespaces (root); with --hosts 1 it is this one, whose cable stays.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from job import ElasticJob, JobError, is_alive
from network import Host, Network, NoNamespacesError

LIMIT = 90.0  # seconds after an event; a stopped worker takes some 15
PATIENCE = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "5", "HOROVOD_ABORT_TIMEOUT_SECONDS": "3"}
SLOTS = 2
MODES = ("fail", "hang", "rubbish")
KINDS = ("kill", "kill", "kill", "stop", "kill_young", "kill_agent", "cut", "hosts", "hosts", "discovery")
PAUSES = (0.0, 0.0, 0.3, 1.0, 2.5)  # seconds: the next comes while newcomers start, or later


@dataclass(frozen=True)
class Event:
    """What is known of an event before the job runs."""

    kind: str
    pause: float
    seed: int  # of what else it draws: how much there is to draw from is a matter of time


def events_of(seed: int) -> Iterator[Event]:
    """Return a seed's events, one after the other."""
    draw = random.Random(seed)  # noqa: S311 (events, no secrets)
    while True:
        yield Event(draw.choice(KINDS), draw.choice(PAUSES), draw.getrandbits(32))


class Events:
    """What may happen to a job, and what is expected of it then."""

    def __init__(self, job: ElasticJob, names: list[str], network: Network | None) -> None:
        self._job = job
        self._network = network
        self._names = names
        self._draw = random.Random()  # noqa: S311 (each event has its own)
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

    def _training(self) -> list[int]:
        """Wait for somebody to train, for two where there are slots: the one that has the state is not touched."""
        least = min(2, sum(self._hosts.values()))

        def found() -> list[int]:
            workers = self._workers()
            return workers if len(workers) >= least else []

        return self._job.wait_for(f"{least} train", found, LIMIT)

    def kill(self) -> str:
        """Kill some workers, but never all: their state is the job's."""
        workers = self._training()
        victims = self._draw.sample(workers, min(self._draw.choice((1, 1, 1, 2, 3)), len(workers) - 1))
        return self._signal(victims, signal.SIGKILL)

    def stop(self) -> str:
        """Stop a worker."""
        workers = self._training()
        return self._signal(self._draw.sample(workers, min(1, len(workers) - 1)), signal.SIGSTOP)

    def kill_young(self) -> str:
        """Kill whatever has started and does not train yet."""
        self._job.look()
        young = [pid for pid in self._job.last("started") if pid not in self._job.last("goes on", "step")]
        return self._signal(young, signal.SIGKILL)

    def kill_agent(self) -> str:
        """Kill a host's agent, with which its workers end, but never all."""
        there = self._workers_by(parent_of)
        if len(there) < 2:
            return "no agent killed: the job's state is on its host alone"
        agent = self._draw.choice(sorted(there))
        self._hit |= there[agent]
        os.kill(agent, signal.SIGKILL)
        return f"SIGKILL to the agent of {len(there[agent])}"

    def cut(self) -> str:
        """Pull the cable of a host, not the launcher's, until the others train without it."""
        hosts = {host.address: host for host in self._network.hosts} if self._network else {}
        there = self._workers_by(lambda pid: next((a for a, host in hosts.items() if is_on(host, pid)), None))
        can_go = sorted(there.keys() - set(self._names[:1])) if len(there) > 1 else []
        if not can_go:
            return "no host cut off: the job's state is on one alone"
        address = self._draw.choice(can_go)
        self._hit |= there[address]
        self._network.set_link(hosts[address], False)
        since = time.monotonic()
        try:
            self._job.wait_until_trained(None, since, LIMIT, self._hit)
        finally:
            self._network.set_link(hosts[address], True)
        return f"{address} with {len(there[address])} cut off for {time.monotonic() - since:.1f} s"

    def _workers_by(self, place: Callable[[int], Any]) -> dict[Any, set[int]]:
        """Return those that train by their places. Young ones are left out: they may live on without their host."""
        there: dict[Any, set[int]] = {}
        for pid in self._training():
            there.setdefault(place(pid), set()).add(pid)
        there.pop(None, None)  # of those that have ended since
        return there

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
        count = max(self._draw.randint(1, len(self._names)) for _ in range(2))
        names = self._draw.sample(self._names, count)
        self._hosts = {name: self._draw.choice((0, 1, SLOTS, SLOTS)) for name in names}
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

    def run(self, event: Event) -> str:
        """Let something happen, and wait until the job trains again; JobError when it does not."""
        self._draw.seed(event.seed)
        time.sleep(event.pause)
        before = set(self._workers())
        since, self._expected = time.monotonic(), None
        step = max((line["step"] for line in self._job.told if "step" in line), default=0)
        text = getattr(self, event.kind)()
        now = self._job.wait_until_trained(self._expected, since, LIMIT, self._hit)
        if min(line["step"] for line in now.values()) < step:
            raise JobError(f"after {text} the training began anew, behind step {step}: {now}\n{self._job.text()}")
        restarted = {line["pid"] for line in self._job.told if line["what"] == "started" and line["time"] > since}
        if restarted & before:
            raise JobError(f"processes {restarted & before} started anew")
        lost = {pid for pid in before - self._hit if not is_alive(pid)}
        # A removed worker says so, and the launcher passes that on, perhaps after its process has gone.
        ends = time.monotonic() + LIMIT
        while len(lost) > self._job.text().count("has been removed from elastic job"):
            if time.monotonic() > ends:
                raise JobError(f"processes {lost} have gone, and were not hit\n{self._job.text()}")
            time.sleep(0.1)
        return f"{text}: {len(now)} train at step {max(line['step'] for line in now.values())}"

    def settle(self) -> None:
        """Have all slots back, and wait until the job uses one on each host at least."""
        self._job.set_discovery("ok")
        self._job.set_hosts(dict.fromkeys(self._names, SLOTS))
        self._job.wait_until_trained(len(self._names) * SLOTS, time.monotonic(), LIMIT, self._hit)


def parent_of(pid: int) -> int | None:
    """Return the parent of a process that is there."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def is_on(host: Host, pid: int) -> bool:
    """Tell whether a process is there, and on that host."""
    try:
        return Path(f"/proc/{pid}/ns/net").samefile(f"/run/netns/{host.namespace}")
    except OSError:
        return False


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
        events = Events(job, names, network)
        try:
            job.wait_until_trained(len(names) * SLOTS, 0.0, LIMIT, set())
            for number, event in zip(range(options.events), events_of(seed)):
                started = time.monotonic()
                print(f"{number:4} {events.run(event)} ({time.monotonic() - started:.1f} s)", flush=True)
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
