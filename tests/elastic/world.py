"""A launcher's membership, and around it workers as processes of few lines: one value, with all that can happen to it.

Messages wait on two queues for each worker as long as one likes. The membership is the product's own.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic.discovery import Cooldown
from horovod.runner.elastic.generation import (
    Action,
    End,
    Publish,
    Retire,
    Stage,
    Start,
    Tell,
    Welcome,
    Worker,
    WorkersFailedError,
)
from horovod.runner.elastic.membership import Limits, Membership
from horovod.runner.elastic.worker import HostUpdateResult

_HOST = "a"

copyreg.pickle(WorkersFailedError, lambda error: (WorkersFailedError, (error.name, error.status)))


class Phase(Enum):
    """Where a worker's program stands."""

    BEGINS = "begins"
    ASKS = "asks"  # for a place
    GUEST = "guest"  # sets up alone
    FORMS = "forms"  # a generation
    TRAINS = "trains"
    ENDED = "ended"


@dataclass
class Process:
    """A worker's process. `inbox` and `outbox` are on their way."""

    number: int
    phase: Phase = Phase.BEGINS
    generation: int = 0
    done: int = 0  # collectives of the generation
    commits: int = 0
    told: int = 0  # how hosts changed in this generation: flags
    places: list[tuple] = field(default_factory=list)  # that it has not taken yet
    inbox: list[tuple] = field(default_factory=list)
    outbox: list[tuple] = field(default_factory=list)


@dataclass
class Generation:
    """A generation as its ranks' engines see it."""

    members: list[int]
    sync: bool
    commits: dict[int, int] = field(default_factory=dict)  # with which workers came to it, by number
    formed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    done: dict[int, int] = field(default_factory=dict)  # collectives by worker
    is_retired: bool = False
    leaves_at: int = 0  # the collective after which all leave for changed hosts
    changes: int = 0  # then: flags


@dataclass
class World:
    """One state of all."""

    membership: Membership
    steps: int
    slots: int
    deaths: int
    joins: int
    removals: int
    early: int
    now: float = 0.0
    processes: dict[int, Process] = field(default_factory=dict)
    generations: dict[int, Generation] = field(default_factory=dict)
    killed: set[int] = field(default_factory=set)
    has_finished: bool = False


class WrongError(Exception):
    """What must not happen, and did."""


def begin(ranks: int, deaths: int, joins: int, removals: int, early: int, steps: int) -> World:
    """Return the state in which `ranks` slots were just found."""
    limits = Limits(num_proc=ranks, min_num_proc=1, max_num_proc=ranks + joins, make_cooldown=Cooldown)
    world = World(Membership(limits), steps, ranks, deaths, joins, removals, early)
    world.membership.hosts_found({_HOST: ranks}, 0.0)
    _carry_out(world)
    return world


# --- what can happen ---

Event = tuple[str, int]


def events(world: World) -> list[Event]:
    """Return what can happen now."""
    found: list[Event] = []
    for process in world.processes.values():
        number = process.number
        if process.outbox:
            found.append(("heard", number))
        if process.phase is Phase.ENDED:
            continue
        if process.inbox:
            found.append(("told", number))
        found += [(what, number) for what in _moves(world, process)]
    if not found or world.early:
        deadline = world.membership.next_deadline()
        if deadline is not None:
            found.append(("time", 0))
    if world.membership.generation and not world.has_finished:
        found += [("slot comes", 0)] if world.joins else []
        found += [("slot goes", 0)] if world.removals else []
    if world.deaths:
        found += [("dies", each.number) for each in world.processes.values() if each.phase is not Phase.ENDED]
    return found


def _moves(world: World, process: Process) -> Iterator[str]:
    """Yield what a worker's program may do next."""
    if process.phase in (Phase.BEGINS, Phase.GUEST):
        yield "goes on"
    elif process.phase is Phase.ASKS and process.places:
        yield "takes its place"
    elif process.phase is Phase.FORMS:
        generation = world.generations[process.generation]
        is_broken = generation.is_retired or any(n in generation.gone or _is_dead(world, n) for n in generation.commits)
        if len(generation.commits) == len(generation.members):
            yield "forms"
        if is_broken:
            yield "fails to form"
    elif process.phase is Phase.TRAINS:
        generation = world.generations[process.generation]
        others = [n for n in generation.members if n != process.number]
        if all(n in generation.formed and generation.done[n] >= process.done for n in others):
            yield "completes"
        if any(
            (n in generation.gone or _is_dead(world, n)) and generation.done.get(n, 0) <= process.done for n in others
        ):
            yield "loses"


def _is_dead(world: World, number: int) -> bool:
    return world.processes[number].phase is Phase.ENDED


def play(world: World, event: Event) -> None:
    """Let an event happen."""
    what, number = event
    it = world.membership
    if what == "time":
        deadline = it.next_deadline()
        assert deadline is not None
        if any(each.outbox or each.inbox for each in world.processes.values()):
            world.early -= 1
        world.now = max(world.now, deadline)
        it.look(world.now)
    elif what == "slot comes":
        world.joins, world.slots = world.joins - 1, world.slots + 1
        it.hosts_found({_HOST: world.slots}, world.now)
    elif what == "slot goes":
        world.removals, world.slots = world.removals - 1, world.slots - 1
        it.hosts_found({_HOST: world.slots}, world.now)
    else:
        process = world.processes[number]
        if what == "dies":
            world.deaths -= 1
            world.killed.add(number)
            _end(process, -9)
        elif what == "heard":
            _hear(world, process, process.outbox.pop(0))
        elif what == "told":
            _read(world, process, process.inbox.pop(0))
        elif what == "goes on":
            process.outbox.append(("arrived",) if process.phase is Phase.BEGINS else ("left", True, None))
            process.phase = Phase.ASKS
        elif what == "takes its place":
            _take_place(world, process)
        elif what == "forms":
            _formed(world.generations[process.generation], process)
        elif what == "fails to form":
            _leave(world, process, ("failed", process.generation, _lost_rank(world, process)))
        elif what == "completes":
            _complete(world, process)
        elif what == "loses":
            _leave(world, process, ("left", True, _lost_rank(world, process)))
    _carry_out(world)


def _end(process: Process, status: int) -> None:
    process.phase = Phase.ENDED
    process.inbox.clear()
    process.places.clear()
    process.outbox.append(("ended", status))


def _lost_rank(world: World, process: Process) -> int | None:
    members = world.generations[process.generation].members
    return next((rank for rank, number in enumerate(members) if _is_dead(world, number)), None)


def _leave(world: World, process: Process, message: tuple) -> None:
    world.generations[process.generation].gone.add(process.number)
    process.phase, process.told = Phase.ASKS, 0
    process.outbox.append(message)


def _hear(world: World, process: Process, message: tuple) -> None:
    it, number = world.membership, process.number
    kind, *rest = message
    if kind == "ended":
        it.ended(number, rest[0], world.now)
    elif kind == "arrived":
        it.arrived(number, world.now)
    elif kind == "left":
        it.left(number, rest[0], rest[1], world.now)
    elif kind == "formed":
        it.formed(number, rest[0], world.now)
    elif kind == "failed":
        it.failed_to_form(number, rest[0], "could not", rest[1], world.now)
    elif kind == "lives":
        it.answered(number, world.now)
    else:
        it.synced(number)


def _read(world: World, process: Process, message: tuple) -> None:
    kind, *rest = message
    if kind == "ask":
        process.outbox.append(("lives",))
    elif kind == "hosts":
        if rest[0] == process.generation and process.phase is Phase.TRAINS:
            process.told |= rest[1]
    elif kind == "end":
        if rest[0] == -9:  # taken for dead
            world.killed.add(process.number)
        _end(process, rest[0])
    else:
        process.places.append(message)


def _take_place(world: World, process: Process) -> None:
    kind, *rest = process.places.pop(0)
    if kind == "removed":
        _end(process, 0)
    elif kind == "refused":
        _end(process, 1)
    elif kind == "guest":
        process.phase = Phase.GUEST
    else:
        process.phase, process.generation, process.done = Phase.FORMS, rest[0], 0
        generation = world.generations[process.generation]
        generation.commits[process.number] = process.commits
        generation.done[process.number] = 0
        if len(generation.commits) == len(generation.members):
            _check_commits(generation)


def _formed(generation: Generation, process: Process) -> None:
    generation.formed.add(process.number)
    process.phase = Phase.TRAINS
    process.outbox.append(("formed", process.generation))


def _complete(world: World, process: Process) -> None:
    """Take a worker through a collective: the synchronisation, or the last one of a step, whose state it commits."""
    generation = world.generations[process.generation]
    first = world.processes[generation.members[0]]
    if process.done == 0 and generation.sync:
        process.commits = generation.commits[first.number]
        process.outbox.append(("synced",))
    else:
        process.commits += 1
    process.done += 1
    generation.done[process.number] = process.done
    newest = max(generation.done.values())
    if first.told and first.generation == process.generation and not generation.leaves_at:
        generation.leaves_at = newest + (first.done < newest)  # rank 0 says so with its next one
        generation.changes = first.told
    is_commit = process.done > generation.sync
    if process.commits >= world.steps:
        world.has_finished = True
        _end(process, 0)
    elif is_commit and process.done >= generation.leaves_at > 0:
        _leave(world, process, ("left", generation.changes != HostUpdateResult.removed, None))


def _check_commits(generation: Generation) -> None:
    """The newest commit is where a generation goes on, or the one before it where a rank was lost meanwhile."""
    first = generation.commits[generation.members[0]]
    if any(each > first + 1 for each in generation.commits.values()):
        raise WrongError(f"commits are lost: ranks that have {generation.commits} go on with {first}")
    if not generation.sync and set(generation.commits.values()) != {first}:
        raise WrongError(f"ranks that have {generation.commits} commits go on, and nobody synchronises them")


def _carry_out(world: World) -> None:
    it = world.membership
    while actions := it.take_actions():
        for action in actions:
            _carry_out_one(world, action)
    _check(world)


def _carry_out_one(world: World, action: Action) -> None:
    if isinstance(action, Start):
        world.processes[action.worker.number] = Process(action.worker.number)
    elif isinstance(action, Retire):
        if action.generation in world.generations:
            world.generations[action.generation].is_retired = True
    elif isinstance(action, Publish):
        numbers = [worker.number for worker in action.ranked]
        world.generations.setdefault(action.generation, Generation(numbers, action.sync))
        _send(world, action.worker.number, ("place", action.generation))
    elif isinstance(action, Welcome):
        _send(world, action.worker.number, ("guest",))
    elif isinstance(action, End):
        _send(world, action.worker.number, ("end", -9 if action.at_once else -15))
    elif isinstance(action, Tell):
        message = action.message
        kind = next(each for each in ("ask", "removed", "refused", "hosts") if each in message)
        _send(world, action.worker.number, (kind, message.get("generation", 0), message.get("hosts", 0)))


def _send(world: World, number: int, message: tuple) -> None:
    process = world.processes[number]
    if process.phase is not Phase.ENDED:
        process.inbox.append(message)


# --- what must hold ---


def _check(world: World) -> None:
    it = world.membership
    if not it.is_over:
        return
    is_lost = bool(world.killed) and (world.has_finished or all(each.number in world.killed for each in it.members))
    never_began = bool(world.killed) and it.generation == 0
    if it.error is None:
        if not world.has_finished:
            raise WrongError("the job is over, and nobody has finished")
    elif not (isinstance(it.error, WorkersFailedError) and is_lost) and not (
        isinstance(it.error, TimeoutException) and never_began
    ):
        raise WrongError(f"the job ends with {it.error!r}")


def is_end(world: World) -> bool:
    """Tell whether the job is over."""
    return world.membership.is_over


# --- equal states ---


def key_of(world: World) -> tuple:
    """Return a value that is equal for states that go on alike."""
    it, now = world.membership, world.now

    def after(when: float | None) -> float | None:
        return None if when is None else max(round(when - now, 3), -1000.0)

    def worker_key(worker: Worker) -> tuple:
        since = after(worker.since) if worker.stage in (Stage.WAITING, Stage.REMOVED) else 0
        spares = None if worker.spares is None else tuple(sorted(each.number for each in worker.spares))
        return (
            worker.number,
            worker.slot,
            worker.stage.value,
            worker.has_state,
            since,
            worker.failure,
            worker.lost_rank,
            spares,
        )

    membership = (
        tuple(worker_key(worker) for worker in it.workers.values()),
        it.generation,
        tuple(worker.number for worker in it.members),
        it.is_over,
        tuple(it._hosts.items()),
        tuple((place, after(each.until)) for place, each in sorted(it._blacklist.items())),
        it._next_number,
        tuple(it._failures),
        it._finisher is None,
        tuple(sorted(worker.number for worker in it._unfinished)),
        it._late_failure is None,
        (it._noticed[0], tuple(it._noticed[1])),
        it._sync,
        it._deaths,
        tuple((number, after(when)) for number, when in sorted(it._suspects.items())),
        tuple((number, after(when)) for number, when in sorted(it._asked.items())),
        after(it._waits_since),
        after(it._judge_at),
        None if (deadline := it.next_deadline()) is None else after(deadline),
    )
    processes = tuple(
        (
            p.number,
            p.phase.value,
            p.generation,
            p.done,
            p.commits,
            p.told,
            tuple(p.places),
            tuple(p.inbox),
            tuple(p.outbox),
        )
        for p in world.processes.values()
    )
    used = {p.generation for p in world.processes.values() if p.phase in (Phase.FORMS, Phase.TRAINS)}
    used |= {place[1] for p in world.processes.values() for place in [*p.places, *p.inbox] if place[0] == "place"}
    generations = tuple(
        (
            n,
            g.sync,
            tuple(sorted(g.commits.items())),
            tuple(sorted(g.formed)),
            tuple(sorted(g.gone)),
            tuple(sorted(g.done.items())),
            g.is_retired,
            g.leaves_at,
            g.changes,
        )
        for n, g in world.generations.items()
        if n in used
    )
    budgets = (
        world.deaths,
        world.joins,
        world.removals,
        world.early,
        world.has_finished,
        world.slots,
        tuple(sorted(world.killed)),
    )
    return membership, processes, generations, budgets
