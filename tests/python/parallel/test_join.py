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
