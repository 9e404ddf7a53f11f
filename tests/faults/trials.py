"""The fault matrix: which trials there are, how they are drawn, and what a trial's ranks must have told."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FAULTS = {  # and the phases that each can be met in
    "kill": ("launch", "init", "negotiation", "mid", "shutdown"),
    "stop": ("launch", "init", "negotiation", "mid", "shutdown"),
    "vanish": ("launch", "init", "negotiation", "mid", "shutdown"),  # exit status 0, no exit hook runs
    "raise": ("launch", "negotiation", "mid", "shutdown"),
    "exit": ("launch", "negotiation", "mid", "shutdown"),  # exit status 0, as scripts do it
    "cut link": ("launch", "init", "negotiation", "mid", "shutdown"),
    "slow link": ("launch", "init", "negotiation", "mid", "shutdown"),
    "full shm": ("launch", "negotiation", "mid"),
    "descriptors": ("launch", "negotiation", "mid"),
    "memory": ("launch", "negotiation", "mid"),
}
LINK = ("cut link", "slow link")
LIMITS = ("full shm", "descriptors", "memory")  # a rank may get along with what it has left
TRANSPORTS = ("default", "shm", "tcp", "gloo", "mpi", "ucx")
COLLECTIVES = ("allreduce", "adasum", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join")

# Combinations that are left out, each with its reason: (what must be so, why).
LEFT_OUT: list[tuple[dict[str, tuple[str, ...]], str]] = [
    (
        {"fault": ("cut link",), "phase": ("launch",), "transport": ("mpi",)},
        "mpirun itself waits for the other host, and starts no rank",
    ),
    (
        {"fault": ("full shm",), "phase": ("negotiation", "mid"), "transport": ("mpi",)},
        "Open MPI writes to files in /dev/shm without reserving their memory first: it ends by SIGBUS",
    ),
]


@dataclass(frozen=True)
class Trial:
    """What happens in one job, to whom, when."""

    number: int
    fault: str
    phase: str
    transport: str
    collective: str
    size: int
    hosts: int
    victim: int  # -1: the fault is not one rank's
    delay: float  # seconds into the phase
    turn: int  # or operations
    count: int  # elements in mid-collective
    allowance: int  # descriptors or MiB that are left

    @property
    def steps(self) -> int:
        """Operations in mid-collective, where nothing ends the job."""
        return 6

    @property
    def endless(self) -> bool:
        """Whether the job runs until the fault ends it."""
        return self.fault not in ("slow link", *LIMITS)

    @property
    def is_nameless(self) -> bool:
        """Whether a library waits for all ranks and can't say which one is missing: MPI_Init."""
        return self.transport == "mpi" and self.phase in ("launch", "init")

    def host_of(self, rank: int) -> int:
        """Return where a rank runs; the first host has one more where they don't divide."""
        return 0 if rank < self.size - self.size // self.hosts or self.hosts == 1 else 1

    def ranks_on(self, host: int) -> list[int]:
        """Return the ranks of a host."""
        return [rank for rank in range(self.size) if self.host_of(rank) == host]

    def culprits(self, rank: int) -> set[int]:
        """Return the ranks that may be named to `rank`."""
        if self.fault == "cut link":
            return set(range(self.size)) - set(self.ranks_on(self.host_of(rank)))
        if self.fault == "full shm":
            return set(self.ranks_on(self.host_of(self.victim)))
        return {self.victim}

    def __str__(self) -> str:
        who = f", rank {self.victim}" if self.victim >= 0 else ""
        where = f"{self.size} ranks on {self.hosts} host{'s' if self.hosts > 1 else ''}"
        return f"{self.number:04} {self.fault} in {self.phase}{who}: {self.collective} over {self.transport}, {where}"


def left_out(**what: str) -> str:
    """Return why a combination is left out, or nothing."""
    for conditions, reason in LEFT_OUT:
        if all(what.get(key) in values for key, values in conditions.items()):
            return reason
    return ""


def _deck(chance: random.Random, cards: list) -> Iterator:
    """Deal all cards in a new order again and again."""
    while True:
        yield from chance.sample(cards, len(cards))


def draw(seed: int, transports: tuple[str, ...], hosts: tuple[int, ...]) -> Iterator[Trial]:
    """Draw trials without end: every fault in every phase before one comes again, and so transports and collectives."""
    chance = random.Random(seed)  # noqa: S311
    pairs = [(fault, phase) for fault, phases in FAULTS.items() for phase in phases]
    pairs = [pair for pair in pairs if pair[0] not in LINK or 2 in hosts]
    carriers, kinds = _deck(chance, list(transports)), _deck(chance, list(COLLECTIVES))
    waiting: list[str] = []  # transports whose turn it was where they could not be
    for number, (fault, phase) in enumerate(_deck(chance, pairs), 1):
        while True:
            count = 2 if fault in LINK else chance.choice(hosts)
            fits = [t for t in waiting if _is_possible(fault, phase, t, count)]
            transport = fits[0] if fits else next(carriers)
            if fits:
                waiting.remove(transport)
            elif not _is_possible(fault, phase, transport, count):
                waiting = [*waiting, transport][-2 * len(transports) :]
                continue
            break
        kind = next(kinds)
        size = chance.choice((2, 4) if kind == "adasum" else (2, 3, 4))
        yield Trial(
            number, fault, phase, transport, kind, size, count, -1 if fault in LINK else chance.randrange(size),
            chance.random() * {"init": 0.02, "shutdown": 0.004}.get(phase, 0.2), chance.randrange(6),
            chance.choice((1 << 16,) if fault == "slow link" else (1 << 16, 1 << 20, 1 << 22)),
            chance.choice((0, 1, 2, 4, 8, 16, 32, 64)),
        )  # fmt: skip


def _is_possible(fault: str, phase: str, transport: str, hosts: int) -> bool:
    if transport == "shm" and hosts > 1:
        return False
    return not left_out(fault=fault, phase=phase, transport=transport, hosts=str(hosts))


def all_left_out(transports: tuple[str, ...], hosts: tuple[int, ...]) -> list[tuple[str, str]]:
    """Return what a draw never gives, with the reasons, for the report."""
    found = {}
    for (fault, phases), transport, count in itertools.product(FAULTS.items(), transports, hosts):
        for phase in phases:
            reason = left_out(fault=fault, phase=phase, transport=transport, hosts=str(count))
            if reason and not (fault in LINK and count == 1):
                found[f"{fault} in {phase} over {transport}, {count} host(s)"] = reason
    return sorted(found.items())


# --- judging ---


_NUMBERS = re.compile(r"[Rr]anks? ([0-9]+(?:(?:, | and )[0-9]+)*)")
_STALLED = re.compile(r"(?:^|[\s>])([0-9]+)!?: \[")  # the stall report: the ranks that lack tensors
_AWAITED = re.compile(r" in time;| to come to MPI_Init")  # who never came to the job: nothing but time tells
# What a rank says whose process has to end since MPI does not come back: no line of its program's tells of it then.
_LOCKED_UP = re.compile(r"The cause: .*a thread can't be taken out of that library", re.DOTALL)
_BLAMED = re.compile(r"[Rr]ank ([0-9]+) \([^()]*\) (?:died|does not answer|did not answer)")


def names_in(text: str) -> set[int]:
    """Return all ranks that an error speaks of."""
    return {int(n) for found in _NUMBERS.findall(text) for n in re.findall("[0-9]+", found)} | {
        int(n) for n in _STALLED.findall(text)
    }


@dataclass
class Rank:
    """How one rank ended, and what it told."""

    rank: int
    ended: bool
    status: str
    told: list[dict]
    output: str

    def last(self, what: str) -> dict | None:
        """Return the last line of a kind."""
        return next((line for line in reversed(self.told) if line["what"] == what), None)


@dataclass
class Verdict:
    """What came of a trial."""

    trial: Trial
    survivors: int = 0
    told: int = 0
    named: int = 0
    at_once: list[float] = field(default_factory=list)  # latencies, in seconds
    by_timeout: list[float] = field(default_factory=list)
    hangs: int = 0
    wrong: int = 0
    leaks: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0


def judge(trial: Trial, ranks: list[Rank], when: float | None, leaks: list[str]) -> Verdict:
    """Compare what the ranks told with what they must."""
    verdict = Verdict(trial, leaks=len(leaks), faults=[f"left behind: {leak}" for leak in leaks])
    for rank in ranks:
        is_victim = rank.rank == trial.victim
        for line in rank.told:
            if line["what"] == "wrong":
                verdict.wrong += 1
                verdict.faults.append(f"rank {rank.rank}: {line['text']}")
            if line["what"] == "open":
                verdict.leaks += 1
                verdict.faults.append(f"rank {rank.rank} left open: {line['text']}")
        if not rank.ended:
            if not (is_victim and trial.endless):
                verdict.hangs += 1
                verdict.faults.append(f"rank {rank.rank} hangs; it told {[line['what'] for line in rank.told]}")
        elif not is_victim:
            _judge_survivor(trial, rank, when, verdict)
        elif trial.fault in ("full shm", "descriptors") and trial.transport != "mpi" and rank.last("left") is None:
            verdict.faults.append(f"the victim, rank {rank.rank}, ended with status {rank.status}; {rank.output}")
    if trial.endless and trial.victim >= 0 and when is None:
        verdict.faults.append("the victim never met its fault")
    verdict.survivors = len(ranks) - (trial.victim >= 0)
    return verdict


def _judge_survivor(trial: Trial, rank: Rank, when: float | None, verdict: Verdict) -> None:
    error, fine = rank.last("error"), rank.last("fine")
    locked_up = _LOCKED_UP.search(rank.output) if trial.transport == "mpi" else None
    if error is None and fine is None and locked_up:
        _judge_error(trial, rank, {"text": locked_up[0]}, None, verdict)
    elif error is None and fine is None:
        verdict.faults.append(f"rank {rank.rank} ended with status {rank.status} and told nothing; {rank.output}")
    elif error is not None:
        _judge_error(trial, rank, error, when, verdict)
    elif trial.endless and trial.phase != "shutdown":
        verdict.faults.append(f"rank {rank.rank} was never told")


def _judge_error(trial: Trial, rank: Rank, error: dict, when: float | None, verdict: Verdict) -> None:
    verdict.told += 1
    text, culprits = error["text"], trial.culprits(rank.rank)
    if when is not None:
        late = trial.fault in ("stop", "cut link") or _AWAITED.search(text)
        (verdict.by_timeout if late else verdict.at_once).append(max(0.0, error["time"] - when))
    if trial.fault == "slow link":
        verdict.faults.append(f"rank {rank.rank} failed, though the link is only slow: {text}")
        return
    blamed = {int(n) for n in _BLAMED.findall(text)}
    nobody = (trial.fault == "cut link" and re.search("(?:reach|lost) the rendezvous", text)) or (
        trial.is_nameless and "all processes of the MPI job to come to MPI_Init" in text
    )
    if (names_in(text) & culprits and not blamed - culprits) or nobody:
        verdict.named += 1
    else:
        verdict.faults.append(f"rank {rank.rank} names {sorted(blamed or names_in(text))}: {text}")
