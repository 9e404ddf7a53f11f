"""What torch builds upon process groups, over the backend roda."""

from __future__ import annotations

from collections.abc import Iterator

import horovod.torch as hvd
import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BATCH = 4


@pytest.fixture(scope="module", autouse=True)
def default_group(job: None) -> Iterator[None]:
    dist.init_process_group("roda")
    yield
    dist.destroy_process_group()


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: slice) -> None:
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        x, y = (torch.randn(hvd.size() * BATCH, width, generator=generator) for width in (6, 2))
        optimizer.zero_grad()
        functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()


def own_rows() -> slice:
    return slice(hvd.rank() * BATCH, (hvd.rank() + 1) * BATCH)


def trained_alone() -> list[torch.Tensor]:
    model = make_model()
    train(model, torch.optim.Adam(model.parameters(), lr=0.01), slice(None))
    return list(model.parameters())


def test_what_follows_a_future_may_wait_for_other_futures() -> None:
    def again(done: torch.futures.Future) -> torch.Tensor:
        inner = [dist.all_reduce(done.value()[0] * i, async_op=True).get_future() for i in range(3)]
        return torch.stack([future.wait()[0] for future in inner])

    # One after the other: collectives are matched by their order, and nothing orders what follows two futures.
    for _ in range(3):
        future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(again)
        assert future.wait().tolist() == [[float(i * hvd.size() ** 2)] * 2 for i in range(3)]


def test_power_sgd() -> None:
    model = DistributedDataParallel(make_model())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), own_rows())
    for parameter in model.parameters():
        gathered = hvd.allgather(parameter.detach().unsqueeze(0))
        assert torch.allclose(gathered, gathered[:1].expand_as(gathered))


def test_half_precision_gradients() -> None:
    model = DistributedDataParallel(make_model())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01), own_rows())
    assert all(torch.allclose(a, b, atol=2e-2) for a, b in zip(model.parameters(), trained_alone()))


def test_uneven_inputs() -> None:
    model = DistributedDataParallel(make_model())
    with model.join():
        for _ in range(hvd.rank() + 1):
            model(torch.ones(1, 6)).sum().backward()
    dist.barrier()


def test_optimizer_state_in_parts() -> None:
    model = DistributedDataParallel(make_model())
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01), own_rows())
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(model.parameters(), trained_alone()))


def test_fully_sharded_parameters() -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    mesh = dist.device_mesh.init_device_mesh("cpu", (hvd.size(),))
    model = make_model()
    for layer in (model[0], model[2], model):
        fsdp.fully_shard(layer, mesh=mesh)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01), own_rows())
    whole = [parameter.full_tensor() for parameter in model.parameters()]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(whole, trained_alone()))


def test_sharded_within_and_copied_between_rows_of_a_mesh() -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard") or hvd.size() % 2:
        pytest.skip("needs fully_shard, and an even number of ranks")
    mesh = dist.device_mesh.init_device_mesh("cpu", (hvd.size() // 2, 2), mesh_dim_names=("copies", "shards"))
    assert mesh["shards"].get_local_rank() == hvd.rank() % 2
    assert dist.get_process_group_ranks(mesh.get_group("shards")) == [hvd.rank() // 2 * 2, hvd.rank() // 2 * 2 + 1]
    model = make_model()
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.bfloat16)
    for layer in (model[0], model[2], model):
        fsdp.fully_shard(layer, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer, own_rows())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert norm.full_tensor().item() > 0
    whole = [parameter.full_tensor() for parameter in model.parameters()]
    assert all(torch.allclose(a, b, atol=2e-2) for a, b in zip(whole, trained_alone()))


def test_functional_collectives() -> None:
    functional_collectives = pytest.importorskip("torch.distributed._functional_collectives")
    size, rank, group = hvd.size(), hvd.rank(), dist.group.WORLD
    total = float(sum(range(size)))
    reduced = functional_collectives.all_reduce(torch.full((2,), float(rank)), "sum", group)
    assert reduced.tolist() == [total] * 2
    several = functional_collectives.all_reduce_coalesced(
        [torch.full((i + 1,), float(rank)) for i in range(2)], "sum", group
    )
    assert [tensor.tolist() for tensor in several] == [[total] * (i + 1) for i in range(2)]
    gathered = functional_collectives.all_gather_tensor(torch.full((1, 2), float(rank)), 1, group)
    assert gathered.tolist() == [[float(r) for r in range(size) for _ in range(2)]]
    share = functional_collectives.reduce_scatter_tensor(torch.arange(float(size)), "sum", 0, group)
    assert share.tolist() == [float(size * rank)]
    exchanged = functional_collectives.all_to_all_single(torch.full((size,), float(rank)), None, None, group)
    assert exchanged.tolist() == [float(r) for r in range(size)]


def test_pipeline_of_ranks() -> None:
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    size = hvd.size()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 6) for _ in range(size)]
    whole = torch.nn.Sequential(*layers)
    stage = pipelining.PipelineStage(layers[hvd.rank()], hvd.rank(), size, torch.device("cpu"))
    schedule = pipelining.ScheduleGPipe(stage, n_microbatches=2, loss_fn=functional.mse_loss)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    first, last = hvd.rank() == 0, hvd.rank() == size - 1
    result = schedule.step(*([x] if first else []), **({"target": y} if last else {}))
    own = [parameter.grad.clone() for parameter in layers[hvd.rank()].parameters()]
    whole.zero_grad()
    functional.mse_loss(whole(x), y).backward()
    assert all(torch.allclose(a, b.grad, atol=1e-6) for a, b in zip(own, layers[hvd.rank()].parameters()))
    if last:
        assert torch.allclose(result, whole(x), atol=1e-6)


def test_tensor_parallel_layers() -> None:
    parallel = pytest.importorskip("torch.distributed.tensor.parallel")
    mesh = dist.device_mesh.init_device_mesh("cpu", (hvd.size(),))
    torch.manual_seed(0)
    width = 4 * hvd.size()
    model = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
    x = torch.randn(3, 6)
    expected = model(x).detach()
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    split = parallel.parallelize_module(model, mesh, plan)
    assert split[0].weight.to_local().shape == (4, 6)
    result = split(x)
    assert torch.allclose(result, expected, atol=1e-6)
    result.sum().backward()
    assert split[0].weight.grad is not None
