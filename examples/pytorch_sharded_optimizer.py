"""Every rank keeps the optimizer's state of its part of each parameter, and a checkpoint holds it whole.

horovodrun -np 2 python examples/pytorch_sharded_optimizer.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.nn import functional


def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a model and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    return model, hvd.DistributedOptimizer(optimizer, model.named_parameters(), sharded=True)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> float:
    """Train to add up numbers; return the last loss."""
    for step in steps:
        torch.manual_seed(step * hvd.size() + hvd.rank())
        x = torch.randn(32, 16)
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.clip_grad_norm_(10.0)
        optimizer.step()
    return hvd.allreduce(loss.detach(), name="loss").item()


def main() -> None:
    """Train, save, and go on from the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir(), "roda-sharded.pt"))
    path = parser.parse_args().checkpoint
    hvd.init()
    torch.set_num_threads(1)
    model, optimizer = make()
    loss = train(model, optimizer, range(150))
    kept = sum(v.numel() for state in optimizer.state.values() for v in state.values())
    everything = {"model": model.state_dict(), "optimizer": optimizer.full_state_dict()}  # collective
    if hvd.rank() == 0:
        whole = 2 * sum(parameter.numel() for parameter in model.parameters())
        print(f"loss {loss:.4f}; rank 0 keeps {kept} of {whole} numbers of Adam's state")
        torch.save(everything, path)
    hvd.barrier()

    model, optimizer = make()
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loss = train(model, optimizer, range(150, 250))
    if hvd.rank() == 0:
        print(f"loss {loss:.4f} after going on from {path}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
