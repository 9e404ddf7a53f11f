"""Models of the examples become the same whatever the number of ranks and the way they are trained."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import horovod.torch as hvd
import pytest
import torch

STEPS, BATCH = 8, 12  # 1, 2, 3 and 4 ranks share it out evenly


def example(name: str = "transformer") -> ModuleType:
    path = Path(__file__).resolve().parents[3] / f"examples/pytorch_{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trained_alone() -> torch.nn.Module:
    module = example()
    model = module.make_model()
    module.train(model, module.make_optimizer(model), STEPS, BATCH)
    return model


@pytest.mark.parametrize("way", ["plain", "groups", "sharded", "ddp"])
def test_training_equals_one_process(way: str, trained_alone: torch.nn.Module) -> None:
    module = example()
    place = (hvd.rank(), hvd.size())
    model = module.make_model()
    optimizer = module.make_optimizer(model)
    if way == "ddp":
        torch.distributed.init_process_group("roda")
        trained = torch.nn.parallel.DistributedDataParallel(model)
        module.train(trained, optimizer, STEPS, BATCH, place)
        torch.distributed.destroy_process_group()
    else:
        options = {"groups": {"groups": 3}, "sharded": {"sharded": True}}.get(way, {})
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)
        module.train(model, optimizer, STEPS, BATCH, place)
    untrained = module.make_model()
    for (name, a), b, before in zip(model.named_parameters(), trained_alone.parameters(), untrained.parameters()):
        assert torch.allclose(a, b, rtol=1e-3, atol=2e-4), name
        assert not torch.equal(a, before), name


def test_a_gan_equals_one_process() -> None:
    train = example("gan").train
    alone = train(5, 4, list(range(hvd.size())), is_distributed=False)
    for mine, expected in zip(train(5, 4, [hvd.rank()]).parameters(), alone.parameters()):
        assert torch.allclose(mine, expected, atol=1e-9)
