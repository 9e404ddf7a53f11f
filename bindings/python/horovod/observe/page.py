"""The page of ``roda-trace``: one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template

from horovod.observe.steps import COMPUTE, BySize, Report

_PAGE = Path(__file__).with_name("page.html")
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d", "#ff9da6")

_MOST_STEPS = 500  # that are shown one by one


def _row(*cells: object) -> str:
    return f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in cells)}</tr>"


def _plans(report: Report) -> str:
    plans: dict[str, tuple[int, int]] = {}
    for launch in report.launches:
        count, size = plans.get(launch.plan or "local", (0, 0))
        plans[launch.plan or "local"] = count + 1, size + launch.bytes
    return "".join(_row(plan, *numbers) for plan, numbers in sorted(plans.items(), key=lambda each: -each[1][1]))


def _rates(each: BySize) -> tuple[float | None, ...]:
    return each.median, each.best, each.measured


def _overlap(report: Report) -> str:
    rows = []
    for rank in report.ranks:
        running = sum(step.running for step in report.steps[rank])
        overlapped = sum(step.overlapped for step in report.steps[rank])
        share = f"{overlapped / running:.0%}" if running else "-"
        rows.append(_row(rank, f"{running / len(report.windows) / 1e3:.3f}", share))
    return "".join(rows)


def render(report: Report) -> str:
    """Return the page."""
    shown = len(report.windows[:_MOST_STEPS])
    colours = ["#ddd" if phase == COMPUTE else _COLOURS[i % len(_COLOURS)] for i, phase in enumerate(report.phases)]
    data = {
        "ranks": [f"rank {rank} {report.hosts[rank]}".strip() for rank in report.ranks],
        "phases": report.phases,
        "colours": colours,
        "mean": [[round(report.mean(rank, phase), 1) for phase in report.phases] for rank in report.ranks],
        "steps": [
            [[round(step.split.get(phase, 0.0), 1) for phase in report.phases] for step in report.steps[rank][:shown]]
            for rank in report.ranks
        ],
        "lengths": [round(end - begin, 1) for begin, end in report.windows[:shown]],
    }
    summary = (
        f"{len(report.windows)} steps of {report.step_time / 1e3:.3g} ms (median) on {len(report.ranks)} "
        f"rank{'s' if len(report.ranks) > 1 else ''} of {len(set(report.hosts.values()))} "
        f"host{'s' if len(set(report.hosts.values())) > 1 else ''}."
    )
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title="Roda: where the time goes",
        summary=html.escape(summary),
        advice="".join(f"<li>{html.escape(each)}</li>" for each in report.advice),
        overlap=_overlap(report),
        first=report.ranks[0],
        sizes="".join(
            _row(each.size, each.launches, *("-" if rate is None else f"{rate:.3g}" for rate in _rates(each)))
            for each in report.sizes
        ),
        plans=_plans(report),
        data=json.dumps(data).replace("<", "\\u003c"),
    )
