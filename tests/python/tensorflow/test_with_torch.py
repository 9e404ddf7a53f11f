"""TensorFlow and PyTorch in one process share the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType

import horovod.tensorflow as hvd
import pytest
import tensorflow as tf


@pytest.fixture
def torch() -> Iterator[ModuleType]:
    """PyTorch, which lies in another environment: RODA_TEST_TORCH is the folder of packages that has it."""
    before = sys.path.copy()
    sys.path.append(os.environ.get("RODA_TEST_TORCH", ""))
    yield pytest.importorskip("torch")
    sys.path[:] = before


def test_operations_of_both_are_under_way_at_once(torch: ModuleType) -> None:
    import horovod.torch as torch_hvd

    assert (torch_hvd.rank(), torch_hvd.size()) == (hvd.rank(), hvd.size())
    total = float(sum(range(hvd.size())))

    def of_torch() -> int:
        return torch_hvd.allreduce_async(torch.full((4,), float(hvd.rank())), name="torch", op=torch_hvd.Sum)

    def of_tensorflow() -> tf.Tensor:
        return hvd.allreduce(tf.fill([3], float(hvd.rank())), name="tensorflow", op=hvd.Sum)

    if hvd.rank() == 0:  # ranks may begin with either
        handle = of_torch()
        summed = of_tensorflow()
    else:
        summed = of_tensorflow()
        handle = of_torch()
    assert summed.numpy().tolist() == [total] * 3
    assert torch_hvd.synchronize(handle).tolist() == [total] * 4


def test_a_process_set_is_known_to_both(torch: ModuleType) -> None:
    import horovod.torch as torch_hvd

    first = hvd.add_process_set([0])
    if hvd.rank() == 0:
        assert torch_hvd.allreduce(torch.ones(1), op=torch_hvd.Sum, process_set=first).item() == 1.0
    assert torch_hvd.remove_process_set(first)
