"""The examples run on two ranks and say what they are for (the digits are the demo's: test_demo.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

RUNS = {
    "pytorch_transformer.py --steps 10": "Shall I",
    "pytorch_transformer.py --steps 10 --ddp": "step   10 loss",
    "pytorch_adasum.py": "the ranks' parameters differ by 0.0e+00",
    "pytorch_balanced.py --steps 20": "batches of [128, 128]",
    "pytorch_gan.py --steps 20": "after 20 steps on 2 ranks",
    "pytorch_elastic.py": "y = 3.0 x + 1.0",
    "pytorch_process_sets.py": "square: mean squared error 0.0",
    "pytorch_sharded_optimizer.py --checkpoint {folder}/state.pt": "rank 0 keeps 4614 of 9218",
}


@pytest.mark.parametrize("run", RUNS)
def test_example(run: str, horovodrun: Callable[..., object], tmp_path: Path) -> None:
    name, *arguments = run.format(folder=tmp_path).split()
    done = horovodrun("-np", "2", sys.executable, str(EXAMPLES / name), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert RUNS[run] in done.stdout, done.stdout
