#!/usr/bin/env python3
"""Draws the README's pictures: a session, a bandwidth curve beside peers, the plan that is chosen, the page of a trace.

They are what the installed programs print and write, and follow a reader's light or dark colours.
How: apt-get install chromium, pip install rich matplotlib, then tools/pictures.py docs/pictures, or a name behind that
for one picture. The curve needs the peers' programs (`ninja -C build/native`, or another folder with --build).
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools/perf"), str(ROOT / "tests/python/single")]
import compare  # noqa: E402
from browser import Tab  # noqa: E402

DIGITS = "HOROVOD_CPU_OPERATIONS=gloo horovodrun -np 4 python examples/pytorch_digits.py --epochs 8"
EXPLAIN = "roda-info --explain allreduce 64MiB --topology dgx-h100 --np 32"
LINES = 16  # of one command's output
COLUMNS = 118
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
# Colours that stand in what is drawn, by the names and the values that a reader's light and dark schemes have for them.
SCHEMES = {
    "#292929": ("paper", "#f6f8fa", "#161b22"),
    "#c5c8c6": ("ink", "#1f2328", "#e6edf3"),
    "#98a84b": ("prompt", "#1a7f37", "#56d364"),
    "#123456": ("roda", "#0b5fa5", "#58a6ff"),
    "#234567": ("openmpi", "#c1440e", "#ffa657"),
    "#345678": ("gloo", "#6e7781", "#8b949e"),
}
TRAINED = """
import sys, time, torch, horovod.torch as hvd
hvd.init()
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.01), model.named_parameters())
for step in range(60):
    if step == 5:  # the first ones make what all others use
        hvd.start_timeline(sys.argv[1])
    optimizer.zero_grad()
    time.sleep(0.03 if hvd.rank() == 2 else 0.01)  # reading input, which takes longer on one rank
    model(torch.randn(16, 256)).square().mean().backward()
    optimizer.step()
hvd.stop_timeline()
"""


def run(command: str) -> str:
    """Return what a command prints, without the launcher's marks of ranks."""
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S602 (ours)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return re.sub(r"^\[\d\]<stdout>:", "", done.stdout, flags=re.MULTILINE).strip()


def write_for_both(file: Path, svg: str) -> None:
    """Write a drawing whose colours follow the reader's scheme."""
    for colour, (name, _, _) in SCHEMES.items():
        svg = svg.replace(colour, f"var(--{name})")
    light, dark = ("".join(f"--{each[0]}:{each[n]};" for each in SCHEMES.values()) for n in (1, 2))
    style = f"<style>svg{{{light}}}@media (prefers-color-scheme: dark){{svg{{{dark}}}}}</style>"
    cut = svg.index(">", svg.index("<svg")) + 1
    file.write_text(svg[:cut] + style + svg[cut:], encoding="utf-8")


def draw_terminal(file: Path, title: str, command: str) -> None:
    """Write a terminal in which a command printed its text."""
    lines = run(command).splitlines()
    width = min(COLUMNS, max(len(line) for line in [f"$ {command}", *lines]))
    shown = [*lines[:LINES], f"… {len(lines) - LINES} more lines"] if len(lines) > LINES + 1 else lines
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    for line in shown:
        console.print(Text(line if len(line) <= width else f"{line[: width - 1]}…"))
    write_for_both(file, console.export_svg(title=title, code_format=FRAME, unique_id="roda"))


def draw_session(file: Path, _: argparse.Namespace) -> None:
    """Write a training of four processes."""
    draw_terminal(file, "Roda", DIGITS)


def draw_explanation(file: Path, _: argparse.Namespace) -> None:
    """Write what would run on machines that are not here."""
    draw_terminal(file, "what would run, what lost, and why", EXPLAIN)


def draw_bandwidth(file: Path, options: argparse.Namespace) -> None:
    """Write the bandwidth of an allreduce by size, beside Open MPI and Gloo: of each the fastest round, in turns."""
    sizes = [1 << power for power in range(10, 27, 2)]
    measured = argparse.Namespace(transports="shm", peers="openmpi,gloo", rounds=options.rounds, ranks=[2], sizes=sizes)
    times, names, _ = compare.measure(options.build, measured, None)
    if len(names) < 3:
        sys.exit(f"{options.build} has not all of the peers' programs: {names}")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "roda", "font.family": "sans-serif"})
    for what in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"):
        matplotlib.rcParams[what] = "#c5c8c6"
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    told = {  # by contender, and where that is written: at which point, and how many points beside it
        "roda-shm": ("Roda", "#123456", 2.6, -1, (8, -3)),
        "openmpi": ("Open MPI", "#234567", 1.6, 1, (-8, 9)),
        "gloo": ("Gloo", "#345678", 1.6, 2, (8, -9)),
    }
    for name, (label, colour, width, at, beside) in told.items():
        rates = [size / min(times[2, name, size]) / 1e3 for size in sizes]  # bytes a microsecond
        axes.plot(sizes, rates, color=colour, linewidth=width, marker="o", markersize=3.5)
        axes.annotate(label, (sizes[at], rates[at]), beside, textcoords="offset points", color=colour)
    axes.set(yscale="log", title="allreduce between two processes of one host: bytes reduced a second, by size")
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compare.size_text(int(value)).replace("B", "iB")))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g} GB/s" if value >= 1 else f"{1e3 * value:g} MB/s")
    )
    axes.grid(alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    write_for_both(file, text.getvalue()[text.getvalue().index("<svg") :])


def draw_page(file: Path, _: argparse.Namespace) -> None:
    """Write the top of the page that shows where the time of a small training goes, light and dark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAINED)
        run(f"HOROVOD_TIMELINE=DYNAMIC horovodrun -np 4 python {name}/train.py '{name}/trace.{{rank}}.json'")
        run(f"roda-trace {name}/trace.*.json -o {name}/page.html")
        tab = Tab(folder / "profile")
        for scheme in ("light", "dark"):
            tab.look_as(900, scheme)
            tab.open(folder / "page.html")
            tab.picture(file.with_stem(f"{file.stem}-{scheme}"), 1100)
        tab.close()


PICTURES = {
    "session.svg": draw_session,
    "bandwidth.svg": draw_bandwidth,
    "explain.svg": draw_explanation,
    "trace.webp": draw_page,
}


def main() -> None:
    """Run the programs and write the pictures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=f"one of {', '.join(PICTURES)}; by default all")
    parser.add_argument("--build", type=Path, default=ROOT / "build/native", help="has the peers' programs")
    parser.add_argument("--rounds", type=int, default=9, help="of the bandwidths (9)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.pictures or PICTURES:
        PICTURES[name](options.folder / name, options)


if __name__ == "__main__":
    main()
