"""The page of ``roda-trace``: one HTML file that needs nothing from elsewhere, of some megabytes at most."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from string import Template

from horovod.observe.diagnosis import ranks_in_words
from horovod.observe.steps import COMPUTE, WAIT, Bar, Launch, RankStep, RankSteps, Report, size_in_words

_PAGE = Path(__file__).with_name("page.html")

# The page's limits; a line on it names all that is left out for them.
_MOST_LANES = 64
_MOST_BARS = 50_000
_MOST_NAMES = 4_000
_MOST_CHARACTERS = 120  # of a name
_MOST_PLANS = 200
_MOST_COLUMNS = 480
_MOST_ROWS = 128


def _bins(count: int, most: int) -> list[range]:
    bins = min(count, most)
    return [range(n * count // bins, (n + 1) * count // bins) for n in range(bins)]


def _shown_ranks(report: Report) -> list[int]:
    """Return the ranks that have a lane: all, or those that the others wait for longest, and some from everywhere."""
    ranks = list(report.ranks)
    if len(ranks) <= _MOST_LANES:
        return ranks
    known = [rank for rank in report.held_up if rank in report.ranks]
    worst = sorted(known, key=report.held_up_share, reverse=True)[: _MOST_LANES // 2]
    spread = [ranks[each[0]] for each in _bins(len(ranks), _MOST_LANES)]
    return sorted(dict.fromkeys([*worst, *spread][:_MOST_LANES]))


def _heat(report: Report) -> dict[str, object]:
    """Return ranks by steps for each of some times, as bytes of which 255 is the largest; in a bin, the longest."""
    read = report.read
    rows, columns = _bins(len(report.ranks), _MOST_ROWS), _bins(len(read), _MOST_COLUMNS)
    ranks = list(report.ranks.values())

    def told(what: str, value: Callable[[RankSteps, int, RankStep], float]) -> dict[str, object]:
        cells = [
            max(
                (
                    value(ranks[r], number, ranks[r].steps[number])
                    for r in row
                    for number in (read[c] for c in column)
                    if number in ranks[r].steps
                ),
                default=0.0,
            )
            for row in rows
            for column in columns
        ]
        most = max(cells) or 1.0
        data = bytes(round(255 * max(cell, 0.0) / most) for cell in cells)
        return {"what": what, "most": round(most, 1), "data": base64.b64encode(data).decode()}

    held_up = report.held_up
    return {
        "rows": [ranks_in_words(ranks[r].about.rank for r in row) for row in rows],
        "columns": [[read[column[0]] + 1, read[column[-1]] + 1] for column in columns],
        "values": [
            told("the others wait for it alone", lambda rank, n, _: held_up.get(rank.about.rank, {}).get(n, 0.0)),
            told("it waits for other ranks", lambda _, __, step: step.split.get(WAIT, 0.0)),
            told("own work", lambda _, __, step: step.work),
            told("data move", lambda _, __, step: step.running),
            told("the whole step", lambda rank, n, _: rank.windows[n][1] - rank.windows[n][0]),
        ],
    }


def _short(name: str) -> str:
    """Return a name, or its end: there names differ."""
    return name if len(name) <= _MOST_CHARACTERS else f"…{name[1 - _MOST_CHARACTERS :]}"


class _Names:
    """Texts of bars, each of which the page has once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        name = _short(name)
        if name not in self.known and len(self.known) >= _MOST_NAMES:
            name = "…"
        return self.known.setdefault(name, len(self.known))


def _flat(bars: Iterable[Bar], offset: float, most: int, number_of: Callable[[str], int]) -> list[int]:
    """Return begin, length and number of each; of too many, the longest."""
    kept = sorted(bars, key=lambda bar: bar.begin - bar.end)[:most]
    told: list[int] = []
    for bar in sorted(kept, key=lambda bar: bar.begin):
        told += [round(bar.begin + offset), round(bar.end - bar.begin), number_of(bar.what)]
    return told


def _drawn(report: Report, ranks: Sequence[int], names: _Names) -> tuple[list[dict[str, object]], int]:
    """Return the steps that are looked at one by one, and how many bars had no room."""
    drawn = [number for number in report.steps.drawn if number in report.first.steps]
    most = _MOST_BARS // max(2 * len(ranks) * len(drawn), 1)
    told, left = [], 0
    for number in drawn:
        start = report.first.windows[number][0]
        lanes = []
        for rank in (report.ranks[rank] for rank in ranks):
            offset = report.offsets[rank.about.rank] - start
            phases, launches = rank.phases.get(number, []), rank.launches.get(number, [])
            begin, end = rank.windows.get(number, (-offset, -offset))
            left += max(len(phases) - most, 0) + max(len(launches) - most, 0)
            lanes.append({
                "window": [round(begin + offset), round(end + offset)],
                "phases": _flat(phases, offset, most, report.phases.index),
                "launches": _flat(launches, offset, most, names.__getitem__),
            })  # fmt: skip
        told.append({"step": number + 1, "length": round(report.steps.lengths[number]), "lanes": lanes})
    return told, left


def _left_out(report: Report, ranks: Sequence[int], bars: int) -> list[str]:
    told = list(report.left_out)
    count, read = len(report.steps.lengths), len(report.read)
    if report.steps.chosen is not None:
        told.append(
            f"The lengths are of all {count:,} steps; all else is of {read:,} of them, some from everywhere and the "
            "longest ones: the files are too large to be read whole."
        )
    if len(ranks) < len(report.ranks):
        told.append(
            f"{len(ranks)} of {len(report.ranks):,} ranks have a lane: those that are waited for longest, and some "
            "from everywhere; the map has all."
        )
    if read > _MOST_COLUMNS or len(report.ranks) > _MOST_ROWS:
        told.append("A point of the map is the longest of several steps or ranks.")
    if bars:
        told.append(f"{bars:,} short bars of single steps have no room.")
    return told


def _plans(report: Report) -> list[list[object]]:
    plans: dict[str, list[Launch]] = {}
    for launch in report.launches:
        plans.setdefault(launch.plan or "local", []).append(launch)

    def total(launches: list[Launch], count: str) -> int:
        return sum(getattr(launch, count) for launch in launches)

    ordered = sorted(plans.items(), key=lambda each: -total(each[1], "bytes"))[:_MOST_PLANS]
    return [
        [_short(plan), len(each), size_in_words(*(total(each, count) for count in ("bytes", "meant", "sent")))]
        for plan, each in ordered
    ]


def _means(rank: RankSteps, phases: Sequence[str]) -> list[int]:
    return [round(rank.mean(lambda step, phase=phase: step.split.get(phase, 0.0))) for phase in phases]  # type: ignore[misc]


def _overlap(rank: RankSteps) -> list[int]:
    return [round(rank.mean(lambda step: step.running)), round(rank.mean(lambda step: step.overlapped))]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def render(report: Report) -> str:
    """Return the page."""
    shown = _shown_ranks(report)
    lengths = report.steps.lengths
    columns = _bins(len(lengths), _MOST_COLUMNS)
    names = _Names()
    drawn, left = _drawn(report, shown, names)
    hosts = {rank.about.host for rank in report.ranks.values()}
    data = {
        "ranks": [f"{rank} {report.ranks[rank].about.host}".strip() for rank in shown],
        "phases": [_short(phase) for phase in report.phases],
        "work": report.phases.index(COMPUTE),
        "mean": [_means(report.ranks[rank], report.phases) for rank in shown],
        "overlap": [_overlap(report.ranks[rank]) for rank in shown],
        "lengths": [round(max(lengths[n] for n in column)) for column in columns],
        "steps": len(lengths),
        "drawn": drawn,
        "names": list(names.known),
        "heat": _heat(report),
        "sizes": [[each.bytes, each.launches, each.median, each.best, each.measured] for each in report.sizes],
        "plans": _plans(report),
    }
    summary = (
        f"{_counted(len(lengths), 'step')} of {report.step_time / 1e3:.3g} ms (median) on "
        f"{_counted(len(report.ranks), 'rank')} of {_counted(len(hosts), 'host')}."
    )
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        summary=html.escape(summary),
        advice="".join(f"<li>{html.escape(each)}</li>" for each in report.advice),
        left="".join(f"<p>{html.escape(each)}</p>" for each in _left_out(report, shown, left)),
        first=report.first.about.rank,
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )
