"""Horovod's name for :mod:`horovod.spark.torch.data_loaders`."""

from __future__ import annotations

from horovod.spark.torch.data_loaders import (
    PytorchAsyncDataLoader,
    PytorchDataLoader,
    PytorchInfiniteAsyncDataLoader,
    PytorchInfiniteDataLoader,
    PytorchInmemAsyncDataLoader,
    PytorchInmemDataLoader,
)

__all__ = [
    "PytorchAsyncDataLoader",
    "PytorchDataLoader",
    "PytorchInfiniteAsyncDataLoader",
    "PytorchInfiniteDataLoader",
    "PytorchInmemAsyncDataLoader",
    "PytorchInmemDataLoader",
]
