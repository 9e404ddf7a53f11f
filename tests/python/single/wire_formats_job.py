"""What ranks on hosts of their own do with ``Compression.int8`` and its like, by the front that argv names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

COUNT = 40_000
# What two roundings are off by, at most, and what they are off by for sure; as shares of the largest element.
BOUNDS = {"int8": (0.0079, 1e-4), "int4": (0.1495, 0.02), "fp8": (0.1291, 0.008), "bf16_wire": (0.0079, 1e-4)}
# What one rounding is off by, at most.
ONE_ROUNDING = {"int8": 0.0040, "int4": 0.0722, "fp8": 0.0627, "bf16_wire": 0.0040}


def noise(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).uniform(-1, 1, COUNT).astype(np.float32)


def check(hvd: ModuleType, to: Callable[[np.ndarray], Any], back: Callable[[Any], np.ndarray]) -> None:
    """Averages are within the bound, not exact, and the same on both ranks; what has no format is exact."""
    mine, mean = noise(hvd.rank()), (noise(0) + noise(1)) / 2
    for name, (most, least) in BOUNDS.items():
        compression = getattr(hvd.Compression, name)
        for step in range(2):  # also where the tensor is known, and what was lost is fed back
            average = back(hvd.allreduce(to(mine), name=name, compression=compression))
            assert average.dtype == np.float32
            assert least < np.abs(average - mean).max() <= most * (1 + step), name
        both = back(hvd.allgather(to(average[None])))
        assert both[0].tobytes() == both[1].tobytes(), name
    hvd.reset_wire_residuals()
    int8 = hvd.Compression.int8
    grouped = hvd.grouped_allreduce([to(mine), to(mine[:7])], name="group", compression=int8)
    assert 1e-4 < np.abs(back(grouped[0]) - mean).max() <= BOUNDS["int8"][0]
    whole = np.arange(COUNT, dtype=np.int32)
    assert (back(hvd.allreduce(to(whole), op=hvd.Sum, compression=int8)) == 2 * whole).all()
    assert (back(hvd.allreduce(to(mine), op=hvd.Max, compression=int8)) == np.maximum(noise(0), noise(1))).all()
    assert np.abs(back(hvd.allreduce(to(mine))) - mean).max() < 1e-6


def check_parts(hvd: ModuleType, mean: np.ndarray) -> None:
    """What is scattered and gathered has formats, and so has a sharded optimizer, whose errors do not add up."""
    import torch

    mine, half = torch.from_numpy(noise(hvd.rank() + 2)), slice(hvd.rank() * COUNT // 2, (hvd.rank() + 1) * COUNT // 2)
    for name, most in ONE_ROUNDING.items():
        compression = getattr(hvd.Compression, name)
        part = hvd.reducescatter(mine, compression=compression).numpy()
        assert 1e-4 < np.abs(part - mean[half]).max() <= most, name
        [part] = hvd.grouped_reducescatter([mine], compression=compression)
        assert 1e-4 < np.abs(part.numpy() - mean[half]).max() <= most, name
        both = hvd.allgather(mine, compression=compression).numpy().reshape(2, -1)
        assert 1e-4 < np.abs(both - [noise(2), noise(3)]).max() <= most, name
        of_both = hvd.allgather(torch.from_numpy(both)[None]).numpy()
        assert of_both[0].tobytes() == of_both[1].tobytes(), name
    x = mine.clone().requires_grad_()
    (hvd.reducescatter(x, op=hvd.Sum, compression=hvd.Compression.int4) * mine[half]).sum().backward()
    assert 0.02 < np.abs(x.grad.numpy()[half] - 2 * mine[half].numpy()).max() <= 2 * ONE_ROUNDING["int4"]
    for name, most in ONE_ROUNDING.items():
        parameter, exact = torch.nn.Parameter(torch.zeros(COUNT)), torch.zeros(COUNT)
        inner = torch.optim.SGD([parameter], lr=0.1)
        compression = getattr(hvd.Compression, name)
        optimizer = hvd.DistributedOptimizer(inner, [("p", parameter)], compression, sharded=True)
        # Gradients that were rounded travel exactly; what is rounded are the differences, and only the last one shows.
        rounded = [hvd.allgather(part, compression=compression).view(2, -1) for part in mine.view(2, -1)]
        gradients = torch.cat(rounded, 1)
        for step in range(20):
            optimizer.zero_grad()
            (parameter * gradients[hvd.rank()]).sum().backward()
            optimizer.step()
            exact -= 0.1 * gradients.mean(0)
            if step == 10:  # what a program writes into a parameter stays there
                with torch.no_grad():
                    parameter[:7].fill_(5.0)
                    exact[:7].fill_(5.0)
            copies = hvd.allgather(parameter.detach()[None])
            assert torch.equal(copies[0], copies[1]), (name, step)
        off = (parameter.detach() - exact).abs().max().item()
        assert 1e-5 < off <= 0.2 * most, (name, off)


def torch() -> None:
    import horovod.torch as hvd
    import torch
    from horovod.torch.distributed import wire_format_hook

    hvd.init()
    check(hvd, torch.from_numpy, torch.Tensor.numpy)
    x = torch.from_numpy(noise(hvd.rank())).requires_grad_()
    weights = torch.from_numpy(noise(hvd.rank() + 2))
    (hvd.grouped_allreduce([x], compression=hvd.Compression.int4)[0] * weights).sum().backward()
    mean = (noise(2) + noise(3)) / 2
    assert 0.02 < np.abs(x.grad.numpy() - mean).max() <= BOUNDS["int4"][0]  # the gradient travels as the values did
    for options in {}, {"groups": 1}, {"gradient_as_bucket_view": True}:
        parameter = torch.nn.Parameter(torch.zeros(COUNT))
        inner = torch.optim.SGD([parameter], lr=1.0)
        optimizer = hvd.DistributedOptimizer(inner, [("p", parameter)], hvd.Compression.int4, **options)
        (parameter * weights).sum().backward()
        optimizer.step()
        assert 0.02 < np.abs(parameter.detach().numpy() + mean).max() <= BOUNDS["int4"][0], options
    torch.distributed.init_process_group("roda")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(COUNT, 1, bias=False))
    model.register_comm_hook(None, wire_format_hook(hvd.Compression.int4))
    model(weights).sum().backward()
    assert 0.02 < np.abs(model.module.weight.grad.numpy()[0] - mean).max() <= BOUNDS["int4"][0]
    from horovod.torch.distributed import WireFormatReduceScatter
    from torch.distributed.fsdp import fully_shard

    module = torch.nn.Linear(COUNT, 1, bias=False)
    fully_shard(module, mesh=torch.distributed.init_device_mesh("cpu", (2,)))
    module.set_custom_reduce_scatter(WireFormatReduceScatter(hvd.Compression.int4))
    module(weights).sum().backward()
    gathered = module.weight.grad.full_tensor().numpy()[0]
    assert 0.02 < np.abs(gathered - mean).max() <= ONE_ROUNDING["int4"]
    torch.distributed.destroy_process_group()
    check_parts(hvd, mean)
    compression = hvd.Compression.int8 if hvd.rank() == 0 else hvd.Compression.fp8
    told = r"Mismatched wire formats: One rank asked for int8, but another rank asked for fp8\. \(tensor "
    with pytest.raises(hvd.HorovodInternalError, match=f"{told}'allreduce.disputed': rank 1: fp8; rank 0: int8"):
        hvd.allreduce(torch.ones(COUNT), name="disputed", compression=compression)


def tensorflow() -> None:
    import horovod.keras
    import horovod.tensorflow as hvd
    import keras
    import tensorflow as tf

    hvd.init()
    check(hvd, tf.constant, lambda tensor: tensor.numpy())
    x, weights = tf.Variable(tf.zeros([COUNT])), tf.constant(noise(hvd.rank()))
    with hvd.DistributedGradientTape(tf.GradientTape(), compression=hvd.Compression.int4) as tape:
        loss = tf.reduce_sum(x * weights)
    gradient = tape.gradient(loss, [x])[0].numpy()
    assert 0.02 < np.abs(gradient - (noise(0) + noise(1)) / 2).max() <= BOUNDS["int4"][0]
    optimizer = horovod.keras.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=hvd.Compression.int4)
    optimizer.apply_gradients([(weights, x)])
    assert 0.02 < np.abs(x.numpy() + (noise(0) + noise(1)) / 2).max() <= BOUNDS["int4"][0]


def jax() -> None:
    import horovod.jax as hvd
    import jax

    hvd.init()
    check(hvd, jax.numpy.asarray, np.asarray)
    compiled = jax.jit(lambda x: hvd.allreduce(x, name="compiled", compression=hvd.Compression.int4))
    difference = np.asarray(compiled(noise(hvd.rank()))) - (noise(0) + noise(1)) / 2
    assert 0.02 < np.abs(difference).max() <= BOUNDS["int4"][0]
    part = np.asarray(hvd.reducescatter(jax.numpy.asarray(noise(hvd.rank())), compression=hvd.Compression.int4))
    difference = part - ((noise(0) + noise(1)) / 2).reshape(2, -1)[hvd.rank()]
    assert 0.02 < np.abs(difference).max() <= ONE_ROUNDING["int4"]


def mxnet() -> None:
    import horovod.mxnet as hvd
    import mxnet as mx

    hvd.init()
    parameter = mx.gluon.Parameter("p", shape=(COUNT,), init=mx.init.Zero())
    parameter.initialize()
    trainer = hvd.DistributedTrainer({"p": parameter}, "sgd", {"learning_rate": 1.0}, compression=hvd.Compression.int4)
    with mx.autograd.record():
        loss = (parameter.data() * mx.nd.array(noise(hvd.rank()))).sum()
    loss.backward()
    trainer.step(1)
    difference = parameter.data().asnumpy() + (noise(0) + noise(1)) / 2
    assert 0.02 < np.abs(difference).max() <= BOUNDS["int4"][0]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]} is right")
