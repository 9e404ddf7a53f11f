"""The tables of docs/scale.md are what `tools/scale.py docs/scale` wrote beside its plots."""

import json
import re
from pathlib import Path

SCALE = Path(__file__).resolve().parents[2] / "docs/scale.md"


def _points(figure):
    lines = (SCALE.parent / "scale" / f"{figure}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _table(first):
    """Return the rows, by column, of the table whose first header cell is `first`."""
    lines = SCALE.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:] if line or begin]
    end = next((i for i, line in enumerate(lines[begin:]) if not line.startswith("|")), len(lines))
    rows = cells[:end]
    return [dict(zip(rows[0], row)) for row in rows[2:]]


def test_training_is_what_was_simulated():
    """Every percentage, of every curve."""
    told = {(p["curve"], int(p["gpus"])): p["efficiency"] * 100 for p in _points("training") if p["simulated"]}
    checked = 0
    for row in _table("GPUs"):
        gpus = int(row["GPUs"].replace(",", ""))
        for curve, cell in row.items():
            if "," in curve and curve.split(",")[1].strip() in {"A100", "P100", "V100"} and cell:
                assert cell == f"{told[curve, gpus]:.1f} %", (curve, gpus)
                checked += 1
    assert checked >= 18
    assert f"{told['resnet50, V100', 27360]:.1f} %" in SCALE.read_text()


def test_what_the_engine_runs_is_what_was_simulated():
    """Every time."""
    checked = 0
    for row in _table("simulated"):
        size = row.pop("simulated")
        figure = {"256 MB": "allreduce-256MB", "4 KB": "allreduce-4KB"}[size]
        told = {p["ranks"]: p["time_us"] for p in _points(figure) if p["curve"] == "what the engine runs"}
        for ranks, cell in row.items():
            time = told[int(re.sub(r"\D", "", ranks))]
            assert cell == (f"{time / 1e3:.1f} ms" if size == "256 MB" else f"{time:.1f} us"), (size, ranks)
            checked += 1
    assert checked >= 6
