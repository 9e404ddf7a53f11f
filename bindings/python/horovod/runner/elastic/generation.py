"""The parts of a generation of an elastic job: workers, their ranks, and what is to be done with them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Union

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.elastic.discovery import Cooldown

_OWN_GENERATIONS = 1 << 32


class Stage(Enum):
    """Where a worker stands."""

    STARTING = "starting"  # it sets up and has not asked for a generation yet
    WAITING = "waiting"  # for the next generation
    FORMING = "forming"  # one: it was told its rank
    TRAINING = "training"  # as a rank of one
    REMOVED = "removed"  # told to end


@dataclass(eq=False)
class Worker:
    """One process of the job."""

    number: int
    host: str
    slot: int
    stage: Stage = Stage.STARTING
    has_state: bool = False  # has been synchronised with the others
    since: float = 0.0  # the stage
    failure: str = ""  # why it could not form its last generation
    lost_rank: int | None = None  # which rank of that it did not hear
    is_slow: bool = False  # the others have waited for its host for long: another slot is to take its place
    spares: set[Worker] | None = None  # whose state it knows others to have, who live; None: all have all of it

    @property
    def name(self) -> str:
        """The worker's name in errors."""
        return f"{self.host}[{self.slot}]"

    @property
    def own_generation(self) -> int:
        """The number of the generation in which the worker is alone while it sets up; no other worker has it."""
        return _OWN_GENERATIONS + self.number


# --- what is to be done ---


@dataclass(frozen=True)
class Place:
    """A worker's numbers in a generation."""

    worker: Worker
    slot: SlotInfo
    ranked: Sequence[Worker]  # all, in the order of their ranks
    generation: int

    @property
    def first_host(self) -> str:
        """The host of rank 0."""
        return self.ranked[0].host


@dataclass(frozen=True)
class Start(Place):
    """Start a worker's process, with the place in its environment that it will have unless others come or go first."""

    sharers: int  # workers that its host has room for


@dataclass(frozen=True)
class Tell:
    """Send a worker a message."""

    worker: Worker
    message: dict[str, Any]


@dataclass(frozen=True)
class Publish(Place):
    """Tell a worker its place in a generation."""

    sync: bool


@dataclass(frozen=True)
class Welcome(Place):
    """Let a newcomer set up, alone, with the place that it will have unless others come or go first."""


@dataclass(frozen=True)
class End:
    """End a worker's process: politely, or at once."""

    worker: Worker
    at_once: bool


@dataclass(frozen=True)
class Retire:
    """End a generation: a worker that still comes to it is told why it is over."""

    generation: int
    reason: str


@dataclass(frozen=True)
class Say:
    """Tell the user."""

    text: str


Action = Union[Start, Tell, Publish, Welcome, End, Retire, Say]  # with | from Python 3.10 on


class WorkersFailedError(RuntimeError):
    """A worker ended with a non-zero status, and the job can't go on without it."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name} {status}")
        self.name = name
        self.status = status


def removable(surplus: Sequence[Worker], living: Sequence[Worker], deaths: int) -> list[Worker]:
    """Return the workers of a surplus that the next generation can do without.

    Where each has a part of the state, those whose part others took over in a commit that all know of. None of them
    after a failure: those that have the state, too, may be the ones that died or can't be reached.
    """
    told = [worker.spares for worker in living if worker.spares is not None]
    spared = set(surplus) if not told else set() if deaths else set.intersection(*told)
    return [worker for worker in surplus if worker in spared or worker not in living]


# --- ranks ---


def assign(survivors: Sequence[Worker], newcomers: Sequence[Worker]) -> list[Worker]:
    """Return the workers in the order of their ranks.

    Survivors come in the order of their last ranks, newcomers behind those of their host. Ranks of a host follow one
    another. The first survivor that has the job's state is rank 0, from where it is given to newcomers.
    """
    ordered = list(survivors)
    for i, worker in enumerate(ordered):
        if worker.has_state:
            ordered.insert(0, ordered.pop(i))
            break
    by_host: dict[str, list[Worker]] = {}
    for worker in [*ordered, *newcomers]:
        by_host.setdefault(worker.host, []).append(worker)
    return [worker for workers in by_host.values() for worker in workers]


def slots_of(ranked: Sequence[Worker]) -> list[SlotInfo]:
    """Return the numbers of workers that are given in the order of their ranks.

    Local ranks follow the slots: where a host is full, a worker's local rank is its slot, also that of one that came
    into another's place.
    """
    on_host: dict[str, list[Worker]] = defaultdict(list)
    for worker in sorted(ranked, key=lambda worker: worker.slot):
        on_host[worker.host].append(worker)
    local = {worker.number: i for workers in on_host.values() for i, worker in enumerate(workers)}
    hosts = list(dict.fromkeys(worker.host for worker in ranked))
    crosses = defaultdict(list)
    for host in hosts:
        for i in range(len(on_host[host])):
            crosses[i].append(host)
    return [
        SlotInfo(
            hostname=worker.host,
            rank=rank,
            local_rank=local[worker.number],
            cross_rank=crosses[local[worker.number]].index(worker.host),
            size=len(ranked),
            local_size=len(on_host[worker.host]),
            cross_size=len(crosses[local[worker.number]]),
        )
        for rank, worker in enumerate(ranked)
    ]


def next_places(
    members: Sequence[Worker], workers: Collection[Worker], surplus: Collection[Worker], generation: int
) -> dict[Worker, Place]:
    """Return the places of the next generation, if nobody comes or goes first.

    Parameters
    ----------
    members : sequence of Worker
        Workers of the last generation, by rank: those that stay come before the others.
    workers : collection of Worker
        All that live.
    surplus : collection of Worker
        Members that go.
    generation : int
        The next one's number.
    """
    here = [worker for worker in workers if worker.stage != Stage.REMOVED]
    staying = [worker for worker in members if worker in here and worker not in surplus]
    ranked = assign(staying, [worker for worker in here if worker not in members])
    return {worker: Place(worker, slot, ranked, generation) for worker, slot in zip(ranked, slots_of(ranked))}


@dataclass
class Limits:
    """Numbers that the user gave; see :class:`horovod.runner.elastic.settings.ElasticSettings`."""

    num_proc: int
    min_num_proc: int
    max_num_proc: int | None = None
    elastic_timeout: float = 600.0
    reset_limit: int | None = None
    has_fixed_hosts: bool = False
    slow_seconds: float | None = None
    make_cooldown: Callable[[], Cooldown] = Cooldown
