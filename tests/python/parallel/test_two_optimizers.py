"""Several distributed optimizers in a program, whose parameters have the same names."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod import _roda
from horovod.common.operations import shutdowns
from horovod.common.process_sets import registered_set
from horovod.torch import _tensors

needs_two = pytest.mark.skipif("hvd.size() == 1", reason="a lone rank reduces nothing")

KINDS = [
    {},
    {"sharded": True},
    {"gradient_as_bucket_view": True},
    {"groups": 2},
    {"op": hvd.Adasum},
    {"compression": hvd.Compression.fp16},
]


@pytest.fixture(autouse=True)
def new_count() -> None:
    """Optimizers of the tests before have claimed no names any more."""
    hvd.join()


def net(inputs: int = 8) -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).double()


def distributed(model: torch.nn.Module, **options: object) -> torch.optim.Optimizer:
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), **options)


def loss(model: torch.nn.Module, step: int, ranks: list[int]) -> torch.Tensor:
    inputs = next(model.parameters()).shape[1]
    data = [torch.randn(5, inputs, generator=torch.Generator().manual_seed(9 * step + r)).double() for r in ranks]
    return torch.stack([model(x).square().mean() for x in data]).mean()


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def alone(model: torch.nn.Module, steps: range = range(4)) -> torch.Tensor:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in steps:
        optimizer.zero_grad()
        loss(model, step, list(range(hvd.size()))).backward()
        optimizer.step()
    return flat(model)


def begin(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    loss(model, step, [hvd.rank()]).backward()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What travels, in the order of its start."""
    seen: list[str] = []
    submit = _roda.submit

    def note(requests: list, *options: object) -> int:
        seen.extend(request.name for request in requests)
        return submit(requests, *options)

    monkeypatch.setattr(_tensors.operations._roda, "submit", note)
    return seen


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_both_reduce_at_the_same_time(options: dict[str, object]) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two")
    models = net(), net(6), net()
    optimizers = [distributed(model, **options) for model in models]
    for step in range(4):
        for model, optimizer in zip(models, optimizers):
            begin(model, optimizer, step)
        for optimizer in optimizers:
            optimizer.step()
    bound = 1e-3 if "compression" in options else 1e-9
    for model, expected in zip(models, [alone(net()), alone(net(6)), alone(net())]):
        gathered = hvd.allgather(flat(model)[None])
        assert torch.equal(gathered, gathered[:1].expand_as(gathered))
        assert "op" in options or torch.allclose(flat(model), expected, rtol=bound, atol=bound)


@needs_two
def test_the_first_keeps_its_names(names: list[str]) -> None:
    first, second, third = net(), net(), torch.nn.Sequential(*[torch.nn.Identity()] * 9, torch.nn.Linear(8, 4).double())
    for model in (first, second, third):
        optimizer = distributed(model)
        begin(model, optimizer, 0)
        optimizer.step()
    own = {f"allreduce.{name}" for name, _ in first.named_parameters()}
    later = {name.replace("allreduce.", "allreduce.optimizer.2.") for name in own} | {"allreduce.optimizer.2.order"}
    assert set(names[:4]) == own
    assert set(names[4:9]) == later
    assert set(names[9:]) == {"allreduce.9.weight", "allreduce.9.bias"}  # nobody else has these


def test_parameters_that_come_later_and_have_no_name() -> None:
    models = net(), net()
    optimizers = [distributed(model) for model in models]
    more = [torch.nn.Parameter(torch.ones(4, dtype=torch.float64)) for _ in models]
    for optimizer, parameter in zip(optimizers, more):
        optimizer.add_param_group({"params": [parameter]})
    for step in range(3):
        for model, optimizer, parameter in zip(models, optimizers, more):
            optimizer.zero_grad()
            (loss(model, step, [hvd.rank()]) + (hvd.rank() * parameter).sum()).backward()
        for optimizer in optimizers:
            optimizer.step()
    mean = (hvd.size() - 1) / 2
    for parameter in more:
        assert torch.allclose(parameter, torch.full_like(parameter, 1 - 0.1 * 3 * mean))


def test_copies_train_beside_the_original() -> None:
    model = net()
    optimizer = distributed(model)
    begin(model, optimizer, 0)
    optimizer.step()
    copies = [copy.deepcopy((model, optimizer)) for _ in range(2)]
    pairs = [(model, optimizer), *copies]
    for pair in pairs:
        begin(*pair, 1)
    for _, each in pairs:
        each.step()
    expected = alone(net(), range(2))
    for each, _ in pairs:
        assert torch.allclose(flat(each), expected)


@needs_two
def test_a_process_set_counts_for_itself() -> None:
    known = registered_set([0])  # by a group of torch.distributed's, in a test before
    with process_set([0]) if known is None else nullcontext(known) as one:
        if hvd.rank() == 0:
            model = net()
            optimizer = distributed(model, process_set=one)
            begin(model, optimizer, 0)
            optimizer.step()
        model = net()
        optimizer = distributed(model)
        begin(model, optimizer, 0)
        optimizer.step()
    assert torch.allclose(flat(model), alone(net(), range(1)))


def test_a_rank_that_joined_before_it_used_one() -> None:
    models = net(), net()
    optimizers = [distributed(model) for model in models]
    for _ in range(2):
        if hvd.rank() == 0:
            for model, optimizer in zip(models, optimizers):
                begin(model, optimizer, 0)
            for optimizer in optimizers:
                optimizer.step()
        hvd.join()
    for model in models:
        hvd.broadcast_parameters(model.state_dict(), 0)
    before = flat(models[0]).clone()
    for model, optimizer in reversed(list(zip(models, optimizers))):
        begin(model, optimizer, 1)
        optimizer.step()
    assert not torch.equal(before, flat(models[0]))
    assert torch.equal(flat(models[0]), flat(models[1]))


@needs_two
@pytest.mark.parametrize(
    ("differs", "options"),
    [
        ("made", {}),
        ("used", {}),
        ("made", {"sharded": True}),
        ("made", {"op": hvd.Adasum}),
        ("used", {"op": hvd.Adasum}),
    ],
    ids=str,
)
def test_another_order_on_another_rank_is_an_error(differs: str, options: dict[str, object]) -> None:
    if options.get("op") == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two")
    if shutdowns():
        pytest.skip("after another engine ranks may have made different numbers of optimizers: see tests/python/single")
    models = net(), net()
    turned = list(reversed(models)) if hvd.rank() == 1 else models
    by_model = {model: distributed(model, **options) for model in (turned if differs == "made" else models)}
    for model in turned if differs == "used" else models:
        begin(model, by_model[model], 0)
    with pytest.raises(RuntimeError, match="in the same order on all ranks"):
        for model in models:
            by_model[model].step()
    hvd.barrier()  # this rank may know of the error, and end, before another has begun its second model


@needs_two
def test_a_parameter_in_two_optimizers_is_refused() -> None:
    model = net()
    first, second = distributed(model), distributed(model)
    with pytest.raises(ValueError, match="parameter '.*' is in two distributed optimizers"):
        begin(model, first, 0)
    del second
    first.load_state_dict(first.state_dict())
    begin(model, first, 0)
    first.step()


@needs_two
@pytest.mark.parametrize("options", [{}, {"sharded": True}], ids=str)
def test_after_a_new_start_ranks_may_have_made_different_numbers_of_them(options: dict[str, object]) -> None:
    """As after an elastic job's reset: some ranks have trained before, others are new."""
    old = net()
    survivor = distributed(old, **options)
    begin(old, survivor, 0)
    survivor.step()
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    hvd.broadcast_parameters(old.state_dict(), 0)
    models = [old, copy.deepcopy(old)]
    optimizers = [survivor if hvd.rank() == 0 else distributed(old, **options), distributed(models[1], **options)]
    if hvd.rank() > 0:  # the one that it takes the place of
        for hook in survivor._hooks:
            hook.remove()
        survivor._hooks.clear()
    for step in (1, 2):
        for model, optimizer in zip(models, optimizers):
            begin(model, optimizer, step)
        for optimizer in optimizers:
            optimizer.step()
    expected = alone(net(), range(3))
    assert all(torch.allclose(flat(model), expected) for model in models)


def test_one_that_a_rank_alone_makes_and_does_not_use_does_not_count() -> None:
    unused = [distributed(net()) for _ in range(hvd.rank())]  # a copy, or what a checkpoint is looked into with
    model = net()
    optimizer = distributed(model)
    begin(model, optimizer, 0)
    optimizer.step()
    assert torch.allclose(flat(model), alone(net(), range(1)))
    del unused
