"""Trains on the card through horovod.torch; run by tests/gpu/run.sh in every rank of a job.

A small network is trained by every form of the optimizer, and its parameters are compared with what plain PyTorch gets
on the CPU from the whole batch; and a CUDA graph is recorded. Without CUDA in this PyTorch the same runs on the CPU, to
check this file and nothing else.
"""

from __future__ import annotations

import sys

import horovod.torch as hvd
import torch
from torch import nn

STEPS = 20
BATCH = 48  # of all ranks together

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


def check_recording(device: torch.device) -> bool:
    """Have a stream record a CUDA graph: a collective is refused, and the recording is as if it had not been asked."""
    data, graph, text = torch.ones(8, device=device), torch.cuda.CUDAGraph(), ""
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        doubled = data * 2
        try:
            hvd.allreduce(data, name="recorded")
        except Exception as error:
            text = str(error)
    graph.replay()
    well = "CUDA graph" in text and bool((doubled == 2).all())
    print(f"training.recording: {'refused, and not spoilt' if well else f'WRONG: {text}'}", flush=True)
    return well


def main() -> int:
    """Run all parts."""
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
        all_well = check_recording(device) and all_well
    hvd.shutdown()
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
