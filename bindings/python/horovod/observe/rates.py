"""A rank's rates lately, from two looks at its flight recorder."""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from horovod.common import model
from horovod.common.model import of
from horovod.observe import flight
from horovod.observe.diagnosis import diagnose, in_brief, ranks_in_words
from horovod.observe.steps import Interval, length, union, within

_MOST_WINDOW_NS = 60 * 10**9
_MUCH = 0.1  # of the time, for others to be waited for
_STEPS = 4  # in which all rates are counted, or between two looks where that is longer

_RATE = model.number()


@dataclass
class Rates:
    """The rates of one rank between two looks."""

    operations: float = of(_RATE)  # a second
    bytes: float = of(_RATE)  # a second
    steps: float | None = of(model.optional(_RATE))  # a second; None: no name came twice
    waits: float = of(_RATE)  # share of the time in which something waits for other ranks
    runs: float = of(_RATE)  # share of the time in which data move
    oldest_wait: float = of(_RATE)  # seconds
    awaited: int = of(model.whole(-1, 2**31 - 1))  # the rank that it waits for most, which comes last; -1: none
    awaits: float = of(_RATE)  # share of the time in which it waits for that one, and submits nothing
    rank: flight.Rank = None  # type: ignore[assignment]  # told apart from the rest


@dataclass
class _Line:
    rates: list[Rates] = of(model.listed(model.modelled(Rates), 1 << 20))


_LINE = model.modelled(_Line)


def _ends(rank: flight.Rank) -> list[list[int]]:
    """Return when operations ended lately, for each name that came twice."""
    ends: dict[tuple[int, str], list[int]] = defaultdict(list)
    for each in rank.operations:
        if each.ended > rank.taken - _MOST_WINDOW_NS:
            ends[each.key].append(each.ended)
    return [own for own in ends.values() if own[-1] > own[0]]


def _waits_by_last(rank: flight.Rank) -> dict[int, list[Interval]]:
    """Return when a rank waited or waits, and submitted nothing, for each rank that came last then or alone is missing.

    Times are of a coarse clock: the next step may submit in the tick in which the last one's operations were agreed.
    """
    submitted = sorted(each.submitted for each in rank.operations)
    waits: dict[int, list[Interval]] = defaultdict(list)
    for each in rank.operations:
        until = rank.taken if each.waits and each.missing_count == 1 else each.agreed
        if until > each.submitted and each.awaited_rank not in (-1, rank.rank):
            waits[each.awaited_rank].append((submitted[bisect_left(submitted, until) - 1], until))
    return {last: union(own) for last, own in waits.items()}


def rates(before: flight.Rank, after: flight.Rank) -> Rates:
    """Return what a rank did lately: between two looks at it, or in its last steps where that is longer."""
    if after.process == "gone":
        nothing = {"operations": 0.0, "bytes": 0.0, "steps": 0.0, "waits": 0.0, "runs": 0.0, "oldest_wait": 0.0}
        return Rates(**nothing, awaited=-1, awaits=0.0, rank=after)
    ends = _ends(after)  # names come more than once in some steps: the median tells of steps
    period = statistics.median((own[-1] - own[0]) / (len(own) - 1) for own in ends) if ends else 0
    begin = min(before.taken, after.taken - int(_STEPS * period))
    counted = [each for each in after.operations if each.ended > begin]
    operations, sent = len(counted), sum(each.bytes for each in counted)
    if after.last > len(after.operations) and after.operations:
        begin = max(begin, after.operations[0].submitted)  # more than is remembered
    if begin >= before.taken:
        operations, sent = after.ended - before.ended, after.ended_bytes - before.ended_bytes
    seconds = max(after.taken - min(begin, before.taken), 1) / 1e9
    window = (begin, after.taken)
    span = max(window[1] - window[0], 1)
    waits = union((each.submitted, each.agreed or each.ended or after.taken) for each in after.operations)
    runs = union((each.launched, each.ended or after.taken) for each in after.operations if each.launched)
    awaits = {last: length(within(own, window)) / span for last, own in _waits_by_last(after).items()}
    awaited = max(awaits, key=awaits.__getitem__, default=-1)
    return Rates(
        rank=after,
        operations=operations / seconds,
        bytes=sent / seconds,
        steps=statistics.median(sum(at > begin for at in own) for own in ends) * 1e9 / span if ends else None,
        waits=length(within(waits, window)) / span,
        runs=length(within(runs, window)) / span,
        oldest_wait=max((after.seconds_since(each.submitted) for each in after.operations if each.waits), default=0.0),
        awaited=awaited,
        awaits=awaits.get(awaited, 0.0),
    )


def line_of(told: Sequence[Rates]) -> str:
    """Return the line that tells another host of this one's ranks."""
    numbers = [{name: value for name, value in vars(each).items() if name != "rank"} for each in told]
    return json.dumps({**flight.as_dict(in_brief(each.rank) for each in told), "rates": numbers})


def rates_of(line: str) -> list[Rates]:
    """Return the rates in a line of another host.

    Raises
    ------
    NoRecordError
        The line tells nothing.
    """
    ranks = flight.ranks_of(line)
    try:
        told: list[Rates] = _LINE.take(model.parse(line)).rates
    except model.Fault as error:
        raise flight.NoRecordError(f"its ranks have no rates: {error}") from error
    return [replace(rates, rank=rank) for rates, rank in zip(told, ranks)]


def lateness(told: Sequence[Rates], rank: int) -> float:
    """Return the largest share of the time in which another rank waits for this one."""
    return max((each.awaits for each in told if each.awaited == rank), default=0.0)


def straggler(told: Sequence[Rates]) -> str:
    """Return who waits for whom, in words, of a job at work; nothing where no rank holds most others up."""
    late = max((each.awaited for each in told), key=lambda rank: lateness(told, rank), default=-1)
    waiting = [each for each in told if each.awaited == late and each.awaits >= max(_MUCH, lateness(told, late) / 2)]
    if late < 0 or 2 * len(waiting) < len(told) - 1 or not waiting:
        return ""
    waits = statistics.median(each.awaits for each in waiting)
    who = ranks_in_words(each.rank.rank for each in waiting)
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"{who[0].upper()}{who[1:]} {verb} {100 * waits:.0f} % of the time for {ranks_in_words([late])}."


def diagnosis(told: Sequence[Rates]) -> list[str]:
    """Return what is wrong with the job, in sentences."""
    return diagnose([each.rank for each in told], straggler(told))
