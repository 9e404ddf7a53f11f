from __future__ import annotations

import random
import threading

import horovod.torch as hvd
import torch


def test_hundreds_of_operations_in_any_order_of_submission_and_waiting() -> None:
    rank, size = hvd.rank(), hvd.size()
    shuffled = random.Random(rank)  # noqa: S311 (a different order on every rank)
    for _ in range(3):
        numbers = list(range(300))
        shuffled.shuffle(numbers)
        handles = {
            i: hvd.allreduce_async(torch.full((i % 17 + 1,), float(i + rank)), op=hvd.Sum, name=f"many.{i}")
            for i in numbers
        }
        shuffled.shuffle(numbers)
        for i in numbers:
            expected = size * i + size * (size - 1) / 2
            assert hvd.synchronize(handles[i]).tolist() == [expected] * (i % 17 + 1)


def test_kinds_may_be_mixed_and_ordered_differently() -> None:
    rank, size = hvd.rank(), hvd.size()
    jobs = {
        "reduce": lambda: hvd.allreduce_async(torch.ones(5), op=hvd.Sum, name="mixed"),
        "gather": lambda: hvd.allgather_async(torch.full((rank + 1,), rank), name="mixed"),
        "send": lambda: hvd.broadcast_async(torch.full((3,), rank), 0, name="mixed"),
        "scatter": lambda: hvd.reducescatter_async(torch.ones(size, 2), op=hvd.Sum, name="mixed"),
        "exchange": lambda: hvd.alltoall_async(torch.full((size,), rank), name="mixed"),
    }
    order = list(jobs)
    random.Random(rank + 100).shuffle(order)  # noqa: S311
    handles = {kind: jobs[kind]() for kind in order}
    results = {kind: hvd.synchronize(handles[kind]) for kind in sorted(handles)}
    assert results["reduce"].tolist() == [size] * 5
    assert results["gather"].tolist() == [r for r in range(size) for _ in range(r + 1)]
    assert results["send"].tolist() == [0, 0, 0]
    assert results["scatter"].tolist() == [[size, size]]
    assert results["exchange"][0].tolist() == list(range(size))


def test_poll_becomes_true_and_a_handle_is_used_once() -> None:
    handle = hvd.allreduce_async(torch.ones(3), name="polled")
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) is not None
    assert hvd.synchronize(handle) is None


def test_in_place_operations_return_the_same_tensor() -> None:
    tensor = torch.ones(4)
    assert hvd.synchronize(hvd.allreduce_async_(tensor)) is tensor
    assert hvd.synchronize(hvd.broadcast_async_(tensor, 0)) is tensor
    tensors = [torch.ones(2), torch.ones(3)]
    assert all(a is b for a, b in zip(hvd.synchronize(hvd.grouped_allreduce_async_(tensors)), tensors))


def test_threads_may_submit_and_wait_side_by_side() -> None:
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for i in range(50):
                result = hvd.allreduce(torch.full((8,), float(i)), name=f"thread.{thread}.{i}")
                assert result.tolist() == [float(i)] * 8
        except BaseException as error:  # noqa: BLE001 (shown by the main thread)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_inputs_that_the_caller_drops_stay_alive() -> None:
    handles = [hvd.allreduce_async(torch.full((1000,), float(i)), name=f"dropped.{i}") for i in range(50)]
    for i, handle in enumerate(handles):
        assert hvd.synchronize(handle)[0].item() == i


def test_barrier_among_other_operations() -> None:
    handles = [hvd.allreduce_async(torch.ones(3), name=f"around.{i}") for i in range(5)]
    hvd.barrier()
    for handle in handles:
        hvd.synchronize(handle)
    hvd.barrier()
