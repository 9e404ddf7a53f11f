"""Keras on PyTorch: gradients are reduced when the backward pass is done, as one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import horovod.torch as hvd
from horovod._keras.reducer import DenseReducer
from horovod._keras.variables import shared

COMPILES = False
XLA_HAS_OPS = True  # which Keras leaves to torch

broadcast_object = hvd.broadcast_object


def tensor(value: Any) -> torch.Tensor:
    """Return a tensor of a plain value; Python's numbers in double precision."""
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))


def evaluate(result: torch.Tensor) -> Any:
    """Return a result as NumPy's."""
    return result.detach().cpu().numpy()


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> None:
    """Give the root's values to the variables of all ranks."""
    # Named by their places: Keras counts what it makes, and ranks may have made more.
    values = [variable.value.data for variable in shared(variables)]
    hvd.broadcast_parameters([(f"keras.{i}", value) for i, value in enumerate(values)], root_rank)


def broadcast_global_variables(root_rank: int) -> None:
    """Raise RuntimeError: there is no graph whose variables they were."""
    raise RuntimeError(
        "hvd.broadcast_global_variables() does not support eager execution. Use "
        "hvd.callbacks.BroadcastGlobalVariablesCallback."
    )


@torch.no_grad()
def _grouped_allreduce(tensors: Sequence[torch.Tensor], **how: Any) -> list[torch.Tensor]:
    return hvd.grouped_allreduce([tensor.contiguous() for tensor in tensors], **how)


def make_reducer(name: str, **options: Any) -> DenseReducer:
    """Return the reducer of an optimizer's gradients; options as of ``DenseReducer``."""
    return DenseReducer(_grouped_allreduce, name, **options)
