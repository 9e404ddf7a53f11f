"""Ranges of our operations in torch's profiler."""

from __future__ import annotations

from collections.abc import Iterator

import horovod.torch as hvd
import pytest
import torch
from horovod.torch import _tensors
from torch.profiler import ProfilerActivity, profile


def work() -> None:
    ones = torch.ones(8)
    hvd.allreduce(ones, name="blocking")
    hvd.grouped_allreduce([ones, ones], name="group")
    handle = hvd.broadcast_async(ones, 0, name="later")
    hvd.synchronize(handle)


def test_operations_are_ranges_while_a_profiler_runs() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    counts = {event.key: event.count for event in profiler.key_averages() if event.key.startswith("Horovod")}
    assert counts == {
        "HorovodAllreduce": 1,
        "HorovodGroupedAllreduce": 1,
        "HorovodBroadcast": 1,
        "HorovodBroadcast (wait)": 1,
    }


def test_an_operation_may_outlive_the_profiler() -> None:
    with profile(activities=[ProfilerActivity.CPU]):
        handle = hvd.allreduce_async(torch.ones(8), name="outlives", op=hvd.Sum)
    assert torch.equal(hvd.synchronize(handle), torch.full((8,), float(hvd.size())))


class NvtxDouble:
    """Stands in for torch.cuda.nvtx, which torch for CPUs does not have: counts what is pushed and popped."""

    def __init__(self) -> None:
        self.pushed: list[str] = []
        self.popped = 0

    def range_push(self, title: str) -> int:
        self.pushed.append(title)
        return len(self.pushed)

    def range_pop(self) -> int:
        self.popped += 1
        return self.popped


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> Iterator[NvtxDouble]:
    double = NvtxDouble()
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", double.range_push)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", double.range_pop)
    _tensors._nvtx_marker.cache_clear()
    yield double
    _tensors._nvtx_marker.cache_clear()


def test_operations_are_ranges_of_nvtx_under_its_tools(nvtx: NvtxDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    work()
    assert nvtx.pushed == []
    ranges = ["HorovodAllreduce", "HorovodGroupedAllreduce", "HorovodBroadcast", "HorovodBroadcast (wait)"]
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/tool.so")
    for is_off, expected in (("1", []), ("-10", []), ("0", ranges), ("false", ranges), ("", ranges)):
        nvtx.pushed, nvtx.popped = [], 0
        monkeypatch.setenv("HOROVOD_DISABLE_NVTX_RANGES", is_off)
        _tensors._nvtx_marker.cache_clear()
        work()
        assert nvtx.pushed == expected
        assert nvtx.popped == len(expected)
