"""A job whose options are Horovod's for fusion and autotuning: what they set arrives, and results do not change."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from conftest import Launch

BINDING = str(Path(__file__).parents[1] / "binding")
SCRIPT = f"""
import os, sys
sys.path.insert(0, {BINDING!r})
import arrays as hvd
import numpy as np
hvd.init()
for step in range(80):
    handles = [hvd.allreduce_async(np.full(64, hvd.rank() + step), name=f"gradient.{{i}}") for i in range(6)]
    for handle in handles:
        assert (hvd.synchronize(handle) == 2 * step + 1).all()
print(os.environ["HOROVOD_FUSION_THRESHOLD"], os.environ["HOROVOD_CYCLE_TIME"])
"""


def test_fusion_and_autotuning(horovodrun: Launch, tmp_path: Path) -> None:
    log = tmp_path / "tuning.csv"
    done = horovodrun(
        "-np", "2", "--fusion-threshold-mb", "8", "--cycle-time-ms", "0.5", "--autotune", "--autotune-log-file",
        str(log), "--autotune-warmup-samples", "1", "--autotune-steps-per-sample", "2",
        "--autotune-bayes-opt-max-samples", "3", sys.executable, "-c", SCRIPT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(["[0]<stdout>:8388608", "0.5", "[1]<stdout>:8388608", "0.5"])
    rows = list(csv.DictReader(log.read_text().splitlines()))
    assert all(float(row["score"]) > 0 for row in rows)
    assert {row["tensor_fusion_threshold"] for row in rows}
