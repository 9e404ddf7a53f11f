"""Reduces Keras' gradients where they are arrays of a framework without sparse ones: PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod.common.basics import Average
from horovod.common.claimant import Claimant
from horovod.common.process_sets import ProcessSet


class DenseReducer:
    """Reduces gradients; arguments and methods as of ``horovod.tensorflow._gradients.GradientReducer``.

    The first argument is the framework's function. There are no sparse gradients, and no groups: all gradients travel
    as one. The `options` of these, and of devices, are ignored.
    """

    def __init__(
        self,
        grouped_allreduce: Callable[..., list[Any]],
        name: str,
        *,
        compression: Any,
        op: int,
        gradient_predivide_factor: float,
        process_set: ProcessSet,
        scale_local_gradients: bool,
        **options: Any,
    ) -> None:
        del options
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._grouped_allreduce = grouped_allreduce
        self._name = name
        self._how = {
            "compression": compression,
            "op": op,
            "prescale_factor": 1.0 / gradient_predivide_factor,
            "postscale_factor": gradient_predivide_factor,
            "process_set": process_set,
        }
        self._process_set = process_set
        self._claimant = Claimant(process_set)
        self._scale_local = scale_local_gradients
        self._local: set[str] = set()

    def register_local(self, variable: Any) -> None:
        """Leave the gradient of a variable as it is on every rank."""
        self._local.add(variable.path)

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
            name = f"keras.{self._name}.{len(places)}"
            name = self._claimant.prefix([name]) + name
            reduced = self._grouped_allreduce([results[i] for i in places], name=name, **self._how)
            for i, gradient in zip(places, reduced):
                results[i] = gradient
        return results

    def reduce_accumulated(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Reduce what the optimizer added up over several passes."""
        return self.reduce(gradients, variables)
