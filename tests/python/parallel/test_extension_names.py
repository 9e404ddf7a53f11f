"""The functions of Horovod's own extension module."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod.torch import mpi_lib_v2 as lib, mpi_ops as ops


def wait(handle: int) -> None:
    lib.horovod_torch_wait_and_clear(handle)


def test_there_is_a_function_for_every_type_that_works() -> None:
    reduced = {"Int", "Long", "Half", "Float", "Double"}
    moved = reduced | {"Byte", "Char", "Short"}
    for operation, types in {
        "allreduce": reduced,
        "grouped_allreduce": reduced,
        "reducescatter": reduced,
        "grouped_reducescatter": reduced,
        "allgather": moved,
        "grouped_allgather": moved,
        "broadcast": moved,
        "alltoall": moved,
    }.items():
        for name in moved | {"Bool"}:
            present = hasattr(lib, f"horovod_torch_{operation}_async_torch_{name}Tensor")
            assert present == (name in types), (operation, name)


def test_operations() -> None:
    rank, size = hvd.rank(), hvd.size()
    total = size * (size + 1) / 2
    own, result = torch.full((size, 2), rank + 1.0), torch.empty(0)
    summed = torch.empty(size, 2)
    wait(lib.horovod_torch_allreduce_async_torch_FloatTensor(own, summed, 1, "a", hvd.Sum, 1.0, 2.0, 0))
    assert summed.tolist() == [[2 * total] * 2] * size
    wait(lib.horovod_torch_allreduce_async_torch_FloatTensor(own, own, size, "", hvd.Sum, 1.0, 1.0, 0))
    assert torch.allclose(own, torch.full((size, 2), total / size))
    own = torch.full((size, 2), rank + 1.0)
    outputs = [torch.empty(2), torch.empty(3)]
    inputs = [torch.full((n,), rank + 1) for n in (2, 3)]
    wait(lib.horovod_torch_grouped_allreduce_async_torch_LongTensor(inputs, outputs, 1, "g", hvd.Max, 1.0, 1.0, 0))
    assert [o.tolist() for o in outputs] == [[size] * 2, [size] * 3]
    wait(lib.horovod_torch_allgather_async_torch_FloatTensor(own, result, "b", 0))
    assert result.shape == (size * size, 2)
    wait(lib.horovod_torch_broadcast_async_torch_FloatTensor(own, result, size - 1, "c", 0))
    assert result.tolist() == [[float(size)] * 2] * size
    received = torch.empty(0, dtype=torch.int32)
    none = torch.empty(0, dtype=torch.int32)
    wait(lib.horovod_torch_alltoall_async_torch_FloatTensor(own, none, result, received, "d", 0))
    assert result[:, 0].tolist() == [r + 1.0 for r in range(size)]
    assert received.tolist() == [1] * size
    wait(lib.horovod_torch_reducescatter_async_torch_FloatTensor(own, result, "e", hvd.Sum, 0, 1.0, 1.0))
    assert result.tolist() == [[total] * 2]
    outputs = [torch.empty(0), torch.empty(0)]
    wait(lib.horovod_torch_grouped_reducescatter_async_torch_FloatTensor([own, own], outputs, "", hvd.Average, 0, 1, 1))
    assert torch.allclose(outputs[1], torch.full((1, 2), total / size))
    wait(lib.horovod_torch_grouped_allgather_async_torch_FloatTensor([own, own], outputs, "", 0))
    assert outputs[0].shape == outputs[1].shape == (size * size, 2)


def test_private_names_of_mpi_ops() -> None:
    """As programs and tests use them that know Horovod's source."""
    rank, size = hvd.rank(), hvd.size()
    assert ops._basics.size() == size
    own, output = torch.full((size, 2), rank + 1.0), torch.empty(0)
    assert (
        ops._check_function(ops._allreduce_function_factory, own) == "horovod_torch_allreduce_async_torch_FloatTensor"
    )
    assert ops._grouped_reducescatter_function_factory([own.half()]).endswith("_torch_HalfTensor")
    with pytest.raises(ValueError, match="Tensor type torch.BoolTensor is not supported"):
        ops._check_function(ops._alltoall_function_factory, own.bool())
    with pytest.raises(ValueError, match="required to be contiguous"):
        ops._check_function(ops._broadcast_function_factory, torch.ones(2, 3).t())
    handle = ops._allreduce_async(own, output, "private", hvd.Sum, 1.0, 2.0, hvd.global_process_set)
    assert handle in ops._handle_map
    assert hvd.synchronize(handle) is output
    assert handle not in ops._handle_map
    assert output.tolist() == [[size * (size + 1.0)] * 2] * size
    outputs, received = [torch.empty(0), torch.empty(0)], torch.empty(0, dtype=torch.int32)
    everyone = hvd.global_process_set
    for handle in (
        ops._grouped_allreduce_async([own, own], outputs, ops._NULL, hvd.Min, 1.0, 1.0, everyone),
        ops._grouped_allgather_async([own, own], outputs, None, everyone),
        ops._grouped_reducescatter_async([own, own], outputs, None, hvd.Average, everyone, 1.0, 1.0),
    ):
        assert hvd.synchronize(handle) == tuple(outputs)
    assert hvd.synchronize(ops._allgather_async(own, output, "gathered", everyone)).shape == (size * size, 2)
    assert hvd.synchronize(ops._broadcast_async(own, output, size - 1, None, everyone))[0, 0] == size
    scattered = hvd.synchronize(ops._reducescatter_async(own, output, None, hvd.Sum, everyone, 1.0, 1.0))
    assert scattered[0, 0] == size * (size + 1) / 2
    gathered, counts = hvd.synchronize(ops._alltoall_async(own, None, output, received, "exchange", everyone))
    assert gathered[:, 0].tolist() == [r + 1.0 for r in range(size)]
    assert counts.tolist() == [1] * size


def test_sets_handles_and_joins() -> None:
    if hvd.size() > 1:
        with process_set([0]) as first:
            if hvd.rank() == 0:
                wait(lib.horovod_torch_barrier(first.process_set_id))
    handle = lib.horovod_torch_barrier(0)
    while not lib.horovod_torch_poll(handle):
        pass
    wait(handle)
    with pytest.raises(ValueError, match="was not created or has been cleared"):
        wait(handle)
    with pytest.raises(ValueError, match="does not exist"):
        lib.horovod_torch_barrier(12345)
    last = torch.empty(1, dtype=torch.int32)
    wait(lib.horovod_torch_join(last, -1))
    assert 0 <= last.item() < hvd.size()
    assert len(set(hvd.allgather(last).tolist())) == 1
