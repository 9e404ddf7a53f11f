"""What programs for today's torch do: compiled models, mixed precision, samplers, hooks."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from torch.nn import functional

BATCH = 4


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def joined_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(hvd.size() * BATCH, 6, generator=generator)
    return x, torch.randn(hvd.size() * BATCH, 2, generator=generator)


def own_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    own = slice(hvd.rank() * BATCH, (hvd.rank() + 1) * BATCH)
    x, y = joined_batch(step)
    return x[own], y[own]


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trained_alone(steps: int = 3) -> torch.nn.Module:
    model = make_model()
    optimizer = sgd(model)
    for step in range(steps):
        x, y = joined_batch(step)
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


def assert_same(actual: torch.nn.Module, expected: torch.nn.Module, tolerance: float = 1e-5) -> None:
    for a, b in zip(actual.parameters(), expected.parameters()):
        assert torch.allclose(a.float(), b.float(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_model(backend: str) -> None:
    model = make_model()
    compiled = torch.compile(model, backend=backend)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for step in range(3):
        x, y = own_batch(step)
        optimizer.zero_grad()
        functional.mse_loss(compiled(x), y).backward()
        optimizer.step()
    assert_same(model, trained_alone())


def test_grad_scaler() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(3):
        x, y = own_batch(step)
        optimizer.zero_grad()
        scaler.scale(functional.mse_loss(model(x), y)).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    assert_same(model, trained_alone())


def test_grad_scaler_skips_a_step_on_all_ranks() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    x, y = own_batch(0)
    loss = functional.mse_loss(model(x), y)
    if hvd.rank() == hvd.size() - 1:
        loss = loss * float("inf")  # only there; the sum of the gradients carries it to all
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**9
    assert_same(model, make_model(), 0.0)
    optimizer.zero_grad()
    functional.mse_loss(model(x), y).backward()
    optimizer.step()


def test_autocast_and_models_in_half_precision() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        model = make_model().to(dtype)
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
        for step in range(3):
            x, y = own_batch(step)
            optimizer.zero_grad()
            functional.mse_loss(model(x.to(dtype)).float(), y).backward()
            assert all(p.grad.dtype == dtype for p in model.parameters())
            optimizer.step()
        assert_same(model, trained_alone(), 0.05)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for step in range(3):
        x, y = own_batch(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
    assert_same(model, trained_alone(), 0.05)


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_compression(compression: str) -> None:
    compressor = getattr(hvd.Compression, compression)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), compression=compressor)
    for step in range(3):
        x, y = own_batch(step)
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
    assert_same(model, trained_alone(), 0.02)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.full((5,), 3.0, dtype=dtype)
        compressed, context = compressor.compress(x)
        assert compressed.dtype == {"fp16": torch.float16, "bf16": torch.bfloat16}[compression]
        assert torch.equal(compressor.decompress(compressed, context), x)
        assert hvd.allreduce(x, op=hvd.Sum, compression=compressor).dtype == dtype
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        assert compressor.compress(torch.ones(3, dtype=dtype))[0].dtype == dtype


def test_distributed_sampler() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(8.0 * hvd.size()))
    sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=True)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mine = torch.cat([batch for (batch,) in loader])
        assert hvd.allgather(mine).sort().values.tolist() == list(range(8 * hvd.size()))


def test_zero_grad_keeps_or_drops_gradients() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    x, y = own_batch(0)
    functional.mse_loss(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert all(torch.count_nonzero(p.grad) == 0 for p in model.parameters())
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in model.parameters())


def test_parameters_that_are_unfrozen_or_added_later_are_reduced() -> None:
    model = make_model()
    model[0].requires_grad_(False)
    extra = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for step in range(4):
        if step == 1:
            model[0].requires_grad_(True)
        if step == 2:
            optimizer.add_param_group({"params": [extra]})
        x, y = own_batch(step)
        optimizer.zero_grad()
        functional.mse_loss(model(x) + extra, y).backward()
        optimizer.step()
    everywhere = hvd.allgather_object([p.tolist() for p in (*model.parameters(), extra)])
    assert all(values == everywhere[0] for values in everywhere)
    assert torch.count_nonzero(extra) == 2


def test_hooks_of_the_user_and_of_torch() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    seen: list[str] = []
    model[0].weight.register_hook(lambda grad: seen.append("gradient"))
    optimizer.register_step_post_hook(lambda *_: seen.append("step"))
    x, y = own_batch(0)
    functional.mse_loss(model(x), y).backward()
    optimizer.step()
    assert seen == ["gradient", "step"]


def test_an_exception_in_a_hook_leaves_the_job_usable() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    x, y = own_batch(0)

    def fail(grad: torch.Tensor) -> None:
        raise KeyError("mine")

    hook = model[0].weight.register_hook(fail)
    with pytest.raises(KeyError):
        functional.mse_loss(model(x), y).backward()
    hook.remove()
    optimizer.synchronize()  # what was under way, and zeros for the rest
    optimizer.zero_grad()
    functional.mse_loss(model(x), y).backward()
    optimizer.step()
    everywhere = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert all(values == everywhere[0] for values in everywhere)
