"""Gradients in buckets: ``DistributedOptimizer(gradient_as_bucket_view=True)``."""

from __future__ import annotations

import copy
import os
import warnings

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod import _roda
from torch.utils.dlpack import from_dlpack

needs_two = pytest.mark.skipif("hvd.size() < 2", reason="gradients of a lone rank stay where they are")


class Model(torch.nn.Module):
    """Two dtypes, memory formats, one tensor that has a bucket of its own, and layers that may go unused."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(2, 8, 3).to(memory_format=torch.channels_last)
        self.wide = torch.nn.Linear(8 * 9, 400)
        self.large = torch.nn.Parameter(torch.randn(400, 11_000) / 100)
        self.short = torch.nn.Linear(400, 3).to(torch.bfloat16)
        self.rest = torch.nn.ModuleList(torch.nn.Linear(400, 3) for _ in range(2))

    def forward(self, x: torch.Tensor, which: int) -> torch.Tensor:
        x = self.wide(self.convolution(x).flatten(1))
        y = (x @ self.large).mean() + self.rest[which](x).sum()
        return y + self.short(x.to(torch.bfloat16)).float().pow(2).sum()


def equal(a: Model, b: Model) -> bool:
    """Tell whether parameters are alike: to the bit where the order of the summands can't differ."""
    is_exact = hvd.size() <= 2 or os.environ.get("RODA_DETERMINISTIC") == "1"
    pairs = zip(a.parameters(), b.parameters())
    return all(torch.equal(p, q) if is_exact else torch.allclose(p, q, rtol=1e-2, atol=1e-4) for p, q in pairs)


def clipped(optimizer: torch.optim.Optimizer, model: Model) -> None:
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()


def scaled(optimizer: torch.optim.Optimizer, model: Model) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.ones(()))
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()


def train(
    in_buckets: bool, options: dict[str, object], set_to_none: bool, step_by: object, after: object = None
) -> Model:
    model = Model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        model.named_parameters(),
        gradient_as_bucket_view=in_buckets,
        **options,
    )
    model.wide.weight.register_hook(lambda gradient: gradient * 2)
    for step in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        generator = torch.Generator().manual_seed(step * 100 + hvd.rank())
        for _ in range(options.get("backward_passes_per_step", 1)):
            model(torch.randn(2, 2, 5, 5, generator=generator), (step + hvd.rank()) % 2).backward()
        step_by(optimizer, model)
        if after is not None:
            after(model)
    return model


@pytest.mark.parametrize(
    ("options", "set_to_none", "step_by"),
    [
        ({}, True, lambda optimizer, _: optimizer.step()),
        ({"backward_passes_per_step": 2, "op": hvd.Sum}, False, clipped),
        ({"gradient_predivide_factor": 2.0}, True, scaled),
    ],
    ids=["plain", "accumulated and clipped", "predivided and scaled"],
)
def test_results_are_those_of_single_gradients(options: dict[str, object], set_to_none: bool, step_by: object) -> None:
    models = [train(in_buckets, options, set_to_none, step_by) for in_buckets in (False, True)]
    assert equal(*models)


def converted_and_back(model: Model) -> None:
    for layer in (model.convolution, model.wide):
        layer.double().float()


def gradients_with_other_memory(model: Model) -> None:
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data.clone()


def other_memory_format(model: Model) -> None:
    model.convolution.to(memory_format=torch.contiguous_format)


def other_memory_format_of_the_parameter_alone(model: Model) -> None:
    weight = model.convolution.weight
    weight.data = weight.data.contiguous()


@needs_two
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize(
    "after",
    [
        converted_and_back,
        gradients_with_other_memory,
        other_memory_format,
        other_memory_format_of_the_parameter_alone,
        lambda model: (model.zero_grad(), other_memory_format(model)),
    ],
    ids=["converted", "replaced", "laid out anew", "the parameter alone", "without gradients"],
)
def test_gradients_that_got_other_memory_come_back_into_their_bucket(after: object, set_to_none: bool) -> None:
    models = [train(in_buckets, {}, set_to_none, lambda o, _: o.step(), after) for in_buckets in (False, True)]
    assert equal(*models)
    sums = [p.detach().double().sum().item() for p in models[1].parameters()]
    assert all(told == sums for told in hvd.allgather_object(sums))


@needs_two
def test_gradients_are_parts_of_few_tensors_that_the_ranks_share() -> None:
    model = Model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), gradient_as_bucket_view=True
    )
    places: list[set[int]] = []
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 2, 5, 5), 0).backward()
        optimizer.step()
        places.append({p.grad.untyped_storage().data_ptr() for p in model.parameters()})
        assert all(p.grad.stride() == p.stride() for p in model.parameters())
    assert len(places[0]) == 3  # float32, one large one, bfloat16
    assert places[1] == places[2]
    kept = model.large.grad
    optimizer.zero_grad(set_to_none=False)
    assert model.large.grad is kept
    assert not kept.any()


@needs_two
def test_ranks_may_have_a_tensor_in_lent_memory_and_not() -> None:
    count = 1_000_003
    private = torch.arange(count, dtype=torch.int32)
    hvd.allreduce_(private.clone(), name="connects")
    capsule = _roda.lend_memory(0, 4 * count)
    if capsule is None:
        pytest.skip("the transport lends no memory")
    lent = from_dlpack(capsule).view(torch.int32)
    assert not lent.any()
    for lenders in (range(hvd.size()), range(0, hvd.size(), 2), range(1, hvd.size(), 2)):
        tensor = lent.copy_(private) if hvd.rank() in lenders else private.clone()
        for _ in range(2):
            hvd.allreduce_(tensor, name="lent", op=hvd.Sum)
        assert torch.equal(tensor, private * hvd.size() ** 2)


@needs_two
def test_a_sparse_gradient_ends_its_bucket() -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(2, 1, bias=False), torch.nn.Embedding(4, 2, sparse=True)])
    for layer in layers:
        torch.nn.init.ones_(layer.weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layers.parameters(), lr=1.0), layers.named_parameters(), gradient_as_bucket_view=True
    )
    with pytest.warns(UserWarning, match="'1.weight' is sparse"):
        layers[0](layers[1](torch.tensor([0]))).sum().backward()
    optimizer.step()
    assert torch.allclose(layers[0].weight, torch.zeros(1, 2), atol=1e-6)
    assert torch.allclose(layers[1].weight[:2], torch.tensor([[0.0, 0.0], [1.0, 1.0]]), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compression": hvd.Compression.fp16}, "compression"),
        ({"groups": 2}, "groups"),
        ({"sharded": True}, "sharded"),
        ({"op": hvd.Adasum}, "Adasum"),
    ],
    ids=["compression", "groups", "sharded", "adasum"],
)
def test_what_buckets_do_not_go_with_is_said_once(options: dict[str, object], reason: str) -> None:
    if reason == "Adasum" and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two")
    model = torch.nn.Linear(2, 2)
    with pytest.warns(UserWarning, match=f"gradient_as_bucket_view=True has no effect: .*{reason}") as told:
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), gradient_as_bucket_view=True, **options
        )
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()


@needs_two
def test_in_a_process_set_and_in_a_copy() -> None:
    with process_set(list(range(hvd.size() - 1))) as most:
        if not most.included():
            return hvd.barrier()
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), process_set=most, gradient_as_bucket_view=True
        )
        model(torch.full((1, 1), float(hvd.rank() + 1))).sum().backward()
        optimizer.step()
        model, copied = copy.deepcopy((model, optimizer))
        copied.zero_grad()
        model(torch.full((1, 1), float(hvd.rank() + 1))).sum().backward()
        copied.step()
        mean = hvd.size() / 2
        assert model.weight.item() == -2 * mean
        assert optimizer.param_groups[0]["params"][0].item() == -mean
        return hvd.barrier()
