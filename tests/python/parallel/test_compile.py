"""``torch.compile`` of models, training steps and optimizers' steps, beside the same training on one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import horovod.torch as hvd
import pytest
import torch
from common import process_set

pytestmark = pytest.mark.skipif("hvd.size() != 2", reason="what is compiled is the same for any number of ranks")

ROWS = 4
MOMENTUM = 0.0 if torch.__version__.startswith("2.2.") else 0.9  # torch 2.2 fails to trace its own SGD's momentum
OPTIONS = {
    "plain": {},
    "buckets": {"gradient_as_bucket_view": True},
    "sharded": {"sharded": True},
    "accumulation": {"backward_passes_per_step": 2},
}


@pytest.fixture(autouse=True)
def nothing_compiled_yet() -> Iterator[None]:
    """Each test compiles for itself."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(torch.nn.Module):
    """Nine parameters; two layers share a weight, and one runs twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.twice, self.last = (torch.nn.Linear(6, 6) for _ in range(3))
        self.tied = torch.nn.Linear(6, 6)
        self.tied.weight = self.first.weight
        self.scale, self.shift = torch.nn.Parameter(torch.ones(6)), torch.nn.Parameter(torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.twice(torch.tanh(self.twice(self.first(x))))
        return self.last(torch.tanh(self.tied(x * self.scale + self.shift)))


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(50 * step + rank))


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=MOMENTUM)


def alone(passes: int = 1, clip: float | None = None, steps: int = 4, make: type[torch.nn.Module] = Net) -> list:
    model = make()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        for each in range(passes):
            batches = [batch(step * passes + each, rank) for rank in range(hvd.size())]
            torch.stack([model(x).square().mean() for x in batches]).mean().backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def check(model: torch.nn.Module, expected: list[torch.Tensor]) -> None:
    for parameter, right in zip(model.parameters(), expected):
        assert torch.allclose(parameter, right, rtol=1e-5, atol=1e-6)


def train(compiled: str, backend: str, options: dict, steps: int = 4) -> torch.nn.Module:
    model = Net()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
    passes = options.get("backward_passes_per_step", 1)
    forward, step_all, step_optimizer = model, None, optimizer.step

    def whole(batches: list[torch.Tensor]) -> None:
        optimizer.zero_grad()
        for x in batches:
            forward(x).square().mean().backward()
        step_optimizer()

    step_all = torch.compile(whole, backend=backend) if compiled == "whole step" else whole
    if compiled == "model":
        forward = torch.compile(model, backend=backend)
    elif compiled == "optimizer.step":
        step_optimizer = torch.compile(optimizer.step, backend=backend)
    for step in range(steps):
        step_all([batch(step * passes + each, hvd.rank()) for each in range(passes)])
    return model


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("compiled", "backend"), [("model", "aot_eager"), ("whole step", "eager"), ("optimizer.step", "eager")]
)
def test_trains_as_one_process(compiled: str, backend: str, options: str) -> None:
    passes = OPTIONS[options].get("backward_passes_per_step", 1)
    check(train(compiled, backend, OPTIONS[options]), alone(passes))


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler for Inductor")
def test_with_inductor() -> None:
    model = torch.nn.Linear(3, 2)
    hvd.broadcast_parameters(model.state_dict(), 0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())

    @torch.compile
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        (model(x) * hvd.allreduce(x.sum())).sum().backward()
        optimizer.step()

    x = torch.full((1, 3), hvd.rank() + 1.0)
    mean = (hvd.size() + 1) / 2
    for number in (1, 2):
        step(x)
        for parameter, begun, factor in zip(model.parameters(), before, (mean, 1)):
            assert torch.allclose(parameter, begun - number * 0.1 * 3 * mean * factor)


def counted(graphs: list[str]) -> Callable[..., Callable[..., object]]:
    """A backend that notes what it is to compile."""

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph.code)
        return graph.forward

    return backend


@pytest.mark.parametrize("options", ["plain", "sharded"])
def test_what_the_wrapped_optimizer_computes_is_still_compiled(options: str) -> None:
    graphs: list[str] = []
    model = train("optimizer.step", counted(graphs), OPTIONS[options])
    check(model, alone())
    assert any("add_" in graph or "lerp" in graph for graph in graphs), graphs


def test_clipping_between_synchronize_and_step() -> None:
    model = Net()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()

    for number in range(4):
        step(batch(number, hvd.rank()))
    check(model, alone(clip=0.01))


def test_a_grad_scaler() -> None:
    model = Net()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0) if hasattr(torch.amp, "GradScaler") else None
    if scaler is None:
        pytest.skip("this torch has none for CPUs")
    optimizer.step = torch.compile(optimizer.step, backend="eager")
    for step in range(4):
        optimizer.zero_grad()
        scaler.scale(compiled(batch(step, hvd.rank())).square().mean()).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    check(model, alone())


def test_two_optimizers_in_one_step() -> None:
    models = Net(), Net()
    optimizers = [hvd.DistributedOptimizer(sgd(model), model.named_parameters()) for model in models]

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> None:
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            model(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()

    for number in range(4):
        step(batch(number, hvd.rank()))
    for model in models:
        check(model, alone())


def test_synchronised_batch_norm_and_what_is_broadcast() -> None:
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), hvd.SyncBatchNorm(5), torch.nn.Linear(5, 2))
    hvd.broadcast_parameters(torch.compile(model, backend="eager").state_dict(), 0)
    other = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    other.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Sum)
    joined = torch.cat([batch(0, rank) for rank in range(hvd.size())])
    torch.compile(model, backend="aot_eager")(batch(0, hvd.rank())).square().sum().backward()
    optimizer.step()
    plain = sgd(other)
    other(joined).square().sum().backward()
    plain.step()
    check(model, list(other.parameters()))


def calls() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """All of these come to the mean over the ranks."""
    size = hvd.size()
    return {
        "allreduce": lambda x: hvd.allreduce(x),
        "named": lambda x: hvd.allreduce(x, name="compiled", op=hvd.Sum) / size,
        "compressed": lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16),
        "in place": lambda x: hvd.allreduce_(x.clone()),
        "asynchronous": lambda x: hvd.synchronize(hvd.allreduce_async(x)),
        "grouped": lambda x: hvd.grouped_allreduce([x, x + 1])[1] - 1,
        "allgather": lambda x: hvd.allgather(x[None]).mean(0),
        "broadcast": lambda x: hvd.broadcast(hvd.allreduce(x), 0),
        "alltoall": lambda x: hvd.alltoall(x[None].repeat(size, 1)).mean(0),
        "reducescatter": lambda x: hvd.allgather(hvd.reducescatter(x)),
    }


def test_collectives_in_a_compiled_function() -> None:
    inputs = [torch.arange(8.0) * (rank + 1) for rank in range(hvd.size())]
    mean = torch.stack(inputs).mean(0)
    for name, call in calls().items():
        compiled = torch.compile(lambda x, call=call: call(x * 2).add(1), backend="eager")
        for _ in range(2):
            assert torch.allclose(compiled(inputs[hvd.rank()]), mean * 2 + 1), name


def test_a_process_set_in_a_compiled_function() -> None:
    if hvd.size() == 1:
        pytest.skip("the set of rank 0 is the global one")
    with process_set([0]) as one:

        @torch.compile(backend="eager")
        def sum_of(x: torch.Tensor) -> torch.Tensor:
            return hvd.allreduce(x + 1, op=hvd.Sum, process_set=one) + 1 if one.included() else x

        assert sum_of(torch.ones(2)).tolist() == ([3.0, 3.0] if hvd.rank() == 0 else [1.0, 1.0])


def test_gradients_through_a_compiled_collective() -> None:
    @torch.compile(backend="aot_eager")
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (hvd.allreduce(x * 3, op=hvd.Sum) * x.detach()).sum()

    x = torch.full((2,), float(hvd.rank() + 1), requires_grad=True)
    loss(x).backward()
    total = hvd.size() * (hvd.size() + 1) / 2
    assert x.grad.tolist() == [3 * total] * 2
