"""torch.distributed over the backend roda."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterator
from datetime import timedelta

import horovod.torch as hvd
import pytest
import torch
import torch.distributed as dist
from horovod.common.process_sets import registered_set
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BATCH = 4


@pytest.fixture(scope="module", autouse=True)
def default_group(job: None) -> Iterator[None]:
    dist.init_process_group("roda")
    yield
    dist.destroy_process_group()


def ranks() -> range:
    return range(hvd.size())


def test_the_group_is_the_job() -> None:
    assert dist.get_backend() == "roda"
    assert (dist.get_rank(), dist.get_world_size()) == (hvd.rank(), hvd.size())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32])
def test_all_reduce(dtype: torch.dtype) -> None:
    values = [r + 1 for r in ranks()]
    product = torch.tensor(values).prod().item()
    expected = {dist.ReduceOp.SUM: sum(values), dist.ReduceOp.MIN: 1, dist.ReduceOp.MAX: hvd.size()}
    expected[dist.ReduceOp.PRODUCT] = product
    if dtype.is_floating_point:
        expected[dist.ReduceOp.AVG] = sum(values) / hvd.size()
    for op, value in expected.items():
        tensor = torch.full((3, 2), hvd.rank() + 1, dtype=dtype)
        dist.all_reduce(tensor, op)
        assert torch.equal(tensor, torch.full((3, 2), value, dtype=dtype)), op
    strided = torch.full((2, 3), hvd.rank() + 1, dtype=dtype).t()
    dist.all_reduce(strided)
    assert strided.tolist() == [[sum(values)] * 2] * 3
    if not dtype.is_floating_point:
        for op, value in ((dist.ReduceOp.BAND, operator.and_), (dist.ReduceOp.BXOR, operator.xor)):
            tensor = torch.full((3, 2), hvd.rank() + 1, dtype=dtype)
            dist.all_reduce(tensor, op)
            assert tensor.tolist() == [[functools.reduce(value, values)] * 2] * 3
    else:
        with pytest.raises(RuntimeError, match="BOR with the non-integral dtype"):
            dist.all_reduce(torch.ones(2, dtype=dtype), dist.ReduceOp.BOR)


def test_many_at_once_in_any_order_of_waiting() -> None:
    tensors = [torch.full((i + 1,), float(hvd.rank())) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
    assert all(tensor.tolist() == [float(sum(ranks()))] * (i + 1) for i, tensor in enumerate(tensors))


def test_more_calls_under_way_than_names_in_turn() -> None:
    rank = hvd.rank()
    tensors = [torch.full((1 + i % 3,), float(rank)) for i in range(100)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    last = torch.full((2,), float(rank))
    if rank == 0:  # a rank need not wait as the others do
        assert dist.all_reduce(last, async_op=True).wait()
    else:
        dist.all_reduce(last)
    for barrier in [dist.barrier(async_op=True) for _ in range(3)]:
        barrier.wait()
    for work in works:
        work.wait()
    assert all(set(tensor.tolist()) == {float(sum(ranks()))} for tensor in [*tensors, last])


def test_shapes_that_take_turns_are_still_compared() -> None:
    if hvd.size() < 2:
        pytest.skip("a lone rank has nobody to disagree with")
    for i in range(200):  # every name has met every shape, and the engine's cache knows it
        dist.all_reduce(torch.ones(1 + i % 3))
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched ALLREDUCE tensor shapes"):
        dist.all_reduce(torch.ones(1 + hvd.rank() % 2))
    dist.all_reduce(torch.ones(2))


def test_futures() -> None:
    tensors = [torch.full((4,), float(hvd.rank())) for _ in range(5)]
    futures = [dist.all_reduce(tensor, async_op=True).get_future() for tensor in tensors]
    doubled = [future.then(lambda done: done.value()[0] * 2) for future in futures]
    assert all(result.wait().tolist() == [2.0 * sum(ranks())] * 4 for result in doubled)


def test_broadcast_reduce_gather_scatter() -> None:
    size, rank = hvd.size(), hvd.rank()
    for root in ranks():
        tensor = torch.full((2, 2), float(rank))
        dist.broadcast(tensor, root)
        assert tensor.tolist() == [[float(root)] * 2] * 2
        tensor = torch.full((3,), float(rank + 1))
        dist.reduce(tensor, root)
        assert tensor.tolist() == [float(size * (size + 1) // 2 if rank == root else rank + 1)] * 3
        received = [torch.empty(2) for _ in ranks()] if rank == root else None
        dist.gather(torch.full((2,), float(rank)), received, root)
        if rank == root:
            assert [t.tolist() for t in received] == [[float(r)] * 2 for r in ranks()]
        own = torch.empty(2, 1)
        dist.scatter(own, [torch.full((2, 1), float(10 * root + r)) for r in ranks()] if rank == root else None, root)
        assert own.tolist() == [[float(10 * root + rank)]] * 2


def test_all_gather() -> None:
    size, rank = hvd.size(), hvd.rank()
    received = [torch.empty(2, 3) for _ in ranks()]
    dist.all_gather(received, torch.full((2, 3), float(rank)))
    assert [t[0, 0].item() for t in received] == [float(r) for r in ranks()]
    scalars = [torch.empty(()) for _ in ranks()]
    dist.all_gather(scalars, torch.tensor(float(rank)))
    assert [t.item() for t in scalars] == [float(r) for r in ranks()]
    whole = torch.empty(size * 2, 3)
    dist.all_gather_into_tensor(whole, torch.full((2, 3), float(rank)))
    assert whole[:, 0].tolist() == [float(r) for r in ranks() for _ in range(2)]
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": r, "text": "x" * r} for r in ranks()]
    shared = [{"root": rank}, rank]
    dist.broadcast_object_list(shared, src=size - 1)
    assert shared == [{"root": size - 1}, size - 1]


def test_reduce_scatter() -> None:
    size, rank = hvd.size(), hvd.rank()
    total = size * (size + 1) / 2
    for op, value in ((dist.ReduceOp.SUM, total), (dist.ReduceOp.AVG, total / size), (dist.ReduceOp.MAX, float(size))):
        own = torch.empty(2)
        dist.reduce_scatter(own, [torch.full((2,), (rank + 1.0) * (r + 1)) for r in ranks()], op)
        assert torch.allclose(own, torch.full((2,), value * (rank + 1)))
        own = torch.empty(3, 2)
        inputs = torch.cat([torch.full((3, 2), (rank + 1.0) * (r + 1)) for r in ranks()])
        dist.reduce_scatter_tensor(own, inputs, op)
        assert torch.allclose(own, torch.full((3, 2), value * (rank + 1)))


def test_coalesced() -> None:
    size, rank = hvd.size(), hvd.rank()
    group = dist.group.WORLD
    tensors = [torch.full((i + 1,), float(rank + 1)) for i in range(3)]
    group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).wait()
    assert all(t.tolist() == [size * (size + 1) / 2] * (i + 1) for i, t in enumerate(tensors))
    outputs = [torch.empty(size * (i + 1)) for i in range(2)]
    group.allgather_into_tensor_coalesced(outputs, [torch.full((i + 1,), float(rank)) for i in range(2)]).wait()
    assert [o.tolist() for o in outputs] == [[float(r) for r in ranks() for _ in range(i + 1)] for i in range(2)]
    owns = [torch.empty(i + 1) for i in range(2)]
    inputs = [torch.arange(size).repeat_interleave(i + 1).float() for i in range(2)]
    group.reduce_scatter_tensor_coalesced(owns, inputs).wait()
    assert [o.tolist() for o in owns] == [[float(size * rank)] * (i + 1) for i in range(2)]


def test_all_to_all() -> None:
    size, rank = hvd.size(), hvd.rank()
    received = torch.empty(size, 2)
    dist.all_to_all_single(received, torch.arange(size).float().mul(10).add(rank).view(size, 1).expand(size, 2))
    assert received[:, 0].tolist() == [10.0 * rank + r for r in ranks()]
    inputs = torch.full((size * (size + 1) // 2,), float(rank))
    received = torch.empty((rank + 1) * size)
    dist.all_to_all_single(received, inputs, [rank + 1] * size, [r + 1 for r in ranks()])
    assert received.tolist() == [float(r) for r in ranks() for _ in range(rank + 1)]
    outputs = [torch.empty(r + 1) for r in ranks()]
    dist.all_to_all(outputs, [torch.full((rank + 1,), float(10 * rank + r)) for r in ranks()])
    assert [o.tolist() for o in outputs] == [[10.0 * r + rank] * (r + 1) for r in ranks()]


def test_the_coalescing_manager() -> None:
    size, rank = hvd.size(), hvd.rank()
    tensors = [torch.full((i + 1,), float(rank)) for i in range(3)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert [tensor.tolist() for tensor in tensors] == [[float(sum(ranks()))] * (i + 1) for i in range(3)]
    outputs = [torch.empty(size * (i + 1)) for i in range(2)]
    with dist.distributed_c10d._coalescing_manager():
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, torch.full((i + 1,), float(rank)))
    assert [o.tolist() for o in outputs] == [[float(r) for r in ranks() for _ in range(i + 1)] for i in range(2)]


def test_barrier() -> None:
    dist.barrier()


def test_a_barrier_names_who_does_not_come() -> None:
    group = dist.group.WORLD
    group.monitored_barrier(timedelta(seconds=60))
    if hvd.size() == 1:
        return
    late = [hvd.size() - 1]
    if hvd.rank() in late:
        dist.recv(torch.empty(1), 0)  # once the others have given up
    with pytest.raises(RuntimeError, match=f"Rank {late[0]} failed to pass monitoredBarrier"):
        group.monitored_barrier(timedelta(milliseconds=100))
    if hvd.rank() == 0:
        dist.send(torch.ones(1), late[0])
    dist.barrier()
    group.monitored_barrier(timedelta(seconds=60), wait_all_ranks=True)


needs_peers = pytest.mark.skipif("hvd.size() == 1", reason="a rank sends no messages to itself")


@needs_peers
def test_messages_around_a_ring() -> None:
    rank, size = hvd.rank(), hvd.size()
    following, previous = (rank + 1) % size, (rank - 1) % size
    sent = [torch.arange(5) + 10 * rank + i for i in range(3)]
    received = [torch.empty(5, 2, dtype=torch.int64)[:, 1] for _ in sent]  # strided
    ops = [dist.P2POp(dist.isend, tensor, following) for tensor in sent]
    ops += [dist.P2POp(dist.irecv, tensor, previous) for tensor in received]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert [tensor.tolist() for tensor in received] == [[x + 10 * previous + i for x in range(5)] for i in range(3)]


@needs_peers
def test_messages_are_matched_by_tag_and_order() -> None:
    sender, receiver = hvd.size() - 1, 0
    if hvd.rank() == sender:
        works = [dist.isend(torch.tensor([float(value)]), receiver, tag=tag) for tag, value in ((7, 1), (8, 2), (7, 3))]
        for work in works:
            work.wait()
    if hvd.rank() == receiver:
        got = torch.zeros(3)
        for place, tag in ((1, 8), (0, 7), (2, 7)):
            assert dist.recv(got[place : place + 1], sender, tag=tag) == sender
        assert got.tolist() == [1.0, 2.0, 3.0]
    objects = [{"from": hvd.rank()}]
    if hvd.rank() == sender:
        dist.send_object_list(objects, receiver)
    if hvd.rank() == receiver:
        dist.recv_object_list(objects, sender)
        assert objects == [{"from": sender}]


def remove_sets(*members: list[int]) -> None:
    """Remove the process sets of groups; the thread of a rank that is in none may be a moment behind."""
    for ranks in members:
        for _ in range(10**6):
            if registered_set(ranks) is not None:
                break
        assert hvd.remove_process_set(registered_set(ranks))


def test_groups() -> None:
    rank = hvd.rank()
    even, odd = [r for r in ranks() if r % 2 == 0], [r for r in ranks() if r % 2 == 1]
    groups = [(members, dist.new_group(members)) for members in (even, odd, even, [0], list(ranks())) if members]
    for members, group in groups:
        if rank not in members:
            continue
        assert dist.get_world_size(group) == len(members)
        tensor = torch.full((2,), float(rank))
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [float(sum(members))] * 2
        dist.broadcast(tensor.fill_(rank), members[-1], group=group)
        assert tensor.tolist() == [float(members[-1])] * 2
        received = [torch.empty(1) for _ in members]
        dist.all_gather(received, torch.tensor([float(rank)]), group=group)
        assert [t.item() for t in received] == [float(r) for r in members]
        dist.barrier(group)
        dist.destroy_process_group(group)
    dist.barrier()
    if hvd.size() > 1:
        remove_sets(even, odd, *([[0]] if even != [0] else []))


def test_groups_that_only_their_members_make() -> None:
    rank = hvd.rank()
    halves = [[r for r in ranks() if r % 2 == parity] for parity in (0, 1)]
    members = halves[rank % 2]
    for _ in range(2):  # the second time by the same name
        group = dist.new_group(members, use_local_synchronization=True)
        tensor = torch.full((2,), float(rank))
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [float(sum(members))] * 2
        dist.destroy_process_group(group)
        dist.barrier()
        if hvd.size() > 1:
            remove_sets(*halves)


def test_a_group_that_torch_calls_by_several_names_is_refused_on_all_its_ranks() -> None:
    if hvd.size() == 1:
        pytest.skip("a lone rank agrees with itself")
    alone = dist.new_group([0], use_local_synchronization=True)
    ends = [0, hvd.size() - 1]
    if hvd.rank() in ends:
        with pytest.raises(ValueError, match=rf"torch calls the group of .* on rank {ends[1]} and .* on rank 0"):
            dist.new_group(ends, use_local_synchronization=True)
    dist.barrier()
    if hvd.rank() == 0:
        dist.destroy_process_group(alone)
    remove_sets([0], *([ends] if hvd.size() > 2 else []))


@pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters, reason="this torch always sorts a group's ranks"
)
def test_a_group_in_an_order_of_its_own() -> None:
    size, rank = hvd.size(), hvd.rank()
    members = [*range(1, size), 0]
    group = dist.new_group(members, sort_ranks=False)
    own = members.index(rank)
    assert dist.get_rank(group) == own
    received = [torch.empty(2) for _ in members]
    dist.all_gather(received, torch.full((2,), float(rank)), group=group)
    assert [t[0].item() for t in received] == members
    whole = torch.empty(size)
    dist.all_gather_into_tensor(whole, torch.tensor([float(rank)]), group=group)
    assert whole.tolist() == members
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        share = torch.empty(3)
        dist.reduce_scatter_tensor(share, torch.arange(size).repeat_interleave(3).float(), op, group=group)
        assert share.tolist() == [own * (size if op == dist.ReduceOp.SUM else 1.0)] * 3
    exchanged = torch.empty(sum(r + 1 for r in members))
    dist.all_to_all_single(
        exchanged, torch.full(((rank + 1) * size,), float(rank)), [r + 1 for r in members], [rank + 1] * size, group
    )
    assert exchanged.tolist() == [float(r) for r in members for _ in range(r + 1)]
    mine = torch.empty(1)
    parts = [torch.tensor([float(r)]) for r in members] if rank == members[0] else None
    dist.scatter(mine, parts, members[0], group=group)
    assert mine.item() == rank
    dist.broadcast(mine, members[-1], group=group)
    assert mine.item() == members[-1]


def test_an_error_reaches_every_way_of_waiting() -> None:
    if hvd.size() < 2:
        pytest.skip("a lone rank has nobody to disagree with")
    shape = hvd.rank() + 1
    with pytest.raises(hvd.HorovodInternalError, match="Mismatched ALLREDUCE tensor shapes"):
        dist.all_reduce(torch.ones(shape))
    work = dist.all_reduce(torch.ones(shape), async_op=True)
    with pytest.raises(RuntimeError, match="Mismatched ALLREDUCE tensor shapes"):
        work.get_future().wait()
    assert isinstance(work.exception(), hvd.HorovodInternalError)
    assert not work.is_success()
    dist.barrier()


# --- training ---


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    rows = hvd.size() * BATCH
    return torch.randn(rows, 6, generator=generator), torch.randn(rows, 2, generator=generator)


def train(model: torch.nn.Module, rows: slice) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        x, y = batch(step)
        optimizer.zero_grad()
        functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "options",
    [{}, {"bucket_cap_mb": 0.0001}, {"static_graph": True}, {"find_unused_parameters": True}],
    ids=["plain", "many buckets", "static", "unused"],
)
def test_data_parallel_training_equals_one_process(options: dict[str, object]) -> None:
    alone = make_model()
    train(alone, slice(None))
    model = make_model()
    if hvd.rank() > 0:  # the first rank's are broadcast
        torch.nn.init.zeros_(model[0].weight)
    train(DistributedDataParallel(model, **options), slice(hvd.rank() * BATCH, (hvd.rank() + 1) * BATCH))
    for a, b in zip(alone.parameters(), model.parameters()):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_may_be_accumulated_without_being_reduced() -> None:
    model = make_model()
    wrapped = DistributedDataParallel(model)
    x, y = batch(0)
    rows = slice(hvd.rank() * BATCH, (hvd.rank() + 1) * BATCH)
    with wrapped.no_sync():
        functional.mse_loss(wrapped(x[rows]), y[rows]).backward()
    functional.mse_loss(wrapped(x[rows]), y[rows]).backward()
    alone = make_model()
    (2 * functional.mse_loss(alone(x), y)).backward()
    for a, b in zip(alone.parameters(), model.parameters()):
        assert torch.allclose(a.grad, b.grad, rtol=1e-5, atol=1e-6)
