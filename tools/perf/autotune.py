#!/usr/bin/env python3
"""Autotuning beside a sweep of every setting, on a training step's gradients.

usage: horovodrun -np 2 python tools/perf/autotune.py [--workload resnet50|small] [--algorithms]

One job sweeps the settings in turns, round by round, then tunes as HOROVOD_AUTOTUNE=1 does, then measures what was
found in turns with the sweep's best and with the defaults: only what ran in the same minutes can be compared.
"""

import argparse
import csv
import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import horovod.torch as hvd
import torch
from frameworks import resnet50

MB = 1 << 20
SWEEP = {
    "HOROVOD_FUSION_THRESHOLD": [0] + [int(MB * 2**k) for k in (-4, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)],
    "HOROVOD_CYCLE_TIME": [0, 0.3, 1, 2.5, 5, 10],
    "HOROVOD_OUTSTANDING_BUCKETS": [1, 2, 4],
}
# With --algorithms; else what stands for none of them keeps the tuning from looking for one.
ALGORITHMS = ["allreduce = */direct", "allreduce = */ring", "allreduce = */recursive_doubling"]
NO_ALGORITHM = "barrier = */signal"
SAMPLE_STEPS = 50  # of one setting: as many as a score of the tuning takes
WORKLOADS = {"resnet50": lambda: resnet50()[::-1], "small": lambda: [64 + 16 * (i % 61) for i in range(400)]}


class Training:
    """Steps of gradients, each submitted by itself, as the optimizer does it."""

    def __init__(self, sizes, compute_ms):
        """Make the gradients."""
        self.tensors = [torch.zeros(size) for size in sizes]
        self.pause = compute_ms / 1000 / len(sizes)

    def step(self):
        """Exchange all of them once."""
        handles = []
        for number, tensor in enumerate(self.tensors):
            if self.pause:
                time.sleep(self.pause)
            handles.append(hvd.allreduce_async_(tensor, name=f"gradient.{number}", op=hvd.Sum))
        for handle in handles:
            hvd.synchronize(handle)

    def time_steps(self, steps):
        """Return the seconds of so many steps, behind two that are not counted."""
        for _ in range(2):
            self.step()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - start


def forget():
    """Unset what was set for another measurement."""
    for name in (*SWEEP, "HOROVOD_SELECT"):
        os.environ.pop(name, None)


def measure(training, settings, steps):
    """Return the milliseconds of a step with the settings, the median of five samples, and all seconds."""
    forget()
    os.environ.update({name: str(value) for name, value in settings.items()})
    hvd.init()
    begin = time.perf_counter()
    result = median(training.time_steps(steps // 5) for _ in range(5)) * 5000 / steps
    spent = time.perf_counter() - begin
    hvd.shutdown()
    return result, spent


def tune(training):
    """Let it tune until its log has the best. Return those settings, the seconds, and the rows of the log."""
    forget()
    if "HOROVOD_SELECT" not in SWEEP:
        os.environ["HOROVOD_SELECT"] = NO_ALGORITHM
    log = os.path.join(tempfile.gettempdir(), f"autotune.{os.environ.get('HOROVOD_GLOO_RENDEZVOUS_PORT', 0)}.csv")
    if os.environ.get("HOROVOD_RANK") == "0":
        Path(log).unlink(missing_ok=True)  # what it says would be gone by
    os.environ.update({"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": log})
    hvd.init()
    begin = time.perf_counter()
    best, rows = None, []
    while best is None:
        for _ in range(20):
            training.step()
        if hvd.rank() == 0:
            with open(log, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            best = rows[-1] if rows and rows[-1]["job"] else None
        best = hvd.broadcast_object(best, 0, name="best")
    spent = time.perf_counter() - begin
    hvd.shutdown()
    del os.environ["HOROVOD_AUTOTUNE"]
    settings = {"HOROVOD_FUSION_THRESHOLD": int(float(best["tensor_fusion_threshold"]) * MB),
                "HOROVOD_CYCLE_TIME": float(best["cycle_time_ms"]),
                "HOROVOD_OUTSTANDING_BUCKETS": int(best["outstanding_buckets"])}
    if best["select"]:
        settings["HOROVOD_SELECT"] = best["select"]
    return settings, spent, len(rows)


def agreed(value):
    """Return rank 0's value."""
    hvd.init()
    value = hvd.broadcast_object(value, 0, name="agreed")
    hvd.shutdown()
    return value


def main():
    """Sweep, tune, compare, and print on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=WORKLOADS, default="resnet50")
    parser.add_argument("--rounds", type=int, default=15, help="of the sweep's comparison at the end")
    parser.add_argument("--compute-ms", type=float, default=0, help="time of a step between its gradients")
    parser.add_argument("--algorithms", action="store_true", help="look for algorithms, too")
    options = parser.parse_args()
    if options.algorithms:
        SWEEP["HOROVOD_SELECT"] = ALGORITHMS
    torch.set_num_threads(1)
    training = Training(WORKLOADS[options.workload](), options.compute_ms)
    rank = int(os.environ["HOROVOD_RANK"])

    points = [dict(zip(SWEEP, values, strict=True)) for values in itertools.product(*SWEEP.values())]
    results = [measure(training, point, SAMPLE_STEPS) for point in points]
    sweep_seconds = sum(seconds for _, seconds in results)
    order = sorted(range(len(points)), key=lambda i: results[i][0])
    tuned, tune_seconds, rows = tune(training)
    # The luckiest of hundreds of measurements is not the best of the settings: those in front run again.
    rivals = {f"sweep #{place + 1}": points[number] for place, number in enumerate(order[:5])}
    rivals = agreed({"default": {}, "tuned": tuned, **rivals})
    times = {name: [] for name in rivals}
    for turn in range(options.rounds):
        for name, settings in sorted(rivals.items(), reverse=turn % 2 == 1):
            times[name].append(measure(training, settings, SAMPLE_STEPS)[0])
    best = min((name for name in rivals if name.startswith("sweep")), key=lambda name: median(times[name]))
    if rank == 0:
        for name, settings in rivals.items():
            row = {"settings": name, "step_ms": round(median(times[name]), 3), "is": settings}
            print(json.dumps(row), flush=True)
        ratio = median(mine / theirs for mine, theirs in zip(times["tuned"], times[best], strict=True))
        print(json.dumps({"tuned / best of sweep": round(ratio, 3), "best": best, "sweep_points": len(points),
                          "sweep_s": round(sweep_seconds, 1), "tuning_rows": rows, "tuning_s": round(tune_seconds, 1),
                          "part_of_time": round(tune_seconds / sweep_seconds, 3)}))


if __name__ == "__main__":
    main()
