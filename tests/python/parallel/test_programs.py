"""What programs put together, compared with one process that sees all ranks' data."""

from __future__ import annotations

from pathlib import Path

import horovod.torch as hvd
import pytest
import torch
from torch.nn.functional import cross_entropy

PASSES, STEPS = 3, 3


def make_model(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()


def loss_of(model: torch.nn.Module, batch: int, rank: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(100 * batch + rank)
    inputs = torch.randn(4, 6, generator=source, dtype=torch.float64)
    return cross_entropy(model(inputs), torch.randint(0, 3, (4,), generator=source))


def assert_equal(model: torch.nn.Module, expected: torch.nn.Module, within: float = 1e-9) -> None:
    for mine, other in zip(model.parameters(), expected.parameters()):
        assert torch.allclose(mine, other, rtol=0, atol=within)


@pytest.mark.parametrize(
    "options", [{}, {"groups": 2}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}], ids=str
)
def test_several_passes_and_clipping(options: dict[str, object]) -> None:
    alone, model = make_model(), make_model()
    plain = torch.optim.SGD(alone.parameters(), 0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), model.named_parameters(),
        backward_passes_per_step=PASSES, **options,
    )  # fmt: skip
    for step in range(STEPS):
        plain.zero_grad()
        optimizer.zero_grad()
        for batch in range(step * PASSES, (step + 1) * PASSES):
            (sum(loss_of(alone, batch, rank) for rank in range(hvd.size())) / PASSES / hvd.size()).backward()
            (loss_of(model, batch, hvd.rank()) / PASSES).backward()
        torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.05)
        plain.step()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with optimizer.skip_synchronize():
            optimizer.step()
    assert_equal(model, alone, 1e-3 if "compression" in options else 1e-9)


def test_a_job_goes_on_from_what_rank_0_saved(tmp_path: Path) -> None:
    """With a schedule, and a loss that all ranks average."""
    file = tmp_path / "checkpoint.pt"  # of rank 0 alone: others have folders of their own

    def train(first: int, last: int) -> tuple[torch.nn.Module, float]:
        model = make_model(hvd.rank())
        optimizer = torch.optim.Adam(model.parameters(), 0.01 * (1 + hvd.rank()))
        state = torch.load(file) if first and hvd.rank() == 0 else None
        state = hvd.broadcast_object(state)
        if state is not None and hvd.rank() == 0:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        assert (state is None) == (first == 0)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
        loss = torch.zeros(())
        for step in range(first, last):
            optimizer.zero_grad()
            loss = loss_of(model, step, hvd.rank())
            loss.backward()
            optimizer.step()
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        schedule.step(mean)
        if hvd.rank() == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        return model, mean

    train(0, 2)
    model, mean = train(2, 4)
    alone = make_model()
    plain = torch.optim.Adam(alone.parameters(), 0.01)
    for step in range(4):
        plain.zero_grad()
        loss = sum(loss_of(alone, step, rank) for rank in range(hvd.size())) / hvd.size()
        loss.backward()
        plain.step()
    assert_equal(model, alone)
    assert mean == pytest.approx(float(loss))


def test_adasum_with_schedules() -> None:
    if hvd.size() & (hvd.size() - 1) != 0:
        pytest.skip("Adasum is for powers of two")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), model.named_parameters(),
        backward_passes_per_step=2, op=hvd.Adasum,
    )  # fmt: skip
    halving = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for step in range(STEPS):
        optimizer.zero_grad()
        for batch in (2 * step, 2 * step + 1):
            (loss_of(model, batch, hvd.rank()) / 2).backward()
        optimizer.step()
        halving.step()
        plateau.step(1.0)  # not better: from the second time on a tenth
    assert [group["lr"] for group in optimizer.param_groups] == [pytest.approx(0.1 * 0.5**STEPS * 0.1 ** (STEPS - 1))]
    for parameter in model.parameters():
        everyones = hvd.allgather(parameter.detach()[None])
        assert torch.equal(everyones, everyones[:1].expand_as(everyones))


def test_ranks_with_fewer_batches_join() -> None:
    """And take the model from whoever had the most, as programs do with data that can't be divided evenly."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
    for batch in range(2 + hvd.rank()):
        optimizer.zero_grad()
        loss_of(model, batch, hvd.rank()).backward()
        optimizer.step()
    last = hvd.join()
    assert last == hvd.size() - 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    alone = make_model()
    for batch in range(2 + last):
        alone.zero_grad()
        sum(loss_of(alone, batch, rank) / hvd.size() for rank in range(hvd.size()) if batch < 2 + rank).backward()
        torch.optim.SGD(alone.parameters(), 0.1).step()
    assert_equal(model, alone)


def test_inference_needs_no_horovod(tmp_path: Path) -> None:
    """A checkpoint holds nothing but what PyTorch reads by itself."""
    model, restored = make_model(), make_model(1)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
    loss_of(model, 0, hvd.rank()).backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "options": {"op": hvd.Adasum}}
    torch.save(state, tmp_path / "state.pt")
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    restored.load_state_dict(saved["model"])
    torch.optim.Adam(restored.parameters()).load_state_dict(saved["optimizer"])
    assert saved["options"] == {"op": 2}
    assert_equal(restored, model, 0.0)
