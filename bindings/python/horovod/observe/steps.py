"""Where the time of a job's steps goes, from the timelines of its ranks."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from horovod.observe.diagnosis import bytes_in_words
from horovod.observe.timeline import PACKS, UNPACKS, About, Key, NoTimelineError, RankTimeline, Use

Interval = tuple[float, float]

COMPUTE = "own work"
WAIT = "wait for other ranks"
NEGOTIATE = "negotiate"
QUEUE = "queue"
PACK = "pack"
UNPACK = "unpack"
# The first of these wins where several tensors are at different points at a time; stages' names come before all.
_FURTHEST = (PACK, UNPACK, QUEUE, NEGOTIATE, WAIT)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same points of time in intervals that do not meet."""
    merged: list[Interval] = []
    for begin, end in sorted(each for each in intervals if each[1] > each[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """Return how long intervals are that do not meet."""
    return sum(end - begin for begin, end in intervals)


def within(intervals: Sequence[Interval], window: Interval) -> list[Interval]:
    """Return the parts of a :func:`union` that lie in a window."""
    first = max(bisect_right(intervals, (window[0], math.inf)) - 1, 0)
    last = bisect_left(intervals, (window[1], -math.inf), first)
    cut = ((max(begin, window[0]), min(end, window[1])) for begin, end in intervals[first:last])
    return [each for each in cut if each[1] > each[0]]


def _minus(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the parts of a :func:`union` that lie in none of another one."""
    rest: list[Interval] = []
    for begin, end in intervals:
        for taken in within(others, (begin, end)):
            if taken[0] > begin:
                rest.append((begin, taken[0]))
            begin = taken[1]
        if begin < end:
            rest.append((begin, end))
    return rest


_MOST_APART_S = 10.0  # that ranks of one host learn of the same agreement


@dataclass
class Launch:
    """One bucket of one rank."""

    bytes: int
    tensors: int
    plan: str
    begin: float
    end: float
    meant: int = 0  # bytes between hosts that had a wire format
    sent: int = 0  # what travelled for them

    @property
    def gigabytes_per_second(self) -> float:
        """The rate at which the tensors' own bytes travel."""
        return self.bytes / max(self.end - self.begin, 1e-3) / 1e3


@dataclass
class BySize:
    """Launches of about one size, with their gigabytes a second."""

    bytes: int  # at least, and below twice as many
    launches: int
    median: float
    best: float
    measured: float | None  # by roda-perf, of the nearest size

    @property
    def size(self) -> str:
        """The bytes, in words."""
        return f"{bytes_in_words(self.bytes)} to {bytes_in_words(2 * self.bytes)}"


@dataclass
class RankStep:
    """One step of one rank: microseconds by what the furthest tensor is at."""

    split: dict[str, float]
    work: float  # no operation is under way
    running: float  # data move
    overlapped: float  # of that: before the last tensor was submitted
    submitting: float  # from the first submission to the last


@dataclass
class Bar:
    """A phase of a rank in a step that is drawn. Times in microseconds of its file."""

    begin: float
    end: float
    what: str  # a phase, or the launch


@dataclass
class RankSteps:
    """One rank's part of the steps that were read."""

    about: About
    windows: dict[int, Interval]  # by the step's number, from 0; the rank's own, from submission to submission
    steps: dict[int, RankStep]
    agreed: dict[Key, float]  # when this rank knew that all have submitted the launch's tensors, in its file's time
    phases: dict[int, list[Bar]]  # of the steps that are drawn
    launches: dict[int, list[Bar]]

    @property
    def epoch(self) -> float:
        """When the file's time is 0, by the host's clock, in microseconds."""
        return self.about.start_time_since_epoch_in_micros or 0.0

    def mean(self, value: Callable[[RankStep], float]) -> float:
        """Return the mean of something over the steps."""
        return statistics.fmean(map(value, self.steps.values()))

    def share(self, value: Callable[[RankStep], float]) -> float:
        """Return the share of the steps' time that something takes."""
        return sum(map(value, self.steps.values())) / max(length(self.windows.values()), 1e-3)


@dataclass
class Steps:
    """The job's steps: from one submission of a tensor that comes in every step to its next one."""

    numbers: dict[Key, int]  # by the tensor's launch, in which ranks agree
    name: str
    lengths: list[float]  # microseconds, on the first rank; of all steps, of those too that were not read
    drawn: list[int] = field(default_factory=list)
    chosen: set[int] | None = None  # those that are read; None: all


@dataclass
class Report:
    """All that the page says."""

    steps: Steps
    ranks: dict[int, RankSteps]  # the first one's file tells who came late, and of launches
    phases: list[str]
    held_up: dict[int, dict[int, float]]  # by rank and step: microseconds for which the others waited for it alone
    launches: list[Launch]
    sizes: list[BySize]
    offsets: dict[int, float]  # by rank: microseconds to add to its file's time for the first one's
    clocks_apart: float  # of hosts, at most, in microseconds
    left_out: list[str]  # ranks, and why
    advice: list[str] = field(default_factory=list)

    @property
    def first(self) -> RankSteps:
        """The first rank."""
        return next(iter(self.ranks.values()))

    @property
    def read(self) -> list[int]:
        """The steps that were read of the first rank."""
        return list(self.first.steps)

    def held_up_share(self, rank: int) -> float:
        """Return the share of all steps' time for which the others waited for a rank alone."""
        return sum(self.held_up[rank].values()) / max(length(self.first.windows.values()), 1e-3)

    @property
    def step_time(self) -> float:
        """The median, in microseconds."""
        return statistics.median(self.steps.lengths)


def choose_anchor(timeline: RankTimeline) -> str:
    """Return the name of the tensor that tells steps apart: the first of those that come most often."""
    counts = Counter(use.name for use in timeline.uses)
    most = max(counts.values())
    return next(use.name for use in timeline.uses if counts[use.name] == most)


def steps_of(timeline: RankTimeline) -> Steps:
    """Return the steps of a timeline that was read whole. The last one ends with the last operation."""
    name = choose_anchor(timeline)
    uses = [use for use in timeline.uses if use.name == name]
    numbers = {use.key if use.args.launch is not None else (0, -n): n for n, use in enumerate(uses)}
    begins = [timeline.own(use) for use in uses]
    ends = [*begins[1:], max(use.ended for use in timeline.uses)]
    return Steps(numbers, name, [end - begin for begin, end in zip(begins, ends)])


def step_windows(timeline: RankTimeline, steps: Steps) -> dict[int, Interval]:
    """Return the steps as this rank went through them, by their numbers; those that the timeline has whole."""
    found: list[tuple[int, float]] = []
    for use in timeline.uses:
        if use.args.launch is not None:
            number = steps.numbers.get(use.key)
        else:
            number = len(found) if use.name == steps.name else None
        if number is not None:
            found.append((number, timeline.own(use)))
    windows = {number: (begin, end) for (number, begin), (after, end) in zip(found, found[1:]) if after == number + 1}
    if steps.chosen is not None:
        windows = {number: window for number, window in windows.items() if number in steps.chosen}
    elif found and found[-1][0] == len(steps.lengths) - 1:
        windows[found[-1][0]] = (found[-1][1], max(use.ended for use in timeline.uses))
    return {number: window for number, window in windows.items() if window[1] > window[0]}


def _phases_of(timeline: RankTimeline, use: Use) -> Iterable[tuple[str, Interval]]:
    own, last = timeline.own(use), max(use.announced.values(), default=use.agreed)
    yield WAIT, (own, last)
    yield NEGOTIATE, (max(own, last), use.agreed)
    yield QUEUE, (use.agreed, use.started)
    if use.args.launch is not None and use.args.bytes is None:
        return  # it travels with another, of which the rest is told
    calls = [part for part in use.parts if part.what not in (PACKS, UNPACKS)]
    for part in use.parts:
        name = {PACKS: PACK, UNPACKS: UNPACK}.get(part.what, f"{part.row - 1}. {part.what.replace('_', ' ').lower()}")
        yield name, (part.begin, part.end)
    if not calls:
        copies = union((part.begin, part.end) for part in use.parts)
        for rest in _minus([(use.started, use.ended)], copies):
            yield use.activity.replace("_", " ").lower(), rest


def _split(
    of_rank: Mapping[str, Sequence[Interval]], order: Sequence[str], window: Interval
) -> dict[str, list[Interval]]:
    """Return when the furthest tensor is in which phase."""
    split: dict[str, list[Interval]] = {}
    taken: list[Interval] = []
    for phase in order:
        own = within(of_rank.get(phase, ()), window)
        if own:
            split[phase] = _minus(own, taken)
            taken = union([*taken, *own])
    split[COMPUTE] = _minus([window], taken)
    return split


def size_in_words(size: int, meant: int, sent: int) -> str:
    """Return the bytes of tensors, and of messages in wire formats what was meant and sent, in words."""
    travelled = f" ({bytes_in_words(sent)} sent for {bytes_in_words(meant)})" if meant else ""
    return bytes_in_words(size) + travelled


def _name_of(use: Use) -> str:
    args = use.args
    others = f" and {args.tensors - 1} more" if args.tensors > 1 else ""
    size = size_in_words(args.bytes or 0, args.bytes_meant, args.bytes_sent)
    return f"{use.name}{others}: {size}, {args.plan or use.activity.lower()}"


def of_rank(timeline: RankTimeline, steps: Steps, order: list[str]) -> RankSteps:
    """Return what one rank did in its steps.

    Parameters
    ----------
    timeline : RankTimeline
        All of it, or the parts that have the steps.
    steps : Steps
        The job's.
    order : list of str
        The phases of ranks before, for which others give way; those of this rank are put before them.

    Raises
    ------
    NoTimelineError
        When the rank has no time in the steps.
    """
    windows = step_windows(timeline, steps)
    if not windows:
        raise NoTimelineError(
            f"The timeline of rank {timeline.rank} has no step: all that it tells took no time, or is of another job."
        )
    gathered: dict[str, list[Interval]] = defaultdict(list)
    for use in timeline.uses:
        for phase, interval in _phases_of(timeline, use):
            gathered[phase].append(interval)
    phases = {phase: union(intervals) for phase, intervals in gathered.items()}
    order[:0] = [phase for phase in phases if phase not in order and phase not in _FURTHEST]
    running = union((use.started, use.ended) for use in timeline.uses)
    submitted = sorted(timeline.own(use) for use in timeline.uses)
    told = RankSteps(timeline.about, windows, {}, {}, {}, {})
    for number, window in windows.items():
        split = _split(phases, [*order, *_FURTHEST], window)
        last = submitted[bisect_left(submitted, window[1]) - 1]
        moved = within(running, window)
        times = {phase: length(own) for phase, own in split.items()}
        told.steps[number] = RankStep(
            times, times[COMPUTE], length(moved), length(within(moved, (window[0], last))), last - window[0]
        )
        if number in steps.drawn:
            bars = (Bar(*interval, phase) for phase, own in split.items() if phase != COMPUTE for interval in own)
            told.phases[number] = sorted(bars, key=lambda bar: bar.begin)
            told.launches[number] = []
    for use in timeline.uses:
        if use.args.launch is not None:
            told.agreed[use.key] = use.agreed
        if use.args.launch is None or use.args.bytes is not None:
            for number, own in told.launches.items():
                if windows[number][0] <= timeline.own(use) < windows[number][1]:
                    own.append(Bar(use.started, use.ended, _name_of(use)))
    return told


def held_up(first: RankTimeline, windows: Mapping[int, Interval]) -> dict[int, dict[int, float]]:
    """Return by rank and step how long every rank but it had submitted a tensor.

    Each rank's file tells when it heard of all ranks. One is as good as any.
    """
    waits: dict[int, list[Interval]] = defaultdict(list)
    for use in first.uses:
        arrivals = sorted((at, rank) for rank, at in use.announced.items())
        if len(arrivals) > 1:
            waits[arrivals[-1][1]].append((arrivals[-2][0], arrivals[-1][0]))
    merged = {rank: union(own) for rank, own in waits.items()}
    return {
        rank: {number: length(within(own, window)) for number, window in windows.items()}
        for rank, own in merged.items()
    }


def _seconds_apart(rank: RankSteps, other: RankSteps) -> float:
    """Return by how much later one of two ranks with one clock seems to have agreed: much for files of two runs."""
    both = rank.agreed.keys() & other.agreed.keys()
    apart = [rank.epoch + rank.agreed[key] - other.epoch - other.agreed[key] for key in both]
    return statistics.median(apart) / 1e6 if apart else 0.0


def check_run(rank: RankSteps, ranks: Sequence[RankSteps]) -> None:
    """Check that a rank's timeline is of the same run as those of its host.

    Raises
    ------
    NoTimelineError
        When it was written long before them, or after, or is a second one of its rank.
    """
    if any(each.about.rank == rank.about.rank for each in ranks):
        raise NoTimelineError(f"A further timeline of rank {rank.about.rank} is left out.")
    other = next((each for each in ranks if each.about.host == rank.about.host), rank)
    apart = _seconds_apart(rank, other)
    if abs(apart) > _MOST_APART_S:
        raise NoTimelineError(
            f"The timeline of rank {rank.about.rank} is left out: it is of another run than that of rank "
            f"{other.about.rank}, {abs(apart):.0f} s {'later' if apart > 0 else 'before'}."
        )


def align(ranks: Iterable[RankSteps]) -> tuple[dict[int, float], float]:
    """Return what to add to the times of each rank's file to have those of the first one, and how far clocks are apart.

    In microseconds. A tensor is agreed on at the same moment everywhere, but for the way of the message. Ranks of one
    host have one clock: it is told when their files begin.
    """
    first, *others = ranks
    offsets, of_host = {first.about.rank: 0.0}, {first.about.host: 0.0}
    for rank in others:
        begins = rank.epoch - first.epoch
        if rank.about.host not in of_host:
            both = first.agreed.keys() & rank.agreed.keys()
            apart = [first.agreed[key] - rank.agreed[key] - begins for key in both]
            of_host[rank.about.host] = statistics.median(apart) if apart else 0.0
        offsets[rank.about.rank] = begins + of_host[rank.about.host]
    return offsets, max(map(abs, of_host.values()))


def _launches(timeline: RankTimeline) -> list[Launch]:
    return [
        Launch(args.bytes, args.tensors, args.plan, use.started, use.ended, args.bytes_meant, args.bytes_sent)
        for use in timeline.uses
        if (args := use.args).bytes is not None
    ]


def _sizes(launches: Sequence[Launch], measured: Mapping[int, float]) -> list[BySize]:
    by_size: dict[int, list[float]] = defaultdict(list)
    for launch in launches:
        if launch.bytes:
            by_size[launch.bytes.bit_length() - 1].append(launch.gigabytes_per_second)
    told = []
    for power, own in sorted(by_size.items()):
        off, nearest = min(((abs(math.log2(size) - power - 0.5), size) for size in measured), default=(math.inf, 0))
        known = measured[nearest] if off <= 2 else None
        told.append(BySize(1 << power, len(own), statistics.median(own), max(own), known))
    return told


def report(
    steps: Steps,
    ranks: Sequence[RankSteps],
    first: RankTimeline,
    order: Sequence[str],
    measured: Mapping[int, float],
    left_out: list[str],
) -> Report:
    """Return what is known, without advice.

    Parameters
    ----------
    steps : Steps
        The job's.
    ranks : sequence of RankSteps
        The first one is that of `first`.
    first : RankTimeline
        The timeline that tells of all ranks' arrivals and of launches.
    order : sequence of str
        All phases of the ranks but those that every job has.
    measured : mapping
        The machine's measured gigabytes a second, by bytes of a launch.
    left_out : list of str
        Why a rank is not among them.
    """
    launches = _launches(first)
    offsets, apart = align(ranks)
    return Report(
        steps=steps,
        ranks={rank.about.rank: rank for rank in ranks},
        phases=[*sorted(order), PACK, UNPACK, QUEUE, NEGOTIATE, WAIT, COMPUTE],
        held_up=held_up(first, ranks[0].windows),
        launches=launches,
        sizes=_sizes(launches, measured),
        offsets=offsets,
        clocks_apart=apart,
        left_out=left_out,
    )
