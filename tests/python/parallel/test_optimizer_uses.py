"""Legal, but unusual uses of the distributed optimizer."""

from __future__ import annotations

import copy
import gc
import weakref

import horovod.torch as hvd
import pytest
import torch
from torch.nn import functional

needs_two = pytest.mark.skipif("hvd.size() == 1", reason="a lone rank reduces nothing")


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()


def data(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return (torch.randn(6, width, generator=generator, dtype=torch.float64) for width in (4, 3))


def loss_of(model: torch.nn.Module, step: int, ranks: list[int]) -> torch.Tensor:
    pairs = [data(step, rank) for rank in ranks]
    return torch.stack([functional.mse_loss(model(x), y) for x, y in pairs]).mean()


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def same_everywhere(model: torch.nn.Module) -> bool:
    gathered = hvd.allgather(flat(model).reshape(1, -1))
    return torch.allclose(gathered, gathered[:1].expand_as(gathered))


CLOSURES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    # Without its tolerances, which look at the loss of this rank's batch, it makes the same steps on all ranks.
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=4, tolerance_grad=0, tolerance_change=0),
}


@pytest.mark.parametrize("kind", CLOSURES)
def test_a_closure_that_runs_the_backward_pass(kind: str) -> None:
    models = make_model(), make_model()
    alone = CLOSURES[kind](models[0].parameters())
    distributed = hvd.DistributedOptimizer(CLOSURES[kind](models[1].parameters()), models[1].named_parameters())
    for step in range(3):
        for model, optimizer, ranks in (
            (models[0], alone, list(range(hvd.size()))),
            (models[1], distributed, [hvd.rank()]),
        ):

            def closure(model=model, optimizer=optimizer, ranks=ranks, step=step) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, step, ranks)
                loss.backward()
                return loss

            assert optimizer.step(closure) is not None
    assert torch.allclose(flat(models[0]), flat(models[1]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"groups": 1}, {"sharded": True}, {"op": hvd.Adasum}, {"gradient_as_bucket_view": True}],
    ids=str,
)
def test_a_dropped_optimizer_leaves_the_model_alone(options: dict[str, object]) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two")
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
    loss_of(model, 0, [hvd.rank()]).backward()
    optimizer.step()
    optimizer.zero_grad()
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    for step in range(2):  # twice: nobody counts the passes any more
        loss_of(model, step, [hvd.rank()]).backward()
    model.zero_grad()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss_of(model, 1, [hvd.rank()]).backward()
    optimizer.step()
    assert same_everywhere(model)


@pytest.mark.parametrize("options", [{}, {"sharded": True}], ids=str)
def test_wrapping_twice_is_refused(options: dict[str, object]) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(optimizer)


@needs_two
@pytest.mark.parametrize("sparse_as_dense", [False, True])
@pytest.mark.parametrize("first", ["wrap", "broadcast"])
def test_an_embedding_that_only_some_ranks_use(sparse_as_dense: bool, first: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    table = torch.nn.Embedding(4, 2, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
    if first == "broadcast":
        hvd.broadcast_optimizer_state(optimizer, 0, model=table)
    optimizer = hvd.DistributedOptimizer(optimizer, table.named_parameters(), sparse_as_dense=sparse_as_dense)
    if first == "wrap":
        hvd.broadcast_optimizer_state(optimizer, 0, model=table)
    for step in range(size):
        optimizer.zero_grad()
        if rank == step:
            table(torch.tensor([1, 3])).sum().backward()
        optimizer.step()
        assert table.weight.grad.is_sparse
    assert torch.allclose(table.weight, torch.tensor([[0.0] * 2, [-1.0] * 2, [0.0] * 2, [-1.0] * 2]))


@needs_two
def test_parameters_travel_under_their_own_names() -> None:
    mine = torch.ones(2 + hvd.rank() % 2)
    with pytest.raises(hvd.HorovodInternalError, match=r"Mismatched BROADCAST tensor shapes.*'broadcast\.a\.weight'"):
        hvd.broadcast_parameters({"a.weight": mine}, 0)


def test_step_hooks_run_once_also_after_loading_a_checkpoint() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    for step in range(2):
        loss_of(model, step, [hvd.rank()]).backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after"] * 2


@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"backward_passes_per_step": 2}, {"op": hvd.Adasum}], ids=str)
def test_a_copy_of_model_and_optimizer_trains_as_they_do(options: dict[str, object]) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(), **options
    )

    def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(options.get("backward_passes_per_step", 1)):
            loss_of(model, step, [hvd.rank()]).backward()
        optimizer.step()
        assert same_everywhere(model)
        return flat(model)

    train(model, optimizer, 0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps the original's step, not the copy's
    copied_model, copied = copy.deepcopy((model, optimizer))
    before = flat(model)
    trained = train(copied_model, copied, 1)
    assert torch.equal(flat(model), before)
    assert torch.allclose(train(model, optimizer, 1), trained)
    scheduler.step()
    assert copied.param_groups[0]["lr"] == 0.1


def test_a_sharded_optimizer_cannot_be_copied() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), sharded=True)
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(optimizer)


class Branches(torch.nn.Module):
    """Three branches, of which a step uses some."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(3, 3, bias=False).double() for _ in range(3))

    def forward(self, x: torch.Tensor, used: list[int]) -> torch.Tensor:
        for branch in used:
            x = self.branches[branch](x)
        return x.square().mean()


UNUSED = [{}, {"gradient_as_bucket_view": True}, {"sharded": True}, {"groups": 1}, {"backward_passes_per_step": 2}]


@needs_two
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("options", UNUSED, ids=str)
def test_what_no_rank_used_is_left_alone_where_asked(options: dict[str, object], set_to_none: bool) -> None:
    """The last branch begins in the second step, the second one is used by rank 0 alone."""
    models, passes = (Branches(), Branches()), options.get("backward_passes_per_step", 1)
    alone, inner = (torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5) for model in models)
    optimizer = hvd.DistributedOptimizer(inner, models[1].named_parameters(), unused_as_none=True, **options)

    def used(step: int, rank: int) -> list[int]:
        return [0, *([1] if rank == 0 and step != 2 else []), *([2] if step == 1 else [])]

    for step in range(4):
        for each in (alone, optimizer):
            each.zero_grad(set_to_none=set_to_none)
        for _ in range(passes):
            x = [next(data(step, rank))[:, :3] for rank in range(hvd.size())]
            torch.stack([models[0](x[rank], used(step, rank)) for rank in range(hvd.size())]).mean().backward()
            models[1](x[hvd.rank()], used(step, hvd.rank())).backward()
        alone.step()
        optimizer.step()
    assert torch.allclose(flat(models[0]), flat(models[1]), rtol=1e-9, atol=1e-9)
    if "sharded" not in options:
        given = [[p.grad is None for p in model.parameters()] for model in models]
        assert given[0] == given[1]


def test_unused_as_none_is_refused_with_adasum() -> None:
    model = Branches()
    with pytest.raises(ValueError, match="unused_as_none"):
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), op=hvd.Adasum, unused_as_none=True)


@needs_two
def test_programs_leave_unused_parameters_out_by_a_private_attribute() -> None:
    """As Fast AutoAugment's do: what no rank used has no gradient, and nothing of it is decayed."""
    model = Branches()
    inner = torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.5)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    optimizer._requires_update = set()
    assert optimizer._requires_update == set()
    before = model.branches[2].weight.detach().clone()
    model(next(data(0, hvd.rank()))[:, :3], [0, 1]).backward()
    optimizer.step()
    assert model.branches[2].weight.grad is None
    assert torch.equal(model.branches[2].weight, before)
    optimizer._requires_update = set(model.parameters())
    optimizer.step()
    assert not torch.equal(model.branches[2].weight, before)
