"""Trains a small transformer to write like Shakespeare (examples/data/sonnets.txt), letter by letter.

    horovodrun -np 2 python examples/pytorch_transformer.py
    horovodrun -np 2 python examples/pytorch_transformer.py --sharded   # every rank keeps a part of Adam's state
    horovodrun -np 2 python examples/pytorch_transformer.py --ddp       # DistributedDataParallel over the backend roda
    torchrun --nproc-per-node 2 examples/pytorch_transformer.py --ddp

The batch of one step is shared out among the ranks, so any number of them that divides it trains the same model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional

TEXT = Path(__file__).parent / "data/sonnets.txt"
CONTEXT = 48


class Block(nn.Module):
    """Attention to what came before, then a layer for each letter alone."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what is known after this block."""
        rows, length, width = x.shape
        parts = self.inputs(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    """Predicts the next letter at every place of a text."""

    def __init__(self, letters: int, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, letters))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the scores of every letter to be the next."""
        places = torch.arange(text.shape[1], device=text.device)
        return self.scores(self.blocks(self.letter(text) + self.place(places)))


def load() -> tuple[torch.Tensor, str]:
    """Return the text as numbers, and the letters that they stand for."""
    text = TEXT.read_text()
    letters = "".join(sorted(set(text)))
    return torch.tensor([letters.index(letter) for letter in text]), letters


def own_batch(text: torch.Tensor, step: int, batch: int, rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's share of the pieces of text that one step learns from."""
    starts = torch.randint(len(text) - CONTEXT - 1, (batch,), generator=torch.Generator().manual_seed(step))
    mine = starts.view(size, -1)[rank]
    pieces = torch.stack([text[start : start + CONTEXT + 1] for start in mine])
    return pieces[:, :-1], pieces[:, 1:]


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    batch: int,
    place: tuple[int, int] = (0, 1),
    report: Callable[[int, torch.Tensor], None] = lambda step, loss: None,
) -> None:
    """Train as rank `place[0]` of `place[1]`."""
    text, _ = load()
    for step in range(steps):
        letters, following = own_batch(text, step, batch, *place)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(letters).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        report(step, loss.detach())


def make_model(seed: int = 7) -> Transformer:
    """Return a model that has learned nothing."""
    torch.manual_seed(seed)
    return Transformer(len(load()[1]))


def make_optimizer(model: nn.Module, lr: float = 0.003) -> torch.optim.Optimizer:
    """Return the optimizer of a single process."""
    return torch.optim.AdamW(model.parameters(), lr=lr)


@torch.no_grad()
def write(model: nn.Module, start: str, length: int) -> str:
    """Return a text that begins with `start`."""
    _, letters = load()
    text = torch.tensor([[letters.index(letter) for letter in start]])
    generator = torch.Generator().manual_seed(1)
    for _ in range(length):
        chances = model(text[:, -CONTEXT:])[:, -1].softmax(-1)
        text = torch.cat([text, torch.multinomial(chances, 1, generator=generator)], 1)
    return "".join(letters[i] for i in text[0])


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=24, help="pieces of text of one step, over all ranks")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--sharded", action="store_true", help="keep only a part of the optimizer's state on each rank")
    parser.add_argument("--ddp", action="store_true", help="use DistributedDataParallel over the backend roda")
    return parser.parse_args()


def main() -> None:
    """Train and show what was learned."""
    options = parse()
    torch.set_num_threads(1)
    if options.ddp:
        torch.distributed.init_process_group("roda")
    else:
        hvd.init()
    if options.batch % hvd.size():
        raise SystemExit(f"--batch {options.batch} cannot be shared out evenly among {hvd.size()} ranks")

    def report(step: int, loss: torch.Tensor) -> None:
        if (step + 1) % 10 == 0 or step + 1 == options.steps:
            mean = hvd.allreduce(loss, name="loss")
            if hvd.rank() == 0:
                print(f"step {step + 1:4d} loss {mean:.4f}", flush=True)

    model = make_model()
    optimizer = make_optimizer(model, options.lr)
    trained: nn.Module = model
    if options.ddp:
        trained = nn.parallel.DistributedDataParallel(model)
    else:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), sharded=options.sharded)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(trained, optimizer, options.steps, options.batch, (hvd.rank(), hvd.size()), report)
    if hvd.rank() == 0:
        kept = sum(v.numel() for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor))
        print(f"this rank keeps {kept} numbers of the optimizer's state")
        print(write(model, "Shall I", 200))
    if options.ddp:
        torch.distributed.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
