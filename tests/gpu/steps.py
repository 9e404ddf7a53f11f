"""Times steps of a ResNet-50 by horovod.torch beside those of DDP and of plain PyTorch; run in every rank of a job.

``steps.py`` prints medians of rounds that the three take in turn; ``steps.py --profile`` how much of what the engine
had the card do went on while the card computed. Lines are ``name value unit``. Ranks may share a card
(RODA_TEST_NCCL_SHARED_GPU=1): then the figures compare the three and say nothing else. Without CUDA in this PyTorch a
smaller network runs on the CPU, to check this file; then there are no figures.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import horovod.torch as hvd
import torch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile

on_gpu = torch.cuda.is_available()
ROUNDS, STEPS = (9, 10) if on_gpu else (1, 1)
BATCH, SIDE = (32, 224) if on_gpu else (2, 32)
BLOCKS = (3, 4, 6, 3) if on_gpu else (1, 1, 1, 1)


class Bottleneck(nn.Module):
    """Three convolutions and a way around them."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *normalised(inside, width, 1), nn.ReLU(), *normalised(width, width, 3, stride), nn.ReLU(),
            *normalised(width, 4 * width, 1),
        )  # fmt: skip
        is_same = inside == 4 * width and stride == 1
        self.around = nn.Identity() if is_same else nn.Sequential(*normalised(inside, 4 * width, 1, stride))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Add both ways."""
        return torch.relu(self.body(data) + self.around(data))


def normalised(inside: int, outside: int, side: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    """Return a convolution and the normalisation behind it."""
    return nn.Conv2d(inside, outside, side, stride, side // 2, bias=False), nn.BatchNorm2d(outside)


def resnet50() -> nn.Module:
    """Return the same network on every rank: 161 tensors, 25.6 million parameters."""
    torch.manual_seed(5)
    layers: list[nn.Module] = [*normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, blocks in enumerate(BLOCKS):
        for block in range(blocks):
            layers.append(Bottleneck(inside, 64 << stage, 2 if stage > 0 and block == 0 else 1))
            inside = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def make_step(form: str, device: torch.device) -> Callable[[], None]:
    """Return what trains one step: `plain`, `ddp` or `roda`."""
    network: nn.Module = resnet50().to(device, memory_format=torch.channels_last)
    named = list(network.named_parameters())
    if form == "ddp":
        network = nn.parallel.DistributedDataParallel(network, [device.index] if on_gpu else None)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    if form == "roda":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)
    inputs = torch.randn(BATCH, 3, SIDE, SIDE, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (BATCH,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            loss = nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        optimizer.step()

    return step


def finish() -> None:
    """Wait for what the card has to do."""
    if on_gpu:
        torch.cuda.synchronize()


def join_processes() -> None:
    """Form PyTorch's own group of the job's ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = hvd.broadcast_object(free.getsockname()[1], root_rank=0)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=hvd.rank(), world_size=hvd.size()
    )


def compare(device: torch.device) -> None:
    """Print how long a step takes, by the median of rounds."""
    join_processes()
    forms = {form: make_step(form, device) for form in ("plain", "ddp", "roda")}
    times: dict[str, list[float]] = {form: [] for form in forms}
    for number in range(ROUNDS + 2):
        for form, step in forms.items():
            hvd.barrier()
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            finish()
            if number >= 2 or not on_gpu:
                times[form].append((time.perf_counter() - start) / STEPS)
    distributed.destroy_process_group()
    if hvd.rank() != 0 or not on_gpu:
        return
    name = f"step.np{hvd.size()}"
    medians = {form: statistics.median(some) for form, some in times.items()}
    for form, median in medians.items():
        print(f"{name}.{form} {1e3 * median:.2f} ms")
    print(f"{name}.roda_to_ddp {medians['roda'] / medians['ddp']:.3f} times", flush=True)


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
    step = make_step("roda", device)
    for _ in range(5 if on_gpu else 1):
        step()
    finish()
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiler:
        for _ in range(5 if on_gpu else 1):
            step()
        finish()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = path.read_text()
    spans = device_spans(json.loads(trace))
    if hvd.rank() != 0 or not spans:
        return
    if os.environ.get("OUTPUT"):
        (Path(os.environ["OUTPUT"]) / "trace.json").write_text(trace)
    # PyTorch computes on one stream, the one with most of the work in it; the rest are the engine's.
    computing = max(spans, key=lambda stream: length(spans[stream]))
    engine = [span for stream, some in spans.items() if stream != computing for span in some]
    busy, beside = length(engine), shared(engine, spans[computing])
    print(f"overlap.computing {length(spans[computing]) / 1e3:.2f} ms")
    print(f"overlap.engine {busy / 1e3:.2f} ms")
    print(f"overlap.beside {100 * beside / busy if busy else 0:.0f} %", flush=True)


def main() -> int:
    """Compare, or profile."""
    if os.environ.get("RODA_TEST_NCCL_SHARED_GPU") == "1":
        os.environ.setdefault("NCCL_HOSTID", f"roda-{os.getpid()}")  # PyTorch's NCCL must believe it, too
    hvd.init()
    if on_gpu:
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    if hvd.rank() == 0:
        where = torch.cuda.get_device_name() if on_gpu else "no CUDA in this PyTorch: ON THE CPU"
        print(f"# {where}, {hvd.size()} ranks, batches of {BATCH}")
    (profile_overlap if "--profile" in sys.argv else compare)(device)
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
