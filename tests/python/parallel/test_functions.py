"""Objects, parameters, optimizer state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import horovod.torch as hvd
import pytest
import torch


def make_model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def train_a_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 6)).sum().backward()
    optimizer.step()


def same_everywhere(value: object) -> bool:
    values = hvd.allgather_object(value, name="same everywhere")
    return all(other == values[0] for other in values)


def test_broadcast_object_from_every_root() -> None:
    for root in range(hvd.size()):
        mine = {"rank": hvd.rank(), "list": [1, (2, None)], "text": "ä" * hvd.rank()}
        result = hvd.broadcast_object(mine, root)
        assert result["rank"] == root
        assert result["text"] == "ä" * root
        assert (result is mine) == (root == hvd.rank())


def test_objects_without_names_may_be_of_different_types() -> None:
    assert hvd.broadcast_object({"epoch": 3} if hvd.rank() == 0 else None) == {"epoch": 3}
    assert hvd.allgather_object(None if hvd.rank() else "root") == ["root"] + [None] * (hvd.size() - 1)


def test_allgather_object_is_ordered_by_rank() -> None:
    results = hvd.allgather_object({"rank": hvd.rank(), "data": "x" * (100 * hvd.rank())})
    assert [r["rank"] for r in results] == list(range(hvd.size()))
    assert [len(r["data"]) for r in results] == [100 * r for r in range(hvd.size())]


def test_an_object_that_cannot_be_pickled_is_an_error_on_all_ranks() -> None:
    last = hvd.size() - 1
    mine = (i for i in range(3)) if hvd.rank() == last else 5
    for call in (
        lambda: hvd.broadcast_object(mine, last, name="unpicklable"),
        lambda: hvd.allgather_object(mine, name="unpicklable"),
    ):
        with pytest.raises(ValueError, match=rf"The object of rank {last} cannot be pickled: .*generator"):
            call()
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def test_broadcast_parameters_of_a_model() -> None:
    model = make_model(hvd.rank())
    hvd.broadcast_parameters(model.state_dict(), 0)
    expected = make_model(0).state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in model.state_dict().items())
    other = make_model(hvd.rank())
    hvd.broadcast_parameters(list(other.named_parameters()), root_rank=hvd.size() - 1)
    expected = dict(make_model(hvd.size() - 1).named_parameters())
    assert all(torch.equal(value, expected[key]) for key, value in other.named_parameters())


def test_broadcast_parameters_that_are_strided() -> None:
    base = torch.full((4, 4), float(hvd.rank()))
    hvd.broadcast_parameters({"view": base.t(), "column": base[:, 1], "not a tensor": 3}, 0)
    assert base.tolist() == [[0.0] * 4] * 4


def test_broadcast_parameters_refuses_what_holds_no_parameters() -> None:
    model = make_model(0)
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(model.named_parameters(), 0)
    with pytest.raises(ValueError, match="call broadcast_optimizer_state"):
        hvd.broadcast_parameters(torch.optim.SGD(model.parameters(), lr=0.1).state_dict(), 0)


OPTIMIZERS = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr, betas=(0.5 + lr, 0.9), amsgrad=True),
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr=lr),
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr=lr, centered=True),
    "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr=lr),
    "adadelta": lambda p, lr: torch.optim.Adadelta(p, lr=lr),
}


def flat_state(optimizer: torch.optim.Optimizer) -> list[object]:
    values: list[object] = []
    for index, entries in sorted(optimizer.state_dict()["state"].items()):
        for key, value in sorted(entries.items()):
            values.append((index, key, value.tolist() if isinstance(value, torch.Tensor) else value))
    return values


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("who_has_state", ["all", "root", "none"])
def test_optimizer_state(kind: str, who_has_state: str) -> None:
    rank = hvd.rank()
    model = make_model(0)
    optimizer = OPTIMIZERS[kind](model.parameters(), 0.01 * (rank + 1))
    torch.manual_seed(rank)
    steps = {"all": rank + 2, "root": 2 if rank == 0 else 0, "none": 0}[who_has_state]
    for _ in range(steps):
        train_a_step(model, optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    root_state = flat_state(optimizer)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    assert optimizer.param_groups[0]["lr"] == 0.01
    if kind == "adam":
        assert optimizer.param_groups[0]["betas"] == (0.51, 0.9)
        assert optimizer.param_groups[0]["amsgrad"] is True
    assert same_everywhere(flat_state(optimizer))
    if rank == 0 and who_has_state != "none":
        assert flat_state(optimizer) == root_state
    hvd.broadcast_parameters(model.state_dict(), 0)
    torch.manual_seed(3)
    train_a_step(model, optimizer)
    assert same_everywhere([p.tolist() for p in model.parameters()])


TRAINED: dict[str, Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, dampening=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.1),
}


def assert_trained_alike(
    expected: tuple[torch.nn.Module, torch.optim.Optimizer], actual: tuple[torch.nn.Module, torch.optim.Optimizer]
) -> None:
    for step in range(3):
        for model, optimizer in (expected, actual):
            torch.manual_seed(step)
            train_a_step(model, optimizer)
        for a, b in zip(expected[0].parameters(), actual[0].parameters()):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), f"parameters differ after step {step}"
    entries = [flat_state(optimizer) for _, optimizer in (expected, actual)]
    assert [entry[:2] for entry in entries[0]] == [entry[:2] for entry in entries[1]]
    for a, b in zip(*entries):
        assert torch.allclose(torch.tensor(a[2]), torch.tensor(b[2]), rtol=1e-5, atol=1e-6), a[:2]


@pytest.mark.parametrize("kind", TRAINED)
def test_fresh_optimizers_train_as_plain_torch_after_the_broadcast(kind: str) -> None:
    pairs = []
    for _ in range(2):
        model = make_model(0)
        pairs.append((model, TRAINED[kind](model.parameters())))
    before = flat_state(pairs[1][1])
    hvd.broadcast_optimizer_state(pairs[1][1], 0)
    assert flat_state(pairs[1][1]) == before
    assert_trained_alike(*pairs)


@pytest.mark.parametrize("kind", TRAINED)
def test_fresh_optimizers_go_on_where_the_root_is(kind: str) -> None:
    root = hvd.size() - 1
    pairs = []
    for trained in (True, hvd.rank() == root):
        model = make_model(0)
        optimizer = TRAINED[kind](model.parameters())
        for step in range(2 if trained else 0):
            torch.manual_seed(100 + step)
            train_a_step(model, optimizer)
        pairs.append((model, optimizer))
    model, optimizer = pairs[1]
    hvd.broadcast_parameters(model.state_dict(), root)
    hvd.broadcast_optimizer_state(optimizer, root)
    assert_trained_alike(*pairs)


def test_nothing_is_stepped_for_the_broadcast() -> None:
    class Counted(torch.optim.SGD):
        steps = 0

        def step(self, *args: object, **kwargs: object) -> object:
            self.steps += 1
            return super().step(*args, **kwargs)

    model = make_model(0)
    optimizer = Counted(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    counted, before = scheduler.state_dict(), [p.detach().clone() for p in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.steps == 0
    assert not optimizer.state
    assert scheduler.state_dict() == counted
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))


def test_state_that_the_root_has_not_goes() -> None:
    model = make_model(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if hvd.rank() != 0:
        train_a_step(model, optimizer)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert not optimizer.state


def test_frozen_parameters_and_lbfgs() -> None:
    frozen, free = torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([frozen, free], lr=0.1, momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert frozen.grad is None
    assert free.grad is not None
    with pytest.raises(ValueError, match="cannot broadcast torch.optim.LBFGS state"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS([free]), 0)


def test_sparse_adam() -> None:
    table = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, 0, model=table)
    assert same_everywhere(flat_state(optimizer))
