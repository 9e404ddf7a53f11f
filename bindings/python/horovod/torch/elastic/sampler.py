"""A sampler that shares out what is left of an epoch among the workers that are there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Any

import torch

from horovod.torch.mpi_ops import rank, size

if TYPE_CHECKING:
    from torch.utils.data import Sampler

    class _Sampler(Sampler[int]): ...
else:  # no generic class before torch 2.1
    _Sampler = torch.utils.data.Sampler


class ElasticSampler(_Sampler):
    """Like ``torch.utils.data.DistributedSampler``, but remembers how far the epoch is.

    Parameters
    ----------
    dataset : sized
        What is sampled from; the same on all ranks.
    shuffle : bool
        Draw a new order, the same on all ranks, for each epoch.
    seed : int
        Of that order, together with the epoch; the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.rank = 0
        self.num_replicas = 1
        self.remaining_indices: list[int] = []
        self.indices: list[int] = []  # of this worker, in the iteration that began last
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: nothing of it is done yet. Call it at the end of an epoch, not when one is resumed."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Note that every worker did a batch, number `batch_idx` since the epoch began or was resumed."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """Return how far the sampler is."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler of the same dataset was."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Share out what is left of the epoch among the workers that are there now."""
        self.num_replicas = size()
        self.rank = rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)  # noqa: S311 (an order, no secret)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        repeats = -(-self.total_size // len(left)) if left else 0
        padded = (left * repeats)[: self.total_size]
        self.indices = padded[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
