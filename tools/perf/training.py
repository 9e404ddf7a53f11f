#!/usr/bin/env python3
"""What a training step loses to exchanging gradients: whole steps of small models, by every way that is there.

usage: horovodrun -np 2 python tools/perf/training.py [--models cnn,transformer,mlp] [--ways hvd,...] [--rounds 7]
       HOROVOD_TIMELINE=DYNAMIC horovodrun … --models deep --ways hvd --timeline '/tmp/trace.{rank}.json'

`alone` is the same step of all ranks at once without any exchange, `one rank` of the first while the others wait. The
others: torch's DDP over Gloo and over the backend roda, and `hvd.DistributedOptimizer`: plain, sharded, with gradients
in buckets; with Horovod's own package, that; and plain with the timeline on, where that is asked for. Every round runs
each way once, in an order that rotates. Printed are milliseconds of a step of the slowest rank, the median and the
least of the rounds; how far they are beyond `alone`; what part that is of DDP over Gloo's; and, of the first model,
since later ones get memory that it has freed, the MB that a way keeps on a rank between steps, with parameters and
gradients.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import inspect
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import horovod
import horovod.torch as hvd
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

Step = Callable[[], float]
BASE, ONE_RANK, PEER, TRACED = "alone", "one rank", "DDP gloo", "hvd with timeline"


# --- models: one of inputs for a batch of a rank ---


def cnn() -> tuple[nn.Module, torch.Tensor]:
    """Four convolutions: 2 million parameters, most of them in the last one."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 128, 256, 512):
        layers += [nn.Conv2d(channels, width, 3, 2 if layers else 1, 1, bias=False), nn.GroupNorm(8, width), nn.ReLU()]
        channels = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers), torch.randn(8, 3, 32, 32)


class Transformer(nn.Module):
    """One block of a transformer between two projections: 3.7 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(512, 1000)

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        """Return the scores of a class for each piece."""
        return self.head(self.block(embedded).mean(1))


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Four pieces of 32 positions."""
    return Transformer(), torch.randn(4, 32, 512)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Three wide layers: 8 million parameters, and little to compute."""
    hidden = 2048
    layers = [nn.Linear(1024, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1000)]
    return nn.Sequential(*layers), torch.randn(16, 1024)


def deep() -> tuple[nn.Module, torch.Tensor]:
    """Many layers: 3.7 million parameters in 98 tensors."""
    layers: list[nn.Module] = []
    for _ in range(24):
        layers += [nn.Linear(384, 384), nn.LayerNorm(384), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(384, 384)), torch.randn(64, 384)


MODELS = {"cnn": cnn, "transformer": transformer, "mlp": mlp, "deep": deep}


# --- ways: how the gradients of a model are exchanged ---


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of a single process."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def by_optimizer(**options: Any) -> Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]:
    """Return a way by ``hvd.DistributedOptimizer``."""
    return lambda model: (model, hvd.DistributedOptimizer(adam(model), model.named_parameters(), **options))


def by_ddp(group: dist.ProcessGroup | None = None) -> Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]:
    """Return a way by torch's DDP. No model has buffers, which it would exchange besides."""
    return lambda model: (DistributedDataParallel(model, process_group=group), adam(model))


def ways() -> dict[str, Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]]:
    """Return those that are there, by name; collective."""
    with socket.create_server(("", 0)) as free:
        host = os.environ.get("MASTER_ADDR") or socket.gethostbyname(socket.gethostname())
        address = f"{host}:{free.getsockname()[1]}"
    address = hvd.broadcast_object(address)
    dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=hvd.rank(), world_size=hvd.size())
    found = {BASE: lambda model: (model, adam(model)), PEER: by_ddp()}
    if not hasattr(horovod, "roda_version"):
        return found | {"Horovod": by_optimizer()}
    found |= {"hvd": by_optimizer(), "hvd sharded": by_optimizer(sharded=True)}
    if "gradient_as_bucket_view" in inspect.signature(hvd.DistributedOptimizer).parameters:
        found["hvd views"] = by_optimizer(gradient_as_bucket_view=True)
    return found | {"DDP roda": by_ddp(dist.new_group(backend="roda"))}


def make_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> Step:
    """Return a training step, which returns the loss."""
    classes = torch.arange(len(inputs))

    def step() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


# --- measuring ---


def memory_mb() -> float:
    """Return this process's own memory and its share of what it shares."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"^Pss_(?:Anon|Shmem): +(\d+)", rollup, re.MULTILINE)) / 1024


def largest(value: float) -> float:
    """Return the largest of the ranks' values."""
    return hvd.allreduce(torch.tensor([value], dtype=torch.float64), name="largest", op=hvd.Max).item()


def build(model: str, way: Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]) -> tuple[Step, float]:
    """Return the warm step of a new model, and the MB that it keeps on the rank that keeps most."""
    torch.manual_seed(1)
    before = memory_mb()
    made, inputs = MODELS[model]()
    step = make_step(*way(made), inputs + 0.01 * hvd.rank())
    for _ in range(3):
        step()
    return step, largest(memory_mb() - before)


def time_ms(step: Step, count: int) -> float:
    """Return the milliseconds of a step of the slowest rank."""
    hvd.barrier()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return largest((time.perf_counter() - start) * 1000 / count)


@contextlib.contextmanager
def traced(path: str) -> Iterator[None]:
    """Have the timeline on meanwhile."""
    hvd.start_timeline(path)
    yield
    hvd.stop_timeline()


def measure(model: str, found: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each way."""
    build(model, found[BASE])  # what is made once in a process is nobody's
    built = {name: build(model, way) for name, way in found.items()}
    running: dict[str, Step] = {name: step for name, (step, _) in built.items()}
    running[ONE_RANK] = running[BASE] if hvd.rank() == 0 else lambda: 0.0
    times: dict[str, list[float]] = {name: [] for name in running}
    names = list(running)
    for turn in range(options.rounds):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            with traced(options.timeline) if name == TRACED else contextlib.nullcontext():
                times[name].append(time_ms(running[name], options.steps))
    losses = {name: step() for name, (step, _) in built.items()}
    for name, loss in losses.items():
        if name != BASE and abs(loss - losses[PEER]) > 0.01 * abs(losses[PEER]):
            raise RuntimeError(f"{model} by {name} learned otherwise than by {PEER}: a loss of {loss}, {losses[PEER]}")
    return [row_of(model, name, times, built[name][1] if name in built else None) for name in names]


def row_of(model: str, name: str, times: dict[str, list[float]], kept_mb: float | None) -> dict[str, Any]:
    """Return a way's figures: of the median rounds, and of the least, which other work on the machine met least."""
    row = {"model": model, "ranks": hvd.size(), "way": name, "kept_mb": kept_mb and round(kept_mb, 1)}
    for kind, of in (("median", median), ("least", min)):
        lost, of_peer = (of(times[which]) - of(times[BASE]) for which in (name, PEER))
        row |= {f"{kind}_ms": round(of(times[name]), 2), f"{kind}_beyond_ms": round(lost, 2)}
        row[f"{kind}_of_peer"] = round(lost / of_peer, 2)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Write a Markdown table."""
    lines = [f"| {rows[0]['model']}, np {rows[0]['ranks']}: median, least | step | beyond | of {PEER}'s | kept |"]
    lines.append("|---" * 5 + "|")
    for row in rows:
        steps, beyond, shares = (
            f"{row[f'median_{what}']}, {row[f'least_{what}']}" for what in ("ms", "beyond_ms", "of_peer")
        )
        kept = "" if row["kept_mb"] is None else f"{row['kept_mb']:.0f} MB"
        lines.append(f"| {row['way']} | {steps} ms | {beyond} ms | {shares} | {kept} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print, on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="cnn,transformer,mlp", help="of these and deep")
    parser.add_argument("--ways", help="of those that are there; all by default. alone and DDP gloo always run")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="of a way in a round")
    parser.add_argument("--timeline", metavar="FILE", help=f"add the way '{TRACED}', which writes this")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each way")
    options = parser.parse_args()

    torch.set_num_threads(1)
    hvd.init()
    found = ways()
    if options.ways:
        asked = {BASE, PEER, *options.ways.split(",")}
        found = {name: way for name, way in found.items() if name in asked}
    if options.timeline:
        found[TRACED] = by_optimizer()
    for model in options.models.split(","):
        rows = measure(model, found, options)
        if model != options.models.split(",")[0]:
            rows = [row | {"kept_mb": None} for row in rows]
        if hvd.rank() == 0:
            print("\n".join(map(json.dumps, rows)) if options.json else table(rows) + "\n", flush=True)
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
