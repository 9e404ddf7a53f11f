"""These tests come last by name order: they stop and start the engine."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

import horovod.torch as hvd
import pytest
import torch
from horovod import _roda
from horovod.common.process_sets import registered_set
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.torch import _ops
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.dlpack import from_dlpack


def test_topology_is_the_launchers() -> None:
    assert hvd.is_initialized()
    # mpirun says nothing of hosts; these tests run on one.
    prefix = "HOROVOD" if "HOROVOD_RANK" in os.environ else "OMPI_COMM_WORLD"
    for name, value in (
        ("RANK", hvd.rank()),
        ("SIZE", hvd.size()),
        ("LOCAL_RANK", hvd.local_rank()),
        ("LOCAL_SIZE", hvd.local_size()),
        ("CROSS_RANK", hvd.cross_rank()),
        ("CROSS_SIZE", hvd.cross_size()),
    ):
        assert value == int(os.environ.get(f"{prefix}_{name}", 1 if name.endswith("SIZE") else 0)), name
    assert hvd.is_homogeneous()
    hvd.init()  # does nothing while the engine runs
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_data_loader_workers_are_forked_from_a_running_engine() -> None:
    dataset = TensorDataset(torch.arange(64.0))
    loader = DataLoader(dataset, batch_size=8, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        for (batch,) in loader:
            total = hvd.allreduce(batch.clone(), op=hvd.Sum)
            assert torch.equal(total, batch * hvd.size())


@pytest.mark.parametrize("call", [lambda: hvd.allreduce(torch.ones(1)), hvd.init], ids=["allreduce", "init"])
def test_a_forked_child_is_told_that_it_has_no_engine_and_leaves_the_job_alone(call: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            call()
        except (hvd.HorovodInternalError, ValueError) as error:
            status = 0 if "start the worker with the 'spawn' method" in str(error) else 2
        finally:
            atexit._run_exitfuncs()
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_shutdown_and_init_again() -> None:
    rank, size = hvd.rank(), hvd.size()
    added = registered_set([0]) or hvd.add_process_set([0]) if size > 1 else None  # groups of torch leave their sets
    for _ in range(3):
        hvd.barrier()
        hvd.shutdown()
        assert not hvd.is_initialized()
        with pytest.raises(ValueError, match="Horovod has not been initialized; use hvd.init()."):
            hvd.rank()
        with pytest.raises(hvd.HorovodInternalError, match="Horovod has not been initialized; use hvd.init()."):
            hvd.allreduce(torch.ones(1))
        with pytest.raises(ValueError):
            hvd.add_process_set([0])
        if added is not None:
            assert added.process_set_id is None
        hvd.init(process_sets="dynamic")
        assert (hvd.rank(), hvd.size()) == (rank, size)
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2


def test_outputs_are_whole_when_they_are_taken_after_the_shutdown() -> None:
    rank, size = hvd.rank(), hvd.size()
    rows = list(range(1, size + 1))  # rank r gets r + 1 rows of everybody
    tensor = torch.full((sum(rows), 2), float(rank))
    native = _roda.submit(_ops.prepare_alltoall(tensor, rows, "late", hvd.global_process_set)[0])
    while not _roda.poll(native):
        pass
    hvd.barrier()
    hvd.shutdown()
    try:
        [(capsule, received, _)] = _roda.finish(native, 1)
        assert received == [rank + 1] * size
        expected = torch.arange(size).repeat_interleave(rank + 1).float()
        assert torch.equal(from_dlpack(capsule)[:, 0], expected)
    finally:
        hvd.init(process_sets="dynamic")


def test_static_process_sets() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    hvd.barrier()
    hvd.shutdown()
    even = hvd.ProcessSet(range(0, hvd_size(), 2))
    odd = hvd.ProcessSet(range(1, hvd_size(), 2))
    hvd.init(process_sets=[even, odd])
    try:
        assert (even.process_set_id, odd.process_set_id) == (1, 2)
        mine = even if hvd.rank() % 2 == 0 else odd
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=mine).item() == len(mine.ranks)
    finally:
        hvd.barrier()
        hvd.shutdown()
        hvd.init(process_sets="dynamic")


def hvd_size() -> int:
    return get_env_rank_and_size()[1]


def test_wrong_static_process_sets_are_refused() -> None:
    hvd.barrier()
    hvd.shutdown()
    try:
        with pytest.raises(ValueError, match="process_sets entry number 1 is a duplicate"):
            hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
        with pytest.raises(ValueError, match="a set needs at least one rank"):
            hvd.init(process_sets=[hvd.ProcessSet([])])
        with pytest.raises(ValueError, match="Invalid type of argument comm"):
            hvd.init(comm="everyone")
    finally:
        hvd.init(process_sets="dynamic")


@pytest.mark.parametrize(
    "options",
    [{}, {"groups": 1}, {"compression": hvd.Compression.fp16}, {"sharded": True}, {"gradient_as_bucket_view": True}],
    ids=str,
)
def test_an_optimizer_outlives_the_engine(options: dict[str, object]) -> None:
    if hvd.size() == 1:
        pytest.skip("a lone rank reduces nothing")
    model = torch.nn.Linear(3, 2)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)

    def compute() -> None:
        model(torch.full((1, 3), hvd.rank() + 1.0)).sum().backward()

    compute()
    hvd.barrier()
    hvd.shutdown()  # while gradients are being reduced
    hvd.init(process_sets="dynamic")
    hvd.synchronize(hvd.allreduce_async(torch.ones(1), name="another"))
    with pytest.raises(hvd.HorovodInternalError):
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    for _ in range(2):
        optimizer.zero_grad()
        compute()
        optimizer.step()
    weights = hvd.allgather(model.weight.detach().view(1, -1))
    assert torch.allclose(weights, weights[:1].expand_as(weights))
