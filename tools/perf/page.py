"""One HTML page of figures that needs nothing else, not even a network: curves, and the tables under them.

How: pip install matplotlib, then tools/perf/compare.py --page FILE
"""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

# Roda's are drawn firmly, peers' thinly: who looks for a second sees which line is which.
OURS = ("#0b5fa5", "#2a9d8f", "#6a4c93", "#33658a")
PEERS = ("#c1440e", "#b8860b", "#777777", "#a05195", "#444444")

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } svg { max-width: 100%; height: auto; } p { color: #555; }
"""


def bytes_text(value: float) -> str:
    """Write a size with the largest unit that leaves a number."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def time_text(microseconds: float) -> str:
    """Write a time with its unit."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= unit:
            return f"{microseconds / unit:g} {name}"
    return f"{microseconds:g} us"


def curves(lines: dict[str, list[tuple[int, float]]]) -> str:
    """Draw times over sizes, both in steps of a factor.

    Parameters
    ----------
    lines : dict
        By name, points of bytes and microseconds; Roda's begin with ``roda``.

    Returns
    -------
    str
        An SVG element.
    """
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "roda", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    ours, peers = iter(OURS), iter(PEERS)
    for name, points in lines.items():
        is_ours = name.startswith("roda")
        color = next(ours if is_ours else peers, "#000000")
        axes.plot(*zip(*points), color=color, linewidth=2.4 if is_ours else 1.2, marker="o", markersize=3, label=name)
    axes.set(yscale="log", xlabel="size of the tensor", ylabel="time of an allreduce (less is better)")
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_text(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def table(markdown: str) -> str:
    """Write a Markdown table as an HTML one."""
    head, _, *rows = [re.split(r" *\| *", line.strip().strip("|").strip()) for line in markdown.strip().splitlines()]
    cells = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
    cells += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def write(path: Path, told: str, parts: list[tuple[str, str]]) -> None:
    """Write the page: a line on where and when, and parts of a heading and elements each."""
    body = "".join(f"<h2>{html.escape(heading)}</h2>{elements}" for heading, elements in parts)
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Roda beside its peers</title>'
        f"<style>{STYLE}</style><h1>Roda beside its peers</h1><p>{html.escape(told)}</p>{body}</html>\n",
        encoding="utf-8",
    )
