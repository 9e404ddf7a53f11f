"""Ranges of our operations in torch's profiler."""

from __future__ import annotations

import horovod.torch as hvd
import torch
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
