"""The example learns, and all ranks learn the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import horovod.mxnet as hvd


def test_spirals() -> None:
    path = Path(__file__).resolve().parents[3] / "examples/mxnet_spirals.py"
    spec = importlib.util.spec_from_file_location("spirals", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    accuracy = module.main()
    assert accuracy > 0.9
    assert hvd.allgather_object(accuracy, name="accuracies") == [accuracy] * hvd.size()
