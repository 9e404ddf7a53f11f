"""Works, time-outs and methods of the backend roda's groups, as torch's own backends have them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import horovod.torch as hvd
import pytest
import torch
import torch.distributed as dist
from horovod.common import operations
from horovod.torch.distributed import _work
from torch.nn.parallel import DistributedDataParallel

needs_peers = pytest.mark.skipif("hvd.size() == 1", reason="a lone rank has nobody to wait for")


@pytest.fixture(scope="module", autouse=True)
def default_group(job: None) -> Iterator[None]:
    dist.init_process_group("roda")
    yield
    dist.destroy_process_group()


def total() -> float:
    return float(sum(range(hvd.size())))


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


# --- works ---


def test_a_strided_result_appears_though_nobody_waits() -> None:
    tensor = torch.full((2, 3), float(hvd.rank())).t()
    work = dist.all_reduce(tensor, async_op=True)
    until(lambda: tensor.tolist() == [[total()] * 2] * 3)
    until(work.is_completed)
    assert work.is_success()
    whole = torch.full((hvd.size(),), -1.0)
    dist.all_gather_into_tensor(whole, torch.tensor([float(hvd.rank())]), async_op=True)  # and nobody keeps the work
    gc.collect()
    until(lambda: whole.tolist() == [float(r) for r in range(hvd.size())])


def test_a_work_with_nothing_to_do_at_its_end_wakes_no_thread() -> None:
    sweeper = _work._Sweeper()
    sweeper._thread, sweeper._pause = threading.current_thread(), _work._LONG  # it is at one of its rare looks
    sweeper.watch(is_urgent=False)
    assert not sweeper._call.is_set()
    sweeper.watch(is_urgent=True)
    assert sweeper._call.is_set()


def test_outputs_are_written_before_a_work_is_completed() -> None:
    for _ in range(20):
        tensor = torch.full((2, 3), float(hvd.rank())).t()
        work = dist.all_reduce(tensor, async_op=True)
        until(work.is_completed)
        assert tensor.tolist() == [[total()] * 2] * 3


def test_a_work_that_another_thread_waits_for_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions about its handle, of which the second found none: an error of the sweeper's caller."""
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    monkeypatch.setattr(operations, "is_pending", lambda _: True)
    assert work._poll()


def test_a_barrier_comes_after_every_earlier_work() -> None:
    for asynchronous in (False, True):
        tensors = [torch.full((2, 3), float(hvd.rank())).t() for _ in range(10)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        barrier = dist.barrier(async_op=asynchronous)
        if asynchronous:
            barrier.wait()
        assert all(work.is_completed() for work in works)
        assert all(tensor.tolist() == [[total()] * 2] * 3 for tensor in tensors)


def test_a_finished_works_future_is_complete_and_has_gloos_form() -> None:
    rank, size, group = float(hvd.rank()), hvd.size(), dist.group.WORLD
    parts = [torch.empty(1) for _ in range(size)]
    work = group.allgather([parts], [torch.tensor([rank])])
    work.wait()
    assert work.get_future().done()
    assert [part.item() for part in work.get_future().value()] == list(range(size))  # a list, not a list of lists
    assert [part.item() for part in work.result()] == list(range(size))
    work = group.barrier()
    work.wait()
    assert work.get_future().value() == []


def test_uneven_inputs_divided_by_those_who_still_have_some() -> None:
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    with model.join(divide_by_initial_world_size=False):
        for _ in range(1 + hvd.rank()):
            model(torch.ones(1, 2)).sum().backward()
    assert torch.allclose(model.module.weight.grad, torch.full((1, 2), 1.0 + hvd.rank()))


@needs_peers
def test_sparse_gradients() -> None:
    model = DistributedDataParallel(torch.nn.Embedding(4, 2, sparse=True))
    model(torch.tensor([0, 1 + hvd.rank() % 3])).sum().backward()
    dense = model.module.weight.grad.to_dense()
    assert dense[0].tolist() == [1.0, 1.0]
    assert torch.allclose(dense.sum(), torch.tensor(4.0))


# --- time ---


@needs_peers
def test_a_late_rank_is_named_after_the_groups_time() -> None:
    group = dist.new_group(timeout=timedelta(milliseconds=200))
    last = hvd.size() - 1
    if hvd.rank() == last:
        dist.recv(torch.empty(1), 0)  # once the others have given up
    else:
        with pytest.raises(RuntimeError, match=f"Timed out after 200 ms in all_reduce, call 1: ranks {last} did not"):
            dist.all_reduce(torch.ones(2), group=group)
        dist.barrier(dist.new_group(list(range(last)), use_local_synchronization=True)) if last > 1 else None
        if hvd.rank() == 0:
            dist.send(torch.ones(1), last)
    if hvd.rank() == last:
        dist.all_reduce(torch.ones(2), group=group)  # the others' part goes on
    dist.barrier()
    dist.destroy_process_group(group)


@needs_peers
def test_operations_that_do_not_match_end_at_the_limit_on_every_rank() -> None:
    group = dist.new_group(timeout=timedelta(milliseconds=300))
    tensor = torch.ones(2)
    if hvd.rank() == 0:
        work, other = dist.all_reduce(tensor, group=group, async_op=True), "is in barrier"
    else:
        work, other = dist.barrier(group, async_op=True), "rank 0 is in all_reduce"
    with pytest.raises(RuntimeError, match=f"Timed out after 300 ms in .*{other}"):
        work.wait()
    dist.barrier()
    if hvd.rank() == 0:  # what is under way still wants its match
        dist.barrier(group)
    else:
        dist.all_reduce(tensor, group=group)
    dist.barrier()
    dist.destroy_process_group(group)


@needs_peers
def test_torchs_debug_level_tells_what_does_not_match() -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group(timeout=timedelta(minutes=5))
    dist.set_debug_level(dist.DebugLevel.OFF)
    parts = [torch.ones(2, 1) for _ in range(hvd.size())]
    others: list[tuple[Callable[[], object], str, str]] = [
        (lambda: dist.barrier(group), "kind BARRIER", "kind, types, shapes, devices"),
        (lambda: dist.broadcast(tensor, 0, group=group), "kind BROADCAST", "kind"),
        (lambda: dist.all_gather(parts, tensor, group=group), "kind ALLGATHER", "kind"),
        (lambda: dist.all_reduce(torch.ones(3), group=group), "shapes [3]", "shapes"),
        (lambda: dist.all_reduce(torch.ones(2, 1).long(), group=group), "types torch.LongTensor", "types"),
    ]
    for other, told, differs in others:
        tensor = torch.ones(2, 1)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [[hvd.size()]] * 2
        with pytest.raises(RuntimeError, match=r"mismatch .* rank 0: kind ALLREDUCE, .* \[2, 1\]") as raised:
            other() if hvd.rank() else dist.all_reduce(tensor, group=group)
        assert told in str(raised.value).partition("rank 1:")[2]
        assert str(raised.value).endswith(f"following: {differs}.")
    dist.scatter(tensor, parts if hvd.rank() == 0 else None, group=group)
    dist.destroy_process_group(group)


@needs_peers
def test_a_wait_may_have_a_limit_of_its_own() -> None:
    if hvd.rank() == 0:
        got = torch.zeros(1)
        work = dist.irecv(got, 1)
        with pytest.raises(RuntimeError, match="Timed out after 50 ms waiting for recv, tag 0: rank 1 has not sent it"):
            work.wait(timedelta(milliseconds=50))
        dist.send(torch.ones(1), 1)
        assert work.wait(timedelta(seconds=60))
        assert got.item() == 7
    elif hvd.rank() == 1:
        dist.recv(torch.empty(1), 0)
        dist.send(torch.full((1,), 7.0), 0)


# --- messages ---


@needs_peers
def test_messages_from_any_source() -> None:
    rank, size = hvd.rank(), hvd.size()
    for destination in range(size):
        if rank != destination:
            dist.send(torch.full((2,), rank + 100.0), destination, tag=3)
            dist.send(torch.full((2,), rank + 200.0), destination, tag=3)
            continue
        sources = []
        for place in range(2 * (size - 1)):
            got = torch.empty(2)
            if place % 2:
                work = dist.irecv(got, tag=3)
                work.wait()
                source = work._source_rank()
            else:
                source = dist.recv(got, tag=3)
            sources.append(source)
            assert got.tolist() == [source + 100.0 * sources.count(source)] * 2
        assert sorted(sources) == sorted(2 * [other for other in range(size) if other != rank])


@needs_peers
def test_messages_of_dtypes_that_the_engine_does_not_know() -> None:
    dtypes = [torch.complex64, *(getattr(torch, name) for name in ("uint32", "uint64") if hasattr(torch, name))]
    for dtype in dtypes:
        if hvd.rank() == 0:
            dist.send(torch.tensor([3, 4], dtype=torch.int64).to(dtype), 1)
        elif hvd.rank() == 1:
            got = torch.zeros(2, dtype=dtype)
            dist.recv(got, 0)
            assert got.tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="with itself"):
        dist.group.WORLD.send([torch.ones(1)], hvd.rank(), 0)


@needs_peers
def test_a_message_has_the_senders_size() -> None:
    if hvd.rank() == 0:
        for count in (3, 0, 5, 8):
            dist.send(torch.arange(1.0, count + 1), 1)
    elif hvd.rank() == 1:
        for count in (3, 0, 5):
            got = torch.zeros(1, 5).t()
            dist.recv(got, 0)
            assert got.flatten().tolist() == [*range(1, count + 1), *[0] * (5 - count)]
        with pytest.raises(RuntimeError, match="a message of 8 elements, and a tensor of 5"):
            dist.recv(torch.zeros(5), 0)


# --- the group's own methods ---


def test_several_tensors_are_gathered_into_as_many_lists() -> None:
    size = hvd.size()
    lists = [[torch.empty(1) for _ in range(2 * size)] for _ in range(2)]
    dist.group.WORLD.allgather(lists, [torch.tensor([2.0 * hvd.rank() + place]) for place in range(2)]).wait()
    assert [[part.item() for part in parts] for parts in lists] == [list(range(2 * size))] * 2


def test_all_overloads() -> None:
    group, rank, size = dist.group.WORLD, float(hvd.rank()), hvd.size()
    one = lambda: torch.tensor([rank])  # noqa: E731
    summed, parts, limit = one(), [torch.empty(1) for _ in range(size)], timedelta(seconds=60)
    group.allreduce(summed).wait()
    assert summed.item() == total()
    summed = one()
    group.allreduce([summed], op=dist.ReduceOp.MAX, timeout=limit).wait()
    assert summed.item() == size - 1
    both = [one(), one()]
    group.allreduce(both, dist.ReduceOp.SUM).wait()
    assert [tensor.item() for tensor in both] == [2 * total()] * 2
    both = [one(), one()]
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = size - 1, 1
    group.broadcast(both, options).wait()
    assert [tensor.item() for tensor in both] == [size - 1] * 2
    group.allgather(parts, one(), limit).wait()
    assert [part.item() for part in parts] == list(range(size))
    own = torch.empty(1)
    group.scatter(own, [torch.tensor([10.0 * r]) for r in range(size)] if rank == 0 else [], root=0).wait()
    assert own.item() == 10 * rank
    group.gather(parts if rank == 0 else [], own, 0).wait()
    group.reduce_scatter(output_tensors=own, input_tensor=[torch.tensor([float(r)]) for r in range(size)]).wait()
    assert own.item() == rank * size
    group.reduce(own, root=0, op=dist.ReduceOp.MAX).wait()
    assert rank or own.item() == size * (size - 1)
    swapped = torch.empty(size)
    group.alltoall_base(swapped, torch.full((size,), rank), [], []).wait()
    assert swapped.tolist() == list(range(size))
    group.barrier(timeout=limit).wait()
    bits = torch.tensor([1 << hvd.rank()])
    group.reduce(bits, 0, dist.ReduceOp.BOR).wait()
    assert rank or bits.item() == 2**size - 1
    complexes = torch.tensor([complex(rank, 1)])
    group.allreduce(complexes).wait()
    assert complexes.tolist() == [complex(total(), size)]
    halved = one()
    group.allreduce(halved, dist._make_nccl_premul_sum(0.5)).wait()
    assert halved.item() == total() / 2


def test_arguments_that_do_not_fit() -> None:
    group, size, tensor = dist.group.WORLD, hvd.size(), torch.ones(2)
    wrong = [
        ("invalid root rank: -1", lambda: group.broadcast(tensor, -1)),
        (f"invalid root rank: {size}", lambda: group.reduce(tensor, size)),
        ("invalid root tensor: 0", lambda: group.broadcast([], 0)),
        ("non-empty", lambda: group.allreduce([])),
        ("invalid tensor type at index 1", lambda: group.allreduce([tensor, tensor.double()])),
        ("invalid tensor size at index 1", lambda: group.allreduce([tensor, torch.ones(3)])),
        ("same type", lambda: group.allreduce_coalesced([tensor, tensor.double()])),
        ("single-element", lambda: group.reduce([tensor, tensor])),
        ("invalid output tensor list", lambda: group.allgather([[tensor] * (size + 1)], [tensor])),
        ("non-empty input", lambda: group.allgather([], [])),
        ("invalid tensor layout at index 1", lambda: group.allreduce([tensor, tensor.to_sparse()])),
        ("unsupported layout", lambda: group.allreduce_coalesced([tensor.to_sparse()])),
        ("unsupported reduction", lambda: group.allreduce([tensor.to_sparse()], dist.ReduceOp.MAX)),
        ("single-element input list", lambda: group.scatter([tensor], [], root=hvd.rank())),
        ("Incorrect output list size 0. Output list size should be", lambda: group.gather([[]], [tensor], hvd.rank())),
        (
            "invalid size of output tensor at index 0",
            lambda: group.allgather_coalesced([[tensor[:1]]] * size, [tensor]),
        ),
        ("invalid tensor type", lambda: group.allgather([[tensor.double()] * size], [tensor])),
        ("world size times", lambda: group._allgather_base(torch.ones(2 * size + 1), tensor)),
        ("world size", lambda: group.reduce_scatter([tensor], [[]])),
        ("splits not equal", lambda: group.alltoall_base(tensor, tensor, [1] * (size + 1), [])),
        ("Split sizes", lambda: group.alltoall_base(tensor, tensor, [], [3] * size)),
        ("MAX on complex", lambda: group.allreduce(torch.ones(1, dtype=torch.complex64), dist.ReduceOp.MAX)),
        ("invalid rank", lambda: group.send([tensor], size, 0)),
        ("invalid tag", lambda: group.recv([tensor], (hvd.rank() + 1) % size, -1)),
    ]
    for text, call in wrong:
        if text.startswith("Split") and 2 % size:
            continue
        with pytest.raises(RuntimeError, match=text):
            call()


def test_the_face_of_a_backend() -> None:
    group = dist.group.WORLD
    backend = group._get_backend(torch.device("cpu"))
    assert (backend.rank(), backend.size(), backend.name()) == (hvd.rank(), hvd.size(), "roda")
    assert torch.device("cpu") in group._device_types
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    assert group._get_sequence_number_for_group() == before + 1
    group.set_timeout(timedelta(minutes=5))
    assert group.options._timeout == timedelta(minutes=5)
    tensors = [torch.full((3,), float(hvd.rank())), torch.full((2,), hvd.rank())]
    dist._broadcast_coalesced(group, tensors, 256, 0)
    assert [tensor.tolist() for tensor in tensors] == [[0.0] * 3, [0] * 2]


def test_an_operation_is_an_asynchronous_event_of_torchs_profiler() -> None:
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 4))
        dist.broadcast(torch.ones(5), 0, async_op=True).wait()
    events = {event.name: event for event in profile.function_events if event.name.startswith("roda:")}
    assert {name: event.input_shapes for name, event in events.items()} == {
        "roda:all_reduce": [[3, 4]],
        "roda:broadcast": [[5]],
    }
    assert all(event.is_async for event in events.values())
