"""Loaders that read ahead, different numbers of batches, and gradients of an embedding, sparse and dense."""

from __future__ import annotations

from collections.abc import Iterator

import horovod.torch as hvd
import torch
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[torch.Tensor]:
        for i in range(self.count):
            yield torch.tensor([i, i + 1])

    def _process_batch(self, batch: torch.Tensor) -> torch.Tensor:
        return batch % 5


class AsyncNumbers(AsyncDataLoaderMixin, Numbers):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)


hvd.init()
for is_sparse in (True, False):
    loader = AsyncNumbers(async_loader_queue_size=2, count=3 if is_sparse else 3 + hvd.rank())
    embedding = torch.nn.Embedding(5, 1, sparse=is_sparse)
    torch.nn.init.zeros_(embedding.weight)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=embedding.named_parameters(), op=hvd.Sum, sparse_as_dense=not is_sparse
    )
    for batch in loader:
        optimizer.zero_grad()
        embedding(batch).sum().backward()
        optimizer.step()
    loader.close_async_loader()
    if not is_sparse:
        hvd.broadcast_parameters(embedding.state_dict(), root_rank=hvd.join())
    print(f"{hvd.rank()} of {len(loader)} batches, sparse {is_sparse}: {embedding.weight.flatten().tolist()}")
