#!/usr/bin/env python3
"""Draws the plots of docs/scale.md by roda-sim, and writes their points beside them, as JSON lines.

How: ninja -C build/native, pip install matplotlib, then tools/scale.py docs/scale, or a figure's name behind that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

ROOT = Path(__file__).resolve().parents[1]
CLUSTERS = ROOT / "examples/clusters"
RANKS = "10,40,100,400,1000,4000,10000,40000,100000"
# A curve, and what runs it at 256 MB and at 4 KB.
CANDIDATES = (
    ("what the engine runs", "engine", "engine"),
    ("flat ring", "ring", "ring"),
    ("tree", "double_binary_tree", "binomial"),
    ("hierarchical", "hierarchical:ring/double_binary_tree/ring", "hierarchical:recursive_halving/binomial/bruck"),
    ("torus", "torus:ring/ring/ring", "torus:ring/ring/ring"),
)
GPUS = [str(2**n) for n in range(3, 13)]
TRAININGS = (
    ("llama-7b, A100", ["llama-7b"], GPUS),
    ("resnet50, A100", ["resnet50"], GPUS),
    ("gpt2, A100", ["gpt2"], GPUS),
    ("resnet50, P100", ["resnet50", "--rate", "219", "--batch", "64", "-t", f"{CLUSTERS}/pascal_hosts.json"], GPUS[:7]),
    ("vgg16, P100", ["vgg16", "-t", f"{CLUSTERS}/pascal_hosts.json"], GPUS[:7]),
    (
        "resnet50, V100",
        ["resnet50", "--rate", "367", "--batch", "64", "-t", f"{CLUSTERS}/summit_hosts.json"],
        ["6", "24", "96", "384", "1536", "6144", "27360"],
    ),
)
# Horovod's benchmarks of 128 and 512 P100, in hosts of 4 with a card of 25 Gbit/s; Kurth et al. on Piz Daint's P100 and
# Summit's V100; Romero et al. on Summit.
MEASURED = (
    ("ResNet-101, measured", 128, 90),
    ("ResNet-101, measured", 512, 90),
    ("VGG-16, measured", 128, 79),
    ("VGG-16, measured", 512, 68),
    ("Tiramisu, measured", 5300, 79),
    ("DeepLabv3+, measured", 27360, 90.7),
    ("STEMDL, measured", 27600, 93),
)
KEPT = {
    *("simulated", "ranks", "bytes", "time_us", "plan", "slice_bytes", "classes", "busbw_GBps"),
    *("gpus", "step_ms", "compute_ms", "efficiency", "buckets", "runs", "busiest", "hops", "model_us"),
}


class Figure:
    """The points of one plot, and what stands at its axes."""

    def __init__(self, title: str, x: str = "ranks", y: str = "time_us", y_title: str = "time, us (simulated)") -> None:
        self.title, self.x, self.y, self.y_title = title, x, y, y_title
        self.points: list[dict] = []

    def add(self, curve: str | None, *options: str) -> None:
        """Add what roda-sim answers to the options; without a curve each control plane is one."""
        command = [str(ROOT / "build/native/tools/sim/roda-sim"), *options, "--json"]
        plugins = ":".join(str(ROOT / "build/native/transports" / name) for name in ("shm", "tcp"))
        answer = subprocess.run(  # noqa: S603 (our own program)
            command, env={**os.environ, "HOROVOD_PLUGIN_PATH": plugins}, check=True, stdout=subprocess.PIPE, text=True
        )
        for said in map(json.loads, answer.stdout.splitlines()):
            if "refused" in said:
                print(f"{curve}, {said['ranks']} ranks: {said['refused']}")
            elif "forming" not in said:
                kept = {key: value for key, value in said.items() if key in KEPT}
                self.points.append({**kept, "curve": curve or said["control"]})

    def write(self, path: Path) -> None:
        """Draw it, and write its points beside the plot."""
        lines = [json.dumps(point, sort_keys=True, separators=(",", ":")) for point in self.points]
        path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")
        matplotlib.rcParams.update({"svg.hashsalt": path.name, "svg.fonttype": "none", "font.size": 9})
        figure, axes = pyplot.subplots(figsize=(7.6, 4.6), layout="constrained")
        scale = 100 if self.y == "efficiency" else 1
        for curve in dict.fromkeys(point["curve"] for point in self.points):
            points = [point for point in self.points if point["curve"] == curve]
            style = "o-" if points[0].get("simulated", True) else "s"
            axes.plot([p[self.x] for p in points], [p[self.y] * scale for p in points], style, ms=4, label=curve)
        axes.set(xscale="log", yscale="linear" if scale > 1 else "log", title=self.title)
        axes.set(xlabel="GPUs" if self.x == "gpus" else "ranks", ylabel=self.y_title)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.grid(color="#ddd")
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        print(path.with_suffix(".svg"))


def _allreduce(large: bool) -> Figure:
    figure = Figure(f"allreduce of {'256 MB' if large else '4 KB'} on GPU hosts, simulated")
    for curve, of_large, of_small in CANDIDATES:
        what = ["-n", RANKS, "-s", "256000000" if large else "4096", "-a", of_large if large else of_small]
        figure.add(curve, "-t", f"{CLUSTERS}/gpu_hosts.json", "--most-steps", "8000000", *what)
    return figure


def _trees_and_rings() -> Figure:
    """Draw the setting of the NCCL 2.4 post: one rank (card) on each host."""
    figure = Figure("allreduce of 64 KiB, one rank per host on one switch, simulated")
    for curve, name in (("ring", "ring"), ("double binary tree", "double_binary_tree")):
        ranks = ",".join(str(2**n) for n in range(2, 15))
        figure.add(curve, "--most-steps", "8000000", "-n", ranks, "-s", "64K", "-a", name)
    return figure


def _training() -> Figure:
    title = "data-parallel training, simulated, and what was published of Horovod"
    figure = Figure(title, "gpus", "efficiency", "efficiency, % of as many single GPUs")
    for curve, what, gpus in TRAININGS:
        figure.add(curve, "--train", *what, "--gpus", ",".join(gpus))
    for curve, count, percent in MEASURED:
        figure.points.append({"simulated": False, "gpus": count, "efficiency": percent / 100, "curve": curve})
    return figure


def _control_plane() -> Figure:
    figure = Figure(
        "messages at the busiest rank to agree on one tensor, counted",
        y="busiest",
        y_title="messages sent and received",
    )
    ranks = ",".join(str(2**n) for n in range(6, 16))
    figure.add(None, "--control", "-t", f"{CLUSTERS}/gpu_hosts.json", "-n", ranks)
    return figure


FIGURES = {
    "control-plane": _control_plane,
    "training": _training,
    "allreduce-4KB": lambda: _allreduce(False),
    "allreduce-256MB": lambda: _allreduce(True),
    "trees-and-rings": _trees_and_rings,
}


def main() -> None:
    """Draw the figures that are named, else all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *FIGURES], metavar="NAME", help=", ".join(FIGURES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or FIGURES:
        FIGURES[name]().write(options.folder / name)


if __name__ == "__main__":
    main()
