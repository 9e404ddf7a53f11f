"""Loaders of batches of PyTorch's tensors from petastorm's readers, or from any other iterable of rows."""

from __future__ import annotations

from horovod.spark.data_loaders.pytorch_data_loaders import *  # noqa: F403
