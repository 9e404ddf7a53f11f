#!/usr/bin/env python3
"""What an allreduce costs in a framework: a small one after the other, and the gradients of ResNet-50 at once.

usage: horovodrun -np 2 python tools/perf/frameworks.py torch|tensorflow|jax|mxnet [--bytes 4096] [--rounds 30]

Prints microseconds: `call`, a synchronous call from Python; `in a graph`, one of a chain of 32 within a compiled
function; `gradients`, 161 tensors of float32 (102 MB) as the framework's optimizer reduces them, in TensorFlow and JAX
within a function that computes them, of which `no gradients` is the time without reducing; of PyTorch besides what
`DistributedOptimizer.synchronize()` takes for them, also with `gradient_as_bucket_view=True`; of JAX besides, `JAX over
Gloo`, its own allreduce of as many bytes. The operations take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

CHAIN = 32
TURNS = 3
Operations = dict[str, "tuple[Callable[[], Any], int]"]  # what to call, and how many operations that is


def resnet50() -> list[int]:
    """Return the sizes of the parameters, in the order of the layers."""
    sizes, channels = [3 * 64 * 49, 64, 64], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            for weights, outputs in ((channels, width), (width * 9, width), (width, 4 * width)):
                sizes += [weights * outputs, outputs, outputs]
            if block == 0:
                sizes += [channels * 4 * width, 4 * width, 4 * width]
            channels = 4 * width
    return [*sizes, channels * 1000, 1000]


def of_torch(count: int) -> Operations:
    """PyTorch: in place."""
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
    small, gradients = torch.ones(count), [torch.ones(size) for size in reversed(resnet50())]

    def optimizer(in_buckets: bool) -> Callable[[], Any]:
        parameters = [torch.nn.Parameter(torch.empty(size)) for size in resnet50()]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        wrapped = hvd.DistributedOptimizer(
            torch.optim.SGD(parameters, lr=0.1),
            [(f"{in_buckets}.{i}", parameter) for i, parameter in enumerate(parameters)],
            gradient_as_bucket_view=in_buckets,
        )
        return wrapped.synchronize

    def all_gradients() -> None:
        handles = [hvd.allreduce_async_(gradient, name=f"gradient.{i}") for i, gradient in enumerate(gradients)]
        for handle in handles:
            hvd.synchronize(handle)

    hvd.init()
    return {
        "call": (lambda: hvd.allreduce_(small, name="small"), 1),
        "gradients": (all_gradients, 1),
        "optimizer's gradients": (optimizer(False), 1),
        "optimizer's gradients in buckets": (optimizer(True), 1),
    }


def of_tensorflow(count: int) -> Operations:
    """TensorFlow: in functions, and eagerly."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    small = tf.ones(count)
    gradients = [tf.Variable(tf.ones(size)) for size in reversed(resnet50())]

    @tf.function
    def chain(value: Any) -> Any:
        for i in range(CHAIN):
            value = hvd.allreduce(value, name=f"chain.{i}")
        return value

    def step(reduce: Callable[..., Any]) -> Callable[[], None]:
        @tf.function
        def computed(factor: Any) -> None:
            for i, gradient in enumerate(gradients):
                gradient.assign(reduce(gradient * factor, name=f"gradient.{i}"))

        factor = tf.constant(1.0)
        return lambda: computed(factor)

    return {
        "call": (lambda: hvd.allreduce(small, name="small"), 1),
        "in a graph": (lambda: chain(small).numpy(), CHAIN),
        "gradients": (step(hvd.allreduce), 1),
        "no gradients": (step(lambda value, name: value), 1),
    }


def of_jax(count: int) -> Operations:
    """JAX: in compiled functions, and outside; beside its own collectives, whose coordinator rank 0 runs."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import horovod.jax as hvd
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    hvd.init()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(hvd.broadcast_object(address), hvd.size(), hvd.rank())
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["ranks"], []))
    array = jax.make_array_from_process_local_data(rows, np.ones((1, count), np.float32), (hvd.size(), count))
    over_gloo = jax.jit(lambda x: x.sum(axis=0), out_shardings=whole)
    jax.config.update("jax_default_device", jax.local_devices()[0])
    small, gradients = jnp.ones(count), [jnp.ones(size) for size in reversed(resnet50())]

    @jax.jit
    def chain(value: Any) -> Any:
        for i in range(CHAIN):
            value = hvd.allreduce(value, name=f"chain.{i}")
        return value

    def step(reduce: Callable[[Any], Any]) -> Callable[[], Any]:
        computed = jax.jit(lambda tree, factor: reduce([gradient * factor for gradient in tree]))
        return lambda: jax.block_until_ready(computed(gradients, 1.0))

    return {
        "call": (lambda: jax.block_until_ready(hvd.allreduce(small, name="small")), 1),
        "in a graph": (lambda: jax.block_until_ready(chain(small)), CHAIN),
        "gradients": (step(lambda tree: hvd.allreduce(tree, name="gradients")), 1),
        "no gradients": (step(lambda tree: tree), 1),
        "JAX over Gloo": (lambda: jax.block_until_ready(over_gloo(array)), 1),
    }


def of_mxnet(count: int) -> Operations:
    """MXNet: in place."""
    import horovod.mxnet as hvd
    import mxnet as mx

    small, gradients = mx.nd.ones(count), [mx.nd.ones(size) for size in reversed(resnet50())]

    def call() -> None:
        hvd.allreduce_(small, name="small").wait_to_read()

    def all_gradients() -> None:
        for i, gradient in enumerate(gradients):
            hvd.allreduce_(gradient, name=f"gradient.{i}")
        mx.nd.waitall()

    return {"call": (call, 1), "gradients": (all_gradients, 1)}


def main() -> None:
    """Measure and print, on rank 0."""
    makers = {"torch": of_torch, "tensorflow": of_tensorflow, "jax": of_jax, "mxnet": of_mxnet}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("framework", choices=makers)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=30, help="of the gradients; a hundred times as many calls")
    options = parser.parse_args()

    operations = makers[options.framework](max(1, options.bytes // np.dtype("float32").itemsize))
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics()
    basics.init()
    row: dict[str, Any] = {"framework": options.framework, "ranks": basics.size(), "bytes": options.bytes}
    times: dict[str, list[float]] = {name: [] for name in operations}
    for name, (operation, count) in [*operations.items()] * TURNS:
        rounds = (options.rounds if "gradients" in name else options.rounds * 100 // count) // TURNS + 1
        for i in range(rounds + rounds // 10 + 1):
            start = time.perf_counter_ns()
            operation()
            if i > rounds // 10:
                times[name].append((time.perf_counter_ns() - start) / 1000 / count)
    row |= {name: {"median": round(median(found), 1), "least": round(min(found), 1)} for name, found in times.items()}
    if basics.rank() == 0:
        print(json.dumps(row), flush=True)
    basics.shutdown()


if __name__ == "__main__":
    main()
