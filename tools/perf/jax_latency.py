#!/usr/bin/env python3
"""Median times of allreduces in JAX: ours, compiled and not, beside JAX's own over Gloo.

usage: horovodrun -np 2 python tools/perf/jax_latency.py [--bytes 4096] [--iterations 500] [--rounds 3]

The two take turns in one process: JAX's own collectives need jax.distributed, whose coordinator rank 0 runs.
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

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np


def measure(operation: Callable[[], Any], iterations: int) -> float:
    """Return the median of the microseconds of every call."""
    times = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        jax.block_until_ready(operation())
        times.append((time.perf_counter_ns() - start) / 1000)
    return median(times)


def gloo(count: int) -> Callable[[], Any]:
    """Return JAX's own allreduce of so many numbers, over Gloo."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    rows = NamedSharding(mesh, PartitionSpec("ranks"))
    own = np.ones((1, count), np.float32)
    array = jax.make_array_from_process_local_data(rows, own, (hvd.size(), count))
    reduce = jax.jit(lambda x: x.sum(axis=0), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return lambda: reduce(array)


def main() -> None:
    """Measure and print, on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    os.environ["JAX_PLATFORMS"] = "cpu"
    hvd.init()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(hvd.broadcast_object(address), hvd.size(), hvd.rank())
    with jax.default_device(jax.local_devices()[0]):
        x = jnp.ones(options.bytes // 4)
        compiled = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, name="latency"))
        operations = {
            "hvd.allreduce, compiled": lambda: compiled(x),
            "hvd.allreduce": lambda: hvd.allreduce(x, op=hvd.Sum, name="latency.eager"),
            "JAX over Gloo": gloo(options.bytes // 4),
        }
    for _ in range(options.rounds):
        for name, operation in operations.items():
            measure(operation, max(2, options.iterations // 10))
            hvd.barrier()
            found = measure(operation, options.iterations)
            if hvd.rank() == 0:
                row = {"operation": name, "ranks": hvd.size(), "bytes": options.bytes, "median_us": round(found, 1)}
                print(json.dumps(row), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
