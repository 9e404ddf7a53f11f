"""The example learns, and what docs/running.md says of Ray works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import work
from ray.cluster_utils import Cluster

ROOT = Path(__file__).resolve().parents[3]


def test_digits(cluster: Cluster) -> None:
    pytest.importorskip("torch", reason="the example needs PyTorch")
    pytest.importorskip("sklearn", reason="and scikit-learn")
    path = ROOT / "examples" / "ray_digits.py"
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    command = [sys.executable, str(path), "--epochs", "8"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("epoch", "final"))]
    assert [line.split(" loss")[0] for line in lines[:-1]] == [f"epoch {epoch:2d}" for epoch in range(1, 9)]
    assert lines[-1].endswith("on 2 workers")
    assert float(lines[-1].split()[2]) > 90, lines


def test_the_scripts_of_the_page(cluster: Cluster) -> None:
    section = (ROOT / "docs" / "running.md").read_text().split("## On Ray\n")[1].split("\n## ")[0]
    fixed, elastic = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {"train": lambda epochs=1: work.gather(epochs)}
    exec(fixed.replace("ray.init()", "", 1).replace("num_workers=4", "num_workers=2", 1), names)  # noqa: S102
    assert names["results"] == [[10] * 2] * 2
    exec(elastic, names)  # noqa: S102
    assert names["results"] == [[1] * 3] * 3  # two slots of two CPUs on one node, one on the other
