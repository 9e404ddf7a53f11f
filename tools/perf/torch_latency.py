#!/usr/bin/env python3
"""Median time of a small synchronous hvd.allreduce, as a training script sees it.

usage: horovodrun -np 2 python tools/perf/torch_latency.py [--bytes 4096] [--iterations 2000]
"""

import argparse
import json
import time
from statistics import median, quantiles

import horovod.torch as hvd
import torch


def measure(operation, iterations):
    """Return the microseconds of every call."""
    times = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        operation()
        times.append((time.perf_counter_ns() - start) / 1000)
    return times


def main():
    """Measure and print, on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=2000)
    options = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    tensor = torch.zeros(options.bytes // 4)
    operations = {
        "hvd.allreduce": lambda: hvd.allreduce(tensor, name="latency.copy"),
        "hvd.allreduce_": lambda: hvd.allreduce_(tensor, name="latency.in_place"),
    }
    for name, operation in operations.items():
        measure(operation, options.iterations // 10)
        times = measure(operation, options.iterations)
        if hvd.rank() == 0:
            row = {"operation": name, "ranks": hvd.size(), "bytes": options.bytes, "median_us": round(median(times), 2),
                   "p95_us": round(quantiles(times, n=20)[18], 2), "min_us": round(min(times), 2)}
            print(json.dumps(row), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
