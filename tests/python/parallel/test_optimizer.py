from __future__ import annotations

from typing import Any

import cloudpickle
import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod.torch.optimizer import _DistributedAdasumOptimizer, _DistributedOptimizer  # as Ludwig and others do
from torch.nn import functional

BATCH = 4


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8), torch.nn.Linear(8, 2)
    ).double()


def data(step: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(size * BATCH, 6, generator=generator, dtype=torch.float64)
    return x, torch.randn(size * BATCH, 2, generator=generator, dtype=torch.float64)


def own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[hvd.rank() * BATCH : (hvd.rank() + 1) * BATCH]


def optimizer_for(model: torch.nn.Module, kind: str) -> torch.optim.Optimizer:
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def parameters_equal(a: torch.nn.Module, b: torch.nn.Module, tolerance: float = 1e-9) -> bool:
    return all(torch.allclose(p, q, rtol=tolerance, atol=tolerance) for p, q in zip(a.parameters(), b.parameters()))


def train_alone(kind: str, steps: int = 5) -> torch.nn.Module:
    model = make_model()
    optimizer = optimizer_for(model, kind)
    for step in range(steps):
        x, y = data(step, hvd.size())
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


VARIANTS = {
    "plain": {},
    "groups": {"groups": 2},
    "num_groups": {"num_groups": 3},
    "more groups than parameters": {"groups": 50},
    "predivide": {"gradient_predivide_factor": 4.0},
    "predivide with groups": {"gradient_predivide_factor": 4.0, "groups": 2},
}


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("named", [True, False])
def test_equals_training_on_one_process(kind: str, variant: str, named: bool) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        optimizer_for(model, kind), model.named_parameters() if named else None, **VARIANTS[variant]
    )
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    for step in range(5):
        x, y = data(step, hvd.size())
        optimizer.zero_grad()
        functional.mse_loss(model(own(x)), own(y)).backward()
        optimizer.step()
    assert parameters_equal(model, train_alone(kind))


def test_explicit_groups_and_the_rest() -> None:
    model = make_model()
    parameters = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(
        optimizer_for(model, "sgd"), model.named_parameters(), groups=[parameters[:2], [parameters[4]]]
    )
    for step in range(5):
        x, y = data(step, hvd.size())
        optimizer.zero_grad()
        functional.mse_loss(model(own(x)), own(y)).backward()
        optimizer.step()
    assert parameters_equal(model, train_alone("sgd"))


def test_backward_passes_per_step() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        optimizer_for(model, "sgd"), model.named_parameters(), backward_passes_per_step=2, op=hvd.Sum
    )
    for step in range(3):
        x, y = data(step, hvd.size())
        optimizer.zero_grad()
        for half in (slice(0, BATCH // 2), slice(BATCH // 2, BATCH)):
            functional.mse_loss(model(own(x)[half]), own(y)[half], reduction="sum").backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
        optimizer.synchronize()
        for parameter in model.parameters():
            parameter.grad /= x.shape[0] * 2  # what the mean over batch and outputs divides by
        with optimizer.skip_synchronize():
            optimizer.step()
    assert parameters_equal(model, train_alone("sgd", 3))


def test_too_many_backward_passes() -> None:
    if hvd.size() == 1:
        pytest.skip("no hooks on a lone rank")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(optimizer_for(model, "sgd"), model.named_parameters())
    x, _ = data(0, hvd.size())
    model(own(x)).sum().backward()
    with pytest.raises(AssertionError, match=r"more than backward_passes_per_step.*requires_grad_\(False\)"):
        model(own(x)).sum().backward()
    optimizer.synchronize()


def test_synchronize_to_clip_and_the_warning() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(optimizer_for(model, "sgd"), model.named_parameters())
    x, y = data(0, hvd.size())
    functional.mse_loss(model(own(x)), own(y)).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    clipped = [p.grad.clone() for p in model.parameters()]
    with optimizer.skip_synchronize():
        optimizer.step()
    assert all(torch.equal(p.grad, c) for p, c in zip(model.parameters(), clipped))
    optimizer.zero_grad()
    functional.mse_loss(model(own(x)), own(y)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) called without optimizer.skip_synchronize\(\)"):
        optimizer.step()


def test_zero_grad_between_backward_and_step() -> None:
    if hvd.size() == 1:
        pytest.skip("no hooks on a lone rank")
    model = make_model()
    optimizer = hvd.DistributedOptimizer(optimizer_for(model, "sgd"), model.named_parameters())
    x, _ = data(0, hvd.size())
    model(own(x)).sum().backward()
    with pytest.raises(AssertionError, match=r"optimizer.zero_grad\(\) was called after loss.backward\(\)"):
        optimizer.zero_grad()
    optimizer.step()


def test_parameters_that_only_some_ranks_use() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)])
    for layer in model:
        torch.nn.init.ones_(layer.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    used = model[hvd.rank() % 2]
    used(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    size = hvd.size()
    shares = [(size + 1) // 2 / size, size // 2 / size]
    for layer, fraction in zip(model, shares):
        assert torch.allclose(layer.weight, torch.full((2, 2), 1.0 - fraction))


@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_sparse_gradients(sparse_as_dense: bool) -> None:
    rank, size = hvd.rank(), hvd.size()
    table = torch.nn.Embedding(size + 1, 2, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), sparse_as_dense=sparse_as_dense
    )
    table(torch.tensor([0, rank + 1])).sum().backward()
    optimizer.step()
    assert torch.allclose(table.weight, torch.tensor([[-1.0] * 2] + [[-1.0 / size] * 2] * size))


def test_compression_and_channels_last() -> None:
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), compression=hvd.Compression.fp16
    )
    start = model.weight.detach().clone()
    x = torch.full((2, 3, 5, 5), float(hvd.rank() + 1)).to(memory_format=torch.channels_last)
    model(x).sum().backward()
    optimizer.step()
    mean = (hvd.size() + 1) / 2
    assert torch.allclose(start - model.weight, torch.full_like(start, 18.0 * mean), rtol=1e-3)


@pytest.mark.parametrize("options", [{}, {"op": hvd.Adasum}, {"sharded": True}], ids=["plain", "adasum", "sharded"])
def test_programs_can_tell_that_it_is_distributed(options: dict[str, Any]) -> None:
    """By the ways that they know: the type's module or text, and Horovod's private method."""
    if "op" in options and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two")
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
    assert type(optimizer).__module__.startswith("horovod")
    assert "horovod" in str(type(optimizer))
    assert hasattr(optimizer, "_allreduce_grad_async")
    assert not hasattr(inner, "_allreduce_grad_async")
    if "sharded" not in options:
        is_adasum = "op" in options and hvd.size() > 1
        assert isinstance(optimizer, _DistributedAdasumOptimizer if is_adasum else _DistributedOptimizer)
    assert isinstance(optimizer, torch.optim.SGD)
    assert repr(optimizer).startswith("SGD (")
    copied = cloudpickle.loads(cloudpickle.dumps(optimizer))
    assert isinstance(copied, torch.optim.SGD)
    assert copied.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("source", ["Horovod's class", "an optimizer's class", "a reduction of their own", "Adasum's"])
def test_programs_make_classes_of_its_methods(source: str) -> None:
    """As Horovod's own function does: ``type(name, (the wrapped class,), dict(the methods))``."""
    op = hvd.Adasum if source == "Adasum's" and hvd.size() > 1 else hvd.Average
    if op == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two")
    models = [make_model(), make_model()]
    inner, ours = (optimizer_for(model, "sgd") for model in models)
    ours = hvd.DistributedOptimizer(ours, models[1].named_parameters(), op=op)
    copied = {"an optimizer's class": type(ours), "Adasum's": _DistributedAdasumOptimizer}
    members = dict(copied.get(source, _DistributedOptimizer).__dict__)
    reduced = []

    def reduce_themselves(self: Any, parameter: torch.Tensor) -> tuple[int, Any]:
        reduced.append(parameter)
        tensor, context = self._compression.compress(parameter.grad)
        return hvd.allreduce_async_(tensor, name=self._parameter_names[parameter], op=self.op), context

    if source == "a reduction of their own":
        members["_allreduce_grad_async"] = reduce_themselves
    made = type("SGD", (torch.optim.SGD,), members)(
        inner.param_groups, models[0].named_parameters(), hvd.Compression.none
    )
    for step in range(3):
        for model, optimizer in zip(models, (made, ours)):
            x, y = data(step, hvd.size())
            optimizer.zero_grad()
            functional.mse_loss(model(own(x)), own(y)).backward()
            optimizer.step()
    assert parameters_equal(*models)
    assert bool(reduced) == (source == "a reduction of their own" and hvd.size() > 1)


def test_it_is_an_optimizer_of_the_same_class() -> None:
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    assert type(optimizer).__name__ == "SGD"
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    optimizer.zero_grad(set_to_none=True)
    model(torch.ones(1, 6, dtype=torch.float64)).sum().backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    restored = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    restored.load_state_dict(optimizer.state_dict())
    assert restored.param_groups[0]["lr"] == 0.05


def test_closure() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    x, y = data(0, hvd.size())

    def closure() -> torch.Tensor:
        return functional.mse_loss(model(own(x)), own(y))

    closure().backward()
    assert optimizer.step(closure) is not None


def test_in_a_process_set() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    with process_set([0]) as first:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), process_set=first
        )
        model(torch.full((1, 1), float(hvd.rank() + 1))).sum().backward()
        optimizer.step()
        assert model.weight.item() == -(hvd.rank() + 1)
        hvd.barrier()


def test_arguments() -> None:
    model = make_model()

    def wrapped(**options: object) -> None:
        named = options.pop("named", model.named_parameters())
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named, **options)

    cases = [
        ({"backward_passes_per_step": 0}, "backward_passes_per_step must be > 0"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "gradient_predivide_factor not supported"),
        ({"named": [p for _, p in model.named_parameters()]}, "named_parameters should be a sequence of tuples"),
        ({"named": [("same", p) for p in model.parameters()]}, "Parameter names in named_parameters must be unique."),
        ({"named": list(model.named_parameters())[:-1]}, "one or more model parameters were not named"),
        ({"groups": -1}, "groups should be a non-negative integer"),
        ({"groups": "two"}, "groups should be a non-negative integer"),
        ({"groups": [1, 2]}, "groups must consist of torch.Tensor."),
        ({"groups": list(model.parameters())}, "groups must consist of torch.Tensor."),
        ({"groups": [["a"]]}, "groups must consist of torch.Tensor."),
        ({"groups": [list(model.parameters())] * 2}, "A parameter can only appear once in groups."),
    ]
    for options, text in cases:
        with pytest.raises(ValueError, match=text):
            wrapped(**options)
