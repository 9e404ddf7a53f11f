"""Keras on PyTorch: gradients are reduced when the backward pass is done, as one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import horovod.torch as hvd
from horovod.common.process_sets import ProcessSet

COMPILES = False

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
    hvd.broadcast_parameters([(f"keras.{i}", variable.value.data) for i, variable in enumerate(variables)], root_rank)


def broadcast_global_variables(root_rank: int) -> None:
    """Raise RuntimeError: there is no graph whose variables they were."""
    raise RuntimeError(
        "hvd.broadcast_global_variables() does not support eager execution. Use "
        "hvd.callbacks.BroadcastGlobalVariablesCallback."
    )


class GradientReducer:
    """Reduces gradients; arguments and methods as of ``horovod.tensorflow._gradients.GradientReducer``.

    There are no sparse gradients, and no groups: what travels at the same time is fused as far as it goes.
    """

    def __init__(
        self, compression: Any, op: int, gradient_predivide_factor: float, process_set: ProcessSet, scale_local: bool
    ) -> None:
        if gradient_predivide_factor != 1.0 and op != hvd.Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._how = {
            "compression": compression,
            "op": op,
            "prescale_factor": 1.0 / gradient_predivide_factor,
            "postscale_factor": gradient_predivide_factor,
            "process_set": process_set,
        }
        self._process_set = process_set
        self._scale_local = scale_local
        self._local: set[str] = set()

    def register_local(self, variable: Any) -> None:
        """Leave the gradient of a variable as it is on every rank."""
        self._local.add(variable.path)

    @torch.no_grad()
    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients, in their order; None stays None."""
        results = list(gradients)
        if not self._process_set.included():
            return results
        places = []
        for i, (gradient, variable) in enumerate(zip(results, variables)):
            if gradient is None:
                continue
            if variable.path not in self._local:
                places.append(i)
            elif self._scale_local:
                results[i] = gradient / self._process_set.size()
        if places:
            name = f"keras.gradients.{len(places)}"
            reduced = hvd.grouped_allreduce([results[i].contiguous() for i in places], name=name, **self._how)
            for i, gradient in zip(places, reduced):
                results[i] = gradient
        return results


def make_reducer(
    name: str, device_dense: str, device_sparse: str, compression: Any, sparse_as_dense: bool, op: int,
    gradient_predivide_factor: float, groups: Any, process_set: ProcessSet, scale_local_gradients: bool,
) -> GradientReducer:  # fmt: skip
    """Return what reduces gradients."""
    return GradientReducer(compression, op, gradient_predivide_factor, process_set, scale_local_gradients)
