"""The messages between an elastic job's launcher and its workers: places go out, answers have effects."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from horovod.common.model import Fault, flag, listed, modelled, of, optional, parse, text, whole
from horovod.runner.elastic.discovery import Cooldown, DiscoveryError, HostDiscovery, check_cooldown_range
from horovod.runner.elastic.generation import End, Place, Publish, Retire, Say, Start, Tell, Welcome, Worker, slots_of
from horovod.runner.elastic.membership import Limits, Membership
from horovod.runner.elastic.settings import ElasticSettings

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0

Result = TypeVar("Result")


_GENERATION, _RANK = whole(0, 2**63 - 1), whole(0, 2**31 - 1)


@dataclass(frozen=True)
class _Message:
    """A worker's message: one of the six kinds, and its content."""

    left: int | None = of(_GENERATION, default=None)
    formed: int | None = of(_GENERATION, default=None)
    failed: int | None = of(_GENERATION, default=None)
    lives: int | None = of(_GENERATION, default=None)
    synced: int | None = of(_GENERATION, default=None)
    waits: int | None = of(_GENERATION, default=None)
    ready: bool = of(flag(), default=True)
    sync: bool = of(flag(), default=True)
    lost: int | None = of(optional(_RANK), default=None)
    straggler: int = of(_RANK, default=0)
    may_go: list[int] | None = of(optional(listed(_RANK, 1 << 20)), default=None)
    text: str = of(text(), default="")

    def __post_init__(self) -> None:
        told = (self.left, self.formed, self.failed, self.lives, self.synced, self.waits)
        if sum(each is not None for each in told) != 1:
            raise Fault("says nothing, or several things", "one of left, formed, failed, lives, synced, waits")


_MESSAGE = modelled(_Message)


class Hands(Protocol):
    """Reaches workers; a call for a worker that has ended is dropped."""

    def start(self, start: Start) -> None:
        """Start a worker's process."""

    def tell(self, worker: Worker, text: str) -> None:
        """Send a line of text to its ``Channel``."""

    def end(self, worker: Worker, at_once: bool) -> None:
        """End its process."""

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a worker its numbers in a generation."""

    def retire(self, generation: int, reason: str) -> None:
        """Refuse workers that still come to that generation."""


def find_hosts(
    discovery: HostDiscovery, first: Mapping[str, int], post: Callable[[Any], None], has_ended: threading.Event
) -> None:
    """Ask for the hosts again and again until an event; post each change: hosts, or why they can't be found out."""
    last: Any = dict(first)
    while not has_ended.wait(DISCOVER_HOSTS_FREQUENCY_SECS):
        try:
            found: Any = discovery.find_available_hosts_and_slots()
        except (DiscoveryError, OSError) as error:
            found = str(error)
        if found != last:
            last = found
            post(found)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Control:
    """Reports events to the membership of a job, and carries out its actions. One thread.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job.
    hands : Hands
        Reaches the workers.
    speaker : str
        Stands before what the user is told.
    tell : callable
        Takes a line for the user; by default it is printed on stderr.

    Attributes
    ----------
    membership : Membership
        Of the job.
    """

    def __init__(
        self, settings: ElasticSettings, hands: Hands, speaker: str, tell: Callable[[str], None] = _print
    ) -> None:
        check_cooldown_range(settings.cooldown_range)
        self._hands, self._speaker, self._tell_user = hands, speaker, tell
        self._last_time = 0.0
        self.membership = Membership(
            Limits(
                num_proc=settings.num_proc,
                min_num_proc=settings.min_num_proc or settings.num_proc,
                max_num_proc=settings.max_num_proc,
                elastic_timeout=settings.elastic_timeout,
                reset_limit=settings.reset_limit,
                has_fixed_hosts=settings.has_fixed_hosts,
                slow_seconds=settings.slow_seconds,
                make_cooldown=lambda: Cooldown(settings.cooldown_range),
            )
        )

    def hosts_found(self, found: Mapping[str, int] | str) -> None:
        """Take what :func:`find_hosts` posts."""
        if isinstance(found, str):
            self.say(f"{found} The hosts that were found last stay.")
        else:
            self.membership.hosts_found(found, time.monotonic())

    def hear(self, number: int, line: bytes) -> None:
        """Take a line of a worker's ``Channel``; a worker that sends anything else is ended, the others go on."""
        now = time.monotonic()
        try:
            message: _Message = _MESSAGE.take(parse(line))
        except Fault as fault:
            worker = self.membership.workers.get(number)
            if worker is not None:
                self.say(f"Worker {worker.name} wrote a line to the descriptor of its job that {fault}. It is ended.")
                self._hands.end(worker, at_once=True)
            return
        if message.left is not None and not message.ready:
            self.membership.arrived(number, now)
        elif message.left is not None:
            self.membership.left(number, message.sync, message.lost, now, message.may_go)
        elif message.formed is not None:
            self.membership.formed(number, message.formed, now)
        elif message.failed is not None:
            self.membership.failed_to_form(number, message.failed, message.text, message.lost, now)
        elif message.lives is not None:
            self.membership.answered(number, now)
        elif message.synced is not None:
            self.membership.synced(number)
        elif message.waits is not None:
            self.membership.waited(message.waits, message.straggler, now)

    def carry_out(self) -> None:
        """Carry out the membership's actions."""
        for action in self.membership.take_actions():
            if isinstance(action, Say):
                self.say(action.text)
            elif isinstance(action, Start):
                self._hands.start(action)
            elif isinstance(action, Publish):
                place = {"generation": action.generation, "sync": action.sync}
                self._tell(action.worker, {**place, "environment": self._hands.place_of(action)})
            elif isinstance(action, Welcome):
                self._welcome(action)
            elif isinstance(action, Tell):
                self._tell(action.worker, action.message)
            elif isinstance(action, Retire):
                self._hands.retire(action.generation, action.reason)
            elif isinstance(action, End):
                self._hands.end(action.worker, action.at_once)

    def seconds_left(self) -> float | None:
        """Return the seconds until the membership is to look next; None for never."""
        deadline = self.membership.next_deadline()
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def by_rank(self, results: Mapping[int, Result]) -> dict[int, Result]:
        """Return values given by number of worker by rank in the last generation; by number if there was none."""
        numbers = [worker.number for worker in self.membership.members] or sorted(results)
        return {rank: results[number] for rank, number in enumerate(numbers) if number in results}

    def say(self, text: str) -> None:
        """Tell the user."""
        self._tell_user(f"{self._speaker}: {text}")

    def _welcome(self, action: Welcome) -> None:
        alone = replace(action, slot=slots_of([action.worker])[0], ranked=[action.worker])
        variables = {"environment": self._hands.place_of(alone), "place": self._hands.place_of(action)}
        self._tell(action.worker, {"generation": action.generation, **variables})

    def _tell(self, worker: Worker, message: dict[str, Any]) -> None:
        # One clock for all notices, whichever worker is rank 0; no two are equal.
        self._last_time = max(time.time(), self._last_time + 1e-6)
        self._hands.tell(worker, json.dumps({**message, "time": self._last_time}))
