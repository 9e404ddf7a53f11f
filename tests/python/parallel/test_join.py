from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch


def test_ranks_that_have_less_data_join() -> None:
    rank, size = hvd.rank(), hvd.size()
    for step in range(rank + 1):
        result = hvd.allreduce(torch.full((4,), 1.0), op=hvd.Sum, name=f"joined.{step}")
        assert result.tolist() == [size - step] * 4  # those that joined before contribute zeros
    last = hvd.join()
    assert last == size - 1
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2


def test_unnamed_operations_are_counted_anew_after_a_join() -> None:
    rank, size = hvd.rank(), hvd.size()
    for step in range(rank + 2):  # another number of unnamed ones on every rank
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size - max(0, step - 1)] * 2
    in_flight = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="in flight") if rank == size - 1 else None
    hvd.join()
    for _ in range(2):
        assert hvd.allgather(torch.full((1,), rank)).tolist() == list(range(size))
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2
    if in_flight is not None:
        assert hvd.synchronize(in_flight).tolist() == [1.0] * 3


def test_average_divides_by_all_ranks() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    if hvd.rank() == 0:
        assert hvd.allreduce(torch.full((3,), float(hvd.size())), name="alone").tolist() == [1.0] * 3
    assert hvd.join() == 0 or hvd.size() > 2


def test_cached_names_and_groups_after_a_join() -> None:
    rank, size = hvd.rank(), hvd.size()
    for _ in range(3):
        hvd.grouped_allreduce([torch.ones(3), torch.ones(5)], name="cached group", op=hvd.Sum)
    if rank == size - 1:
        for _ in range(2):
            results = hvd.grouped_allreduce([torch.ones(3), torch.ones(5)], name="cached group", op=hvd.Sum)
            assert [r.tolist() for r in results] == [[1.0] * 3, [1.0] * 5]
    assert hvd.join() == size - 1


def test_other_collectives_fail_while_someone_joined() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    if hvd.rank() == 1:
        with pytest.raises(hvd.HorovodInternalError, match="Allgather is not supported with Join at this time."):
            while True:  # until the others' joins have arrived it waits for them as for anybody
                hvd.allgather(torch.ones(2), name="during join")
    hvd.join()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16, torch.float32, torch.float64])
def test_every_reduction_without_each_rank_in_turn(dtype: torch.dtype) -> None:
    size = hvd.size()
    tensor = torch.tensor([-6, -1, 0, 1, 4]).to(dtype)
    for absent in range(size):
        if size > 1 and hvd.rank() == absent:
            last = hvd.join()
        else:
            present = max(1, size - 1)
            zero = torch.zeros_like(tensor) if size > 1 else tensor
            share = tensor.double() * present / size
            average = (share if dtype.is_floating_point else share.trunc()).to(dtype)
            for name, op, expected in (
                ("sum", hvd.Sum, tensor * present),
                ("average", hvd.Average, average),
                ("min", hvd.Min, torch.minimum(tensor, zero)),
                ("max", hvd.Max, torch.maximum(tensor, zero)),
                ("product", hvd.Product, tensor * (size == 1)),
            ):
                result = hvd.allreduce(tensor, op=op, name=f"without.{name}")
                assert torch.allclose(result.double(), expected.double(), rtol=2e-3, atol=1e-6), name
            handles = [hvd.allreduce_async(tensor, op=hvd.Sum, name=f"without.{i}") for i in range(10)]
            assert all(torch.equal(hvd.synchronize(handle), tensor * present) for handle in handles)
            pair = hvd.grouped_allreduce([tensor, tensor * 2], op=hvd.Sum, name="without.group")
            assert torch.equal(pair[1], tensor * 2 * present)
            last = hvd.join()
        assert size == 1 or last != absent
        assert len(set(hvd.allgather_object(last))) == 1


REFUSED = {
    "Allgather": lambda: hvd.allgather(torch.ones(2), name="refused"),
    "Allgather of a group": lambda: hvd.grouped_allgather([torch.ones(2), torch.ones(3)], name="refused"),
    "Broadcast": lambda: hvd.broadcast(torch.ones(2), hvd.size() - 1, name="refused"),
    "Reduce": lambda: hvd.reduce(torch.ones(2), 0, name="refused"),
    "Alltoall": lambda: hvd.alltoall(torch.ones(hvd.size()), name="refused"),
    "Reducescatter": lambda: hvd.reducescatter(torch.ones(hvd.size()), name="refused"),
    "Reducescatter of a group": lambda: hvd.grouped_reducescatter([torch.ones(9), torch.ones(8)], name="refused"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_while_the_first_rank_has_joined(what: str) -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    if hvd.rank() > 0:
        text = f"{what.split()[0]} is not supported with Join at this time."
        with pytest.raises(hvd.HorovodInternalError, match=text):
            REFUSED[what]()
    hvd.join()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
