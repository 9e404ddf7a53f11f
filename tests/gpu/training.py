"""Trains on the card through horovod.torch; run by tests/gpu/run.sh in every rank of a job.

A small network is trained by every form of the optimizer, and its parameters are compared with what plain PyTorch gets
on the CPU from the whole batch. Then steps of a larger one are profiled: how much of what the engine had the card do
went on while the card computed. Without CUDA in this PyTorch the same runs on the CPU, to check this file and nothing
else, and nothing is profiled.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import horovod.torch as hvd
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

STEPS = 20
BATCH = 48  # of all ranks together
WIDTH, LAYERS = 2048, 8  # of the profiled network

on_gpu = torch.cuda.is_available()


def make_network() -> nn.Module:
    """Return the same network on every rank and device."""
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 64), nn.Tanh(), nn.Linear(64, 10)
    )


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the whole batch of every step."""
    generator = torch.Generator().manual_seed(7)
    return [
        (torch.randn(BATCH, 1, 8, 8, generator=generator), torch.randint(10, (BATCH,), generator=generator))
        for _ in range(STEPS)
    ]


def train(network: nn.Module, optimizer: torch.optim.Optimizer, rank: int, size: int) -> list[torch.Tensor]:
    """Train on this rank's part of every batch; return the parameters, on the CPU."""
    device = next(network.parameters()).device
    for inputs, labels in batches():
        mine = slice(rank, None, size)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs[mine].to(device)), labels[mine].to(device)).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in network.parameters()]


def make_optimizer(network: nn.Module) -> torch.optim.Optimizer:
    """Return plain SGD."""
    return torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)


def check_training(device: torch.device) -> bool:
    """Compare every form of the optimizer with plain training on the whole batch."""
    network = make_network()
    expected = train(network, make_optimizer(network), 0, 1)
    forms = {"plain": {}, "in groups": {"groups": 2}, "sharded": {"sharded": True}}
    all_well = True
    for form, options in forms.items():
        network = make_network().to(device)
        optimizer = hvd.DistributedOptimizer(
            make_optimizer(network), named_parameters=network.named_parameters(), **options
        )
        hvd.broadcast_parameters(network.state_dict(), root_rank=0)
        found = train(network, optimizer, hvd.rank(), hvd.size())
        worst = max(float((a - b).abs().max()) for a, b in zip(found, expected))
        well = all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(found, expected))
        all_well = all_well and well
        if hvd.rank() == 0:
            print(f"training.{form}: {'as on the CPU' if well else 'DIFFERS'}, the most by {worst:.2g}", flush=True)
    return all_well


def union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return disjoint spans in order."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(spans: list[tuple[float, float]]) -> float:
    """Return the time that the spans cover."""
    return sum(end - begin for begin, end in union(spans))


def shared(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> float:
    """Return the time that both cover."""
    return length(ours) + length(theirs) - length(ours + theirs)


def device_spans(trace: dict) -> dict[int, list[tuple[float, float]]]:
    """Return when the card worked, in microseconds, by stream."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            begin = float(event["ts"])
            spans.setdefault(event["args"]["stream"], []).append((begin, begin + float(event["dur"])))
    return spans


def profile_overlap(device: torch.device) -> None:
    """Print what share of the engine's work on the card lay beside the card's computing."""
    network = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(device)
    optimizer = hvd.DistributedOptimizer(make_optimizer(network), named_parameters=network.named_parameters())
    inputs = torch.randn(1024, WIDTH, device=device)

    def step() -> None:
        optimizer.zero_grad()
        network(inputs).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        spans = device_spans(json.loads(path.read_text()))
    if hvd.rank() != 0 or not spans:
        return
    # PyTorch computes on one stream, the one with most of the work in it; the rest are the engine's.
    computing = max(spans, key=lambda stream: length(spans[stream]))
    engine = [span for stream, some in spans.items() if stream != computing for span in some]
    busy, beside = length(engine), shared(engine, spans[computing])
    gradients = 4 * sum(parameter.numel() for parameter in network.parameters())
    print(f"overlap.gradients {gradients / 2**20:.0f} MiB a step, 5 steps")
    print(f"overlap.computing {length(spans[computing]) / 1e3:.2f} ms")
    print(f"overlap.engine {busy / 1e3:.2f} ms, {100 * beside / busy if busy else 0:.0f} % of it beside computing")


def main() -> int:
    """Run both parts."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    hvd.init()
    if on_gpu:
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    device = torch.device("cuda" if on_gpu else "cpu")
    if hvd.rank() == 0:
        where = torch.cuda.get_device_name() if on_gpu else "no CUDA in this PyTorch: ON THE CPU"
        print(f"{where}, {hvd.size()} ranks")
    all_well = check_training(device)
    if on_gpu:
        profile_overlap(device)
    hvd.shutdown()
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
