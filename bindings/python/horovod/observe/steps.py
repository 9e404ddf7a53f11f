"""Where the time of a job's steps goes, from the timelines of its ranks."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from horovod.observe.diagnosis import bytes_in_words
from horovod.observe.timeline import PACKS, UNPACKS, NoTimelineError, RankTimeline, Use

Interval = tuple[float, float]

COMPUTE = "nothing under way"
WAIT = "wait for other ranks"
NEGOTIATE = "negotiate"
QUEUE = "queue"
PACK = "pack"
UNPACK = "unpack"
# What comes first wins where several tensors are at different points at a time; the stages' names come before these.
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
    """Return what of a :func:`union` lies in a window."""
    first = max(bisect_right(intervals, (window[0], math.inf)) - 1, 0)
    last = bisect_left(intervals, (window[1], -math.inf), first)
    cut = ((max(begin, window[0]), min(end, window[1])) for begin, end in intervals[first:last])
    return [each for each in cut if each[1] > each[0]]


def _minus(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return what of a :func:`union` lies in none of another one."""
    rest: list[Interval] = []
    for begin, end in intervals:
        for taken in within(others, (begin, end)):
            if taken[0] > begin:
                rest.append((begin, taken[0]))
            begin = taken[1]
        if begin < end:
            rest.append((begin, end))
    return rest


@dataclass
class Launch:
    """One bucket of one rank."""

    bytes: int
    tensors: int
    plan: str
    begin: float
    end: float

    @property
    def gigabytes_per_second(self) -> float:
        """Of the tensors' own bytes."""
        return self.bytes / max(self.end - self.begin, 1e-3) / 1e3


@dataclass
class BySize:
    """Launches of about one size, with their gigabytes a second."""

    size: str
    launches: int
    median: float
    best: float
    measured: float | None  # by roda-perf, of the nearest size


@dataclass
class RankStep:
    """One step of one rank: microseconds by what the furthest tensor is at."""

    split: dict[str, float]
    work: float  # from the end of the last operation of the step before to the last submission, nothing else running
    running: float  # data move
    overlapped: float  # of that: before the last tensor was submitted


@dataclass
class Report:
    """All that the page says."""

    ranks: list[int]
    hosts: dict[int, str]
    windows: list[Interval]
    steps: dict[int, list[RankStep]]
    phases: list[str]
    held_up: dict[int, list[float]]  # by rank and step: microseconds for which the others waited for it alone
    launches: list[Launch]
    sizes: list[BySize]
    advice: list[str] = field(default_factory=list)

    def mean(self, rank: int, phase: str) -> float:
        """Return the mean over the steps, in microseconds."""
        return statistics.fmean(step.split.get(phase, 0.0) for step in self.steps[rank])

    def held_up_share(self, rank: int) -> float:
        """Return the share of all steps' time for which the others waited for a rank alone."""
        return sum(self.held_up[rank]) / max(sum(end - begin for begin, end in self.windows), 1e-3)

    @property
    def step_time(self) -> float:
        """The median, in microseconds."""
        return statistics.median(end - begin for begin, end in self.windows)


def step_windows(timeline: RankTimeline) -> list[Interval]:
    """Return the steps: from one submission of a tensor that comes in every step to its next one.

    It is the first of those that come most often. The last step ends with the last operation.
    """
    counts = Counter(use.name for use in timeline.uses)
    most = max(counts.values())
    anchor = next(use.name for use in timeline.uses if counts[use.name] == most)
    begins = [timeline.own(use) for use in timeline.uses if use.name == anchor]
    ends = [*begins[1:], max(use.ended for use in timeline.uses)]
    return [window for window in zip(begins, ends) if window[1] > window[0]]


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


def _split(of_rank: dict[str, list[Interval]], order: Sequence[str], window: Interval) -> dict[str, float]:
    split, taken = {}, []
    for phase in order:
        own = within(of_rank.get(phase, ()), window)
        split[phase] = length(_minus(own, taken))
        taken = union([*taken, *own])
    split[COMPUTE] = window[1] - window[0] - length(taken)
    return split


def _rank_steps(timeline: RankTimeline, windows: Sequence[Interval], order: list[str]) -> list[RankStep]:
    of_rank: dict[str, list[Interval]] = defaultdict(list)
    for use in timeline.uses:
        for phase, interval in _phases_of(timeline, use):
            of_rank[phase].append(interval)
    of_rank = {phase: union(intervals) for phase, intervals in of_rank.items()}
    order[:0] = [phase for phase in of_rank if phase not in order and phase not in _FURTHEST]
    running = union((use.started, use.ended) for use in timeline.uses)
    submitted = sorted(timeline.own(use) for use in timeline.uses)
    steps = []
    for window in windows:
        split = _split(of_rank, [*order, *_FURTHEST], window)
        last = submitted[max(bisect_right(submitted, window[1] - 1e-6) - 1, 0)]
        moved = within(running, window)
        steps.append(RankStep(split, split[COMPUTE], length(moved), length(within(moved, (window[0], last)))))
    return steps


def _held_up(timelines: Sequence[RankTimeline], windows: Sequence[Interval]) -> dict[int, list[float]]:
    """Return by rank and step how long every rank but it had submitted a tensor.

    Each rank's file tells when it heard of all ranks. The first one's is as good as any.
    """
    waits: dict[int, list[Interval]] = defaultdict(list)
    for use in timelines[0].uses:
        arrivals = sorted((at, rank) for rank, at in use.announced.items())
        if len(arrivals) > 1:
            waits[arrivals[-1][1]].append((arrivals[-2][0], arrivals[-1][0]))
    merged = {rank: union(own) for rank, own in waits.items()}
    return {rank: [length(within(own, window)) for window in windows] for rank, own in merged.items()}


def _launches(timeline: RankTimeline) -> list[Launch]:
    return [
        Launch(use.args.bytes, use.args.tensors, use.args.plan, use.started, use.ended)
        for use in timeline.uses
        if use.args.bytes is not None
    ]


def _sizes(launches: Sequence[Launch], measured: Mapping[int, float]) -> list[BySize]:
    by_size: dict[int, list[float]] = defaultdict(list)
    for launch in launches:
        if launch.bytes:
            by_size[launch.bytes.bit_length() - 1].append(launch.gigabytes_per_second)
    told = []
    for power, own in sorted(by_size.items()):
        nearest = min(measured, key=lambda size, middle=power + 0.5: abs(math.log2(size) - middle), default=None)
        known = measured[nearest] if nearest and abs(math.log2(nearest) - power - 0.5) <= 2 else None
        size = f"{bytes_in_words(1 << power)} to {bytes_in_words(2 << power)}"
        told.append(BySize(size, len(own), statistics.median(own), max(own), known))
    return told


def _why(report: Report, rank: int) -> str:
    """Return what a straggler does while the others wait."""
    others = [other for other in report.ranks if other != rank]
    if rank not in report.steps or not others:
        return "there is no file of it that says why"
    own = statistics.fmean(step.work for step in report.steps[rank])
    rest = statistics.fmean(step.work for other in others for step in report.steps[other])
    if own > rest * 1.1:
        return (
            f"in a step it spends {own / 1e3:.1f} ms (mean) with no operation under way, the others "
            f"{rest / 1e3:.1f} ms: its own work takes longer (input, computation, a slower or shared device)"
        )
    return "its own work takes no longer: it submits in another order, or hears of the others late"


def _advice(report: Report) -> list[str]:
    told = []
    worst = max(report.held_up, key=report.held_up_share, default=None)
    if worst is not None and report.held_up_share(worst) > 0.1:
        by_step = report.held_up[worst]
        peak = by_step.index(max(by_step))
        once = f", most of it in step {peak + 1}" if by_step[peak] > sum(by_step) / 2 and len(by_step) > 1 else ""
        told.append(
            f"Rank {worst} holds the others up: for {report.held_up_share(worst):.0%} of the time they wait for it "
            f"alone{once}; {_why(report, worst)}."
        )
    first = report.ranks[0]
    steps = report.steps[first]
    running = sum(step.running for step in steps)
    share = running / max(sum(end - begin for begin, end in report.windows), 1e-3)
    overlapped = sum(step.overlapped for step in steps) / max(running, 1e-3)
    if share > 0.2 and overlapped < 0.5:
        told.append(
            f"Data move for {share:.0%} of the time, {1 - overlapped:.0%} of it after the step's last tensor was "
            "submitted: submit tensors as soon as they are there (a DistributedOptimizer does), in groups that are not "
            "too large, or send fewer bytes (compression=hvd.Compression.bf16)."
        )
    small = [launch for launch in report.launches if 0 < launch.bytes < 64 << 10]
    per_step = len(small) / len(report.windows)
    if per_step >= 20:
        told.append(
            f"{per_step:.0f} launches a step are smaller than 64 KiB: put tensors in groups (groups=, "
            "grouped_allreduce) or let ready ones wait a moment for others (HOROVOD_CYCLE_TIME=1)."
        )
    copies = sum(step.split.get(PACK, 0.0) + step.split.get(UNPACK, 0.0) for step in steps)
    if copies > 0.3 * max(running, 1e-3):
        told.append(
            f"Packing and unpacking take {copies / running:.0%} of the time in which data move: a smaller "
            "HOROVOD_FUSION_THRESHOLD leaves large tensors where they are."
        )
    slow = [each for each in report.sizes if each.measured is not None and each.median < each.measured / 2]
    if slow:
        told.append(
            f"Launches of {slow[-1].size} move {slow[-1].median:.3g} GB/s, where roda-perf measured "
            f"{slow[-1].measured:.3g}: something else takes the ranks' cores or the network meanwhile."
        )
    if not told:
        told.append("No rank holds the others up, and communication costs little: there is nothing to gain here.")
    return told


def analyse(timelines: Sequence[RankTimeline], measured: Mapping[int, float] | None = None) -> Report:
    """Return the report of timelines that go by one clock.

    Parameters
    ----------
    timelines : sequence of RankTimeline
        Of one rank at least.
    measured : mapping, optional
        What the machine can do: gigabytes a second by bytes.
    """
    windows = step_windows(timelines[0])
    if not windows:
        raise NoTimelineError(f"the timeline of rank {timelines[0].rank} has no step: all that it tells took no time")
    order: list[str] = []
    steps = {timeline.rank: _rank_steps(timeline, windows, order) for timeline in timelines}
    launches = _launches(timelines[0])
    report = Report(
        ranks=[timeline.rank for timeline in timelines],
        hosts={timeline.rank: timeline.host for timeline in timelines},
        windows=windows,
        steps=steps,
        phases=[*sorted(order), PACK, UNPACK, QUEUE, NEGOTIATE, WAIT, COMPUTE],
        held_up=_held_up(timelines, windows),
        launches=launches,
        sizes=_sizes(launches, measured or {}),
    )
    report.advice = _advice(report)
    return report
