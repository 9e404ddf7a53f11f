"""The example learns, and all ranks learn the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from common import LEGACY


@pytest.mark.skipif(LEGACY, reason="it imports Keras 3")
def test_digits(hvd: ModuleType, keras: ModuleType) -> None:
    if hvd.__name__ != "horovod.keras":
        pytest.skip("it uses horovod.keras")
    path = Path(__file__).resolve().parents[3] / "examples/keras_digits.py"
    spec = importlib.util.spec_from_file_location("digits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    accuracy = module.main()
    assert accuracy > 0.9
    assert float(hvd.allreduce(accuracy, name="accuracies")) == accuracy
