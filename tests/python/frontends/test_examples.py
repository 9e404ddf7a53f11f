"""The examples learn, and all ranks learn the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import horovod.torch as hvd
import pytest
import torch.distributed as dist


@pytest.mark.parametrize(("package", "epochs"), [("lightning", 4), ("transformers", 12)])
def test_digits(package: str, epochs: int) -> None:
    pytest.importorskip(package)
    if dist.is_initialized():
        dist.destroy_process_group()
    path = Path(__file__).resolve().parents[3] / f"examples/{package}_digits.py"
    spec = importlib.util.spec_from_file_location(f"{package}_digits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    accuracy = module.main(epochs)
    assert accuracy > 0.9
    assert hvd.allgather_object(accuracy) == [accuracy] * hvd.size()
