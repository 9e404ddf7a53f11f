"""``DistributedOptimizer(sharded=True)``: the same parameters, a part of the state."""

from __future__ import annotations

import copy

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from torch.nn import functional

BATCH = 4


class Net(torch.nn.Module):
    """Parameters of many shapes: strided, without dimensions, of fewer elements than there are ranks, frozen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(2, 5, 3).to(memory_format=torch.channels_last)
        self.linear = torch.nn.Linear(5, 3)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).relu().mean((2, 3))) * self.scale + self.frozen


def joined_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    rows = hvd.size() * BATCH
    return torch.randn(rows, 2, 6, 6, generator=generator), torch.randn(rows, 3, generator=generator)


def own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[hvd.rank() * BATCH : (hvd.rank() + 1) * BATCH]


class Slowing(torch.optim.Optimizer):
    """Counts steps in a tensor of one element, of which a part may have as many."""

    def __init__(self, parameters: object) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self) -> None:
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            step = self.state[parameter].setdefault("step", torch.zeros(1))
            step += 1
            parameter -= 0.1 / step.item() * parameter.grad


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "slowing": Slowing,
}


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range, alone: bool = False) -> None:
    for step in steps:
        x, y = joined_batch(step)
        optimizer.zero_grad()
        functional.mse_loss(*((model(x), y) if alone else (model(own(x)), own(y)))).backward()
        optimizer.step()


def sharded(model: torch.nn.Module, kind: str, **options: object) -> torch.optim.Optimizer:
    return hvd.DistributedOptimizer(
        OPTIMIZERS[kind](model.parameters()), model.named_parameters(), sharded=True, **options
    )


def assert_same(a: torch.nn.Module, b: torch.nn.Module, tolerance: float = 2e-5) -> None:
    for (name, p), q in zip(a.named_parameters(), b.parameters()):
        assert torch.allclose(p, q, rtol=tolerance, atol=tolerance), name


def trained_alone(kind: str, steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = Net()
    optimizer = OPTIMIZERS[kind](model.parameters())
    train(model, optimizer, range(steps), alone=True)
    return model, optimizer


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_equals_one_process(kind: str) -> None:
    model = Net()
    optimizer = sharded(model, kind)
    assert isinstance(optimizer, type(OPTIMIZERS[kind]([torch.nn.Parameter(torch.ones(1))])))
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    train(model, optimizer, range(4))
    assert_same(model, trained_alone(kind, 4)[0])


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_predivide_factor": 3.0},
        {"op": hvd.Sum},
        {"compression": hvd.Compression.bf16},
        {"compression": hvd.Compression.fp16},
    ],
    ids=["predivide", "sum", "bf16", "fp16"],
)
def test_options(options: dict[str, object]) -> None:
    pairs = []
    for use_shards in (False, True):
        model = Net()
        optimizer = hvd.DistributedOptimizer(
            OPTIMIZERS["momentum"](model.parameters()), model.named_parameters(), sharded=use_shards, **options
        )
        train(model, optimizer, range(3))
        pairs.append(model)
    assert_same(*pairs, 2e-2 if "compression" in options else 2e-5)


def test_state_is_shared_out() -> None:
    model = Net()
    optimizer = sharded(model, "adam")
    train(model, optimizer, range(1))
    kept = sum(v.numel() for s in optimizer.state.values() for v in s.values() if v.dim() > 0)
    trained = [p for p in model.parameters() if p.requires_grad]
    whole = 3 * sum(p.numel() for p in trained)  # two moments and the greatest second one
    assert hvd.allreduce(torch.tensor(kept), op=hvd.Sum).item() == whole
    assert kept <= whole // hvd.size() + 3 * len(trained)


@pytest.mark.parametrize("kind", ["momentum", "adam", "nadam", "slowing"])
def test_checkpoints(kind: str) -> None:
    steps, more = 3, 2
    expected, plain = trained_alone(kind, steps)
    model = Net()
    optimizer = sharded(model, kind)
    train(model, optimizer, range(steps))
    own_state, whole_state = copy.deepcopy(optimizer.state_dict()), optimizer.full_state_dict()
    weights = copy.deepcopy(model.state_dict())
    for index, entries in plain.state_dict()["state"].items():
        for key, value in entries.items():
            got = whole_state["state"][index][key]
            assert got.shape == value.shape, key
            assert torch.allclose(got, value, rtol=1e-4, atol=1e-5), key
    train(expected, plain, range(steps, steps + more), alone=True)
    for saved in (own_state, whole_state):
        resumed = Net()
        optimizer = sharded(resumed, kind)
        resumed.load_state_dict(weights)
        optimizer.load_state_dict(copy.deepcopy(saved))  # optimizers adopt the tensors
        train(resumed, optimizer, range(steps, steps + more))
        assert_same(resumed, expected, 1e-4)
    # The whole state also goes on unsharded, and is cut when an optimizer that has loaded it is wrapped.
    for use_shards in (False, True):
        resumed = Net()
        resumed.load_state_dict(weights)
        inner = OPTIMIZERS[kind](resumed.parameters())
        inner.load_state_dict(copy.deepcopy(whole_state))
        optimizer = hvd.DistributedOptimizer(inner, resumed.named_parameters(), sharded=use_shards)
        train(resumed, optimizer, range(steps, steps + more))
        assert_same(resumed, expected, 1e-4)


def test_state_that_only_the_root_has_cannot_be_broadcast() -> None:
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    model = Net()
    inner = OPTIMIZERS["momentum"](model.parameters())
    if hvd.rank() == 0:
        train(model, inner, range(1), alone=True)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), sharded=True)
    with pytest.raises(ValueError, match="load the full_state_dict"):
        hvd.broadcast_optimizer_state(optimizer, 0)


def test_options_are_broadcast() -> None:
    model = Net()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0 + hvd.rank()), sharded=True)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0]["lr"] == 1.0
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    train(model, optimizer, range(1))
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_clipping() -> None:
    alone, model = Net(), Net()
    plain, optimizer = OPTIMIZERS["sgd"](alone.parameters()), sharded(model, "sgd")
    for step in range(3):
        x, y = joined_batch(step)
        plain.zero_grad()
        functional.mse_loss(alone(x), y).backward()
        norm = torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
        plain.step()
        optimizer.zero_grad()
        functional.mse_loss(model(own(x)), own(y)).backward()
        assert torch.allclose(optimizer.clip_grad_norm_(0.1), norm, rtol=1e-4)
        optimizer.step()
    assert_same(model, alone)
    with pytest.raises(AssertionError, match="optimizer.clip_grad_norm_"), optimizer.skip_synchronize():
        pass


def test_backward_passes_per_step_and_too_many() -> None:
    model = Net()
    optimizer = sharded(model, "sgd", backward_passes_per_step=2)
    x, y = joined_batch(0)
    optimizer.zero_grad()
    for half in (slice(0, BATCH // 2), slice(BATCH // 2, BATCH)):
        (functional.mse_loss(model(own(x)[half]), own(y)[half]) / 2).backward()
    optimizer.step()
    assert_same(model, trained_alone("sgd", 1)[0])
    if hvd.size() > 1:
        for _ in range(2):
            model(own(x)).sum().backward()
        with pytest.raises(AssertionError, match=r"zero_grad.*requires_grad_\(False\)"):
            optimizer.zero_grad()
        with pytest.raises(AssertionError, match=r"more than backward_passes_per_step.*requires_grad_\(False\)"):
            model(own(x)).sum().backward()
        optimizer.step()


def test_parameters_that_moved_or_got_no_gradient() -> None:
    model = Net()
    optimizer = sharded(model, "sgd")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
    x, y = joined_batch(0)
    functional.mse_loss(model(own(x)), own(y)).backward()
    optimizer.step()
    assert_same(model, trained_alone("sgd", 1)[0])
    if hvd.rank() == 0:
        model.linear(torch.ones(1, 5)).sum().backward()  # nothing for the others
    optimizer.step()
    everywhere = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert all(values == everywhere[0] for values in everywhere)


@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients(as_dense: bool) -> None:
    if hvd.size() < 2:
        pytest.skip("nothing is reduced on a lone rank")
    table = torch.nn.Embedding(7, 2, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), sharded=True, sparse_as_dense=as_dense
    )
    loss = table(torch.tensor([0, 3])).sum()
    if not as_dense:
        with pytest.raises(ValueError, match="sparse_as_dense"):
            loss.backward()
        return
    loss.backward()
    optimizer.step()
    assert table.weight[:, 0].tolist() == [-1.0, 0, 0, -1.0, 0, 0, 0]


def test_in_a_process_set() -> None:
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    with process_set([0, 2]) as pair:
        model = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), process_set=pair, sharded=True
        )
        model(torch.full((1, 3), float(hvd.rank()))).sum().backward()
        optimizer.step()
        assert model.weight.tolist() == [[-1.0 if pair.included() else -float(hvd.rank())] * 3]
        assert optimizer.full_state_dict()["param_groups"]
        hvd.barrier()


def test_what_cannot_be() -> None:
    model = Net()

    def wrapped(optimizer: torch.optim.Optimizer | None = None, **options: object) -> None:
        hvd.DistributedOptimizer(optimizer or OPTIMIZERS["sgd"](model.parameters()), sharded=True, **options)

    with pytest.raises(ValueError, match="op=Average or op=Sum"):
        wrapped(op=hvd.Adasum)
    with pytest.raises(ValueError, match="takes no groups"):
        wrapped(groups=2)
    with pytest.raises(ValueError, match="LBFGS looks at whole parameters"):
        wrapped(torch.optim.LBFGS(model.parameters()))
    with pytest.raises(ValueError, match="without gaps"):
        wrapped(torch.optim.SGD([torch.nn.Parameter(torch.ones(4, 4)[:, :2])], lr=1.0))
    optimizer = sharded(model, "sgd")
    with pytest.raises(NotImplementedError):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})


def test_a_grad_scaler_is_refused_on_every_rank() -> None:
    model = Net()
    optimizer = sharded(model, "sgd")
    scaler = torch.amp.GradScaler("cpu")
    inputs, targets = joined_batch(0)
    scaler.scale(functional.mse_loss(model(own(inputs)), own(targets))).backward()
    with pytest.raises(RuntimeError, match="GradScaler"):
        scaler.step(optimizer)
    optimizer.synchronize()
