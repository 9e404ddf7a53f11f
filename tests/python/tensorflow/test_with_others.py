"""TensorFlow, PyTorch and JAX in one process share the engine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import horovod.tensorflow as hvd
import pytest
import tensorflow as tf


def imported_from(variable: str, name: str) -> Iterator[ModuleType]:
    """Import a framework of another environment: the variable names the folder of packages that has it."""
    before = sys.path.copy()
    sys.path.append(os.environ.get(variable, ""))
    yield pytest.importorskip(name)
    sys.path[:] = before


@pytest.fixture
def torch() -> Iterator[ModuleType]:
    """PyTorch."""
    yield from imported_from("RODA_TEST_TORCH", "torch")


@pytest.fixture
def jax() -> Iterator[ModuleType]:
    """JAX."""
    yield from imported_from("RODA_TEST_JAX", "jax")


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


def test_operations_of_all_three_are_under_way_at_once(torch: ModuleType, jax: ModuleType) -> None:
    import horovod.jax as jax_hvd
    import horovod.torch as torch_hvd

    total = float(sum(range(hvd.size())))
    mine = float(hvd.rank())
    of_tensorflow = tf.function(lambda: hvd.allreduce(tf.fill([3], mine), name="three.tensorflow", op=hvd.Sum))
    of_jax = jax.jit(lambda x: jax_hvd.allreduce(x, name="three.jax", op=jax_hvd.Sum))
    found = {}

    def in_a_thread() -> None:
        found["tensorflow"] = of_tensorflow().numpy().tolist()

    thread = threading.Thread(target=in_a_thread)
    first = torch_hvd.allreduce_async(torch.full((4,), mine), name="three.torch", op=torch_hvd.Sum)
    if hvd.rank() == 0:  # what one rank does before another, other ranks do after it
        thread.start()
        found["jax"] = of_jax(jax.numpy.full(2, mine)).tolist()
    else:
        found["jax"] = of_jax(jax.numpy.full(2, mine)).tolist()
        thread.start()
    thread.join()
    found["torch"] = torch_hvd.synchronize(first).tolist()
    assert found == {"tensorflow": [total] * 3, "jax": [total] * 2, "torch": [total] * 4}
