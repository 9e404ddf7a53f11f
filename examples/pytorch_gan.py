"""Two networks learn against each other: a generator of points on a circle, and a discriminator of real and made ones.

horovodrun -np 2 python examples/pytorch_gan.py

Each network has a distributed optimizer. The generator's loss passes through the discriminator, whose parameters are
frozen then: else their gradients would be reduced, too, and nobody would wait for them.
"""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy


def make_network(inputs: int, outputs: int, seed: int) -> nn.Module:
    """Return a network with weights that are the same everywhere."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, outputs)).double()


def samples(step: int, rank: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rank's points on the circle, and the noise that the generator makes others of."""
    source = torch.Generator().manual_seed(1000 * step + rank)
    angle = 6.2832 * torch.rand(count, 1, generator=source, dtype=torch.float64)
    noise = torch.randn(count, 4, generator=source, dtype=torch.float64)
    return torch.cat([angle.cos(), angle.sin()], 1), noise


def train(steps: int, batch: int, ranks: list[int], is_distributed: bool = True) -> nn.Module:
    """Return the generator after so many steps, each on the samples of `ranks`."""
    generator, discriminator = make_network(4, 2, seed=1), make_network(2, 1, seed=2)
    optimizers = [torch.optim.Adam(m.parameters(), 0.003, betas=(0.5, 0.999)) for m in (discriminator, generator)]
    if is_distributed:  # in the same order on all ranks: both have parameters named 0.weight
        models = discriminator, generator
        optimizers = [hvd.DistributedOptimizer(o, m.named_parameters()) for o, m in zip(optimizers, models)]
    for step in range(steps):
        real, noise = (torch.cat(parts) for parts in zip(*[samples(step, rank, batch) for rank in ranks]))
        ones, zeros = torch.ones(len(real), 1).double(), torch.zeros(len(real), 1).double()
        made = generator(noise)

        optimizers[0].zero_grad()
        scores = discriminator(real), discriminator(made.detach())
        (cross_entropy(scores[0], ones) + cross_entropy(scores[1], zeros)).backward()
        optimizers[0].step()

        discriminator.requires_grad_(False)
        optimizers[1].zero_grad()
        cross_entropy(discriminator(made), ones).backward()
        optimizers[1].step()
        discriminator.requires_grad_(True)
    return generator


def main() -> None:
    """Train, and tell how far from the circle the points lie."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    hvd.init()
    torch.set_num_threads(1)
    generator = train(steps, 64 // hvd.size(), [hvd.rank()])
    with torch.no_grad():
        radius = generator(samples(steps, hvd.rank(), 500)[1]).norm(dim=1)
    error = hvd.allreduce((radius - 1).abs().mean(), name="error")
    if hvd.rank() == 0:
        print(f"mean distance from the circle {error.item():.3f} after {steps} steps on {hvd.size()} ranks")
    hvd.shutdown()


if __name__ == "__main__":
    main()
