#!/usr/bin/env python3
"""Draws the README's pictures: a session, the plan that is chosen, a loss curve, the page of a trace.

They are what the installed programs print and write.
How: apt-get install chromium, pip install rich matplotlib, then tools/pictures.py docs/pictures
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
DIGITS = "HOROVOD_CPU_OPERATIONS=gloo horovodrun -np 4 python examples/pytorch_digits.py --epochs 8"
TRACED = "HOROVOD_TIMELINE='{0}/trace.{{rank}}.json' horovodrun -np 4 python examples/pytorch_digits.py --epochs 2"
REPORT = "roda-trace {0}/trace.*.json -o {0}/page.html"
BROWSER = "{1} --headless --no-sandbox --hide-scrollbars --window-size=1000,1110 --screenshot={2} file://{0}/page.html"
EXPLAIN = "roda-info --explain allreduce 64MiB --topology dgx-h100 --np 32"
LINES = 24  # of one command's output
# rich's own, without fonts that a page would have to fetch.
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def run(command: str) -> str:
    """Return what a command prints, without the launcher's marks of ranks."""
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S602 (ours)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return re.sub(r"^\[\d\]<stdout>:", "", done.stdout, flags=re.MULTILINE).strip()


def draw_terminal(file: Path, title: str, command: str, printed: str) -> None:
    """Write a terminal in which a command printed this text."""
    lines = printed.splitlines()
    width = min(120, max(len(line) for line in [f"$ {command}", *lines]))
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    console.print(Text("\n".join(lines[:LINES] + ["…"] * (len(lines) > LINES))), overflow="fold")
    file.write_text(console.export_svg(title=title, code_format=FRAME, unique_id="roda"), encoding="utf-8")


def draw_curve(file: Path, printed: str) -> None:
    """Write the losses that the digits' example printed."""
    losses = [float(text) for text in re.findall(r"^epoch.* loss ([\d.]+)$", printed, re.MULTILINE)]
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "roda", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
    axes.plot(range(1, len(losses) + 1), losses, marker="o")
    axes.set(xlabel="epoch", ylabel="loss", ylim=(0, None), title="handwritten digits, 4 processes over Gloo")
    axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})


def draw_page(file: Path) -> None:
    """Write the top of the page that shows where the time of a small training goes."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium draws the page, and is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        for command in (TRACED, REPORT, BROWSER):
            run(command.format(folder, browser, file.absolute()))


def main() -> None:
    """Run the programs and write the pictures into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    digits = run(DIGITS)
    draw_terminal(folder / "session.svg", "Roda", DIGITS, digits)
    draw_terminal(folder / "explain.svg", "what would run, what lost, and why", EXPLAIN, run(EXPLAIN))
    draw_curve(folder / "loss.svg", digits)
    draw_page(folder / "trace.png")


if __name__ == "__main__":
    main()
