"""Gradients averaged over the ranks: around an optimizer of MXNet's, and in gluon's trainer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import mxnet as mx

from horovod.common.basics import Average
from horovod.common.claimant import Claimant
from horovod.common.compression import Compressor, wire_format_of
from horovod.common.operations import member_names
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.mxnet import mpi_ops
from horovod.mxnet.compression import Compression


def _groups(count: int, num_groups: int) -> Iterator[slice]:
    """Cut `count` gradients into groups, as even as it goes; each for itself where there are none."""
    groups = min(num_groups, count) if num_groups else count
    for group in range(groups):
        yield slice(group * count // groups, (group + 1) * count // groups)


class _Averager:
    """Averages gradients; the last ones, which the backward pass computes first, start as soon as they are there."""

    def __init__(self, predivide_factor: float, num_groups: int, process_set: ProcessSet, wire_format: int = 0) -> None:
        if num_groups < 0:
            raise ValueError(f"num_groups is how many groups there are, or 0, not {num_groups}.")
        self._factors = (1.0 / predivide_factor, predivide_factor)
        self._num_groups = num_groups
        self._set = process_set
        self._wire_format = wire_format
        self._claimant = Claimant(process_set)

    def __call__(self, gradients: Sequence[Any], names: Sequence[str]) -> None:
        if self._set.included() is False or self._set.size() == 1:  # others step with gradients of their own
            return
        prefix = self._claimant.prefix(names)
        for place in _groups(len(gradients), self._num_groups):
            members = gradients[place]
            tensors = member_names("grouped_allreduce", prefix + names[place.start], self._set, len(members))
            terms = (*self._factors, self._set, Average, self._wire_format)
            mpi_ops._reduced(members, True, tensors, -place.start, *terms)


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Averages gradients in ``update``, and hands them to the optimizer that it wraps.

    Parameters
    ----------
    optimizer : mx.optimizer.Optimizer
        What updates the weights.
    gradient_predivide_factor : float
        Gradients are divided by it before they are summed, and the rest after.
    num_groups : int
        Gradients are averaged in as many groups; 0: each for itself.
    process_set : ProcessSet
        Who takes part.

    Raises
    ------
    TypeError
        For what is no optimizer of MXNet.
    """

    def __init__(
        self,
        optimizer: mx.optimizer.Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise TypeError(f"DistributedOptimizer() wraps an mx.optimizer.Optimizer, and got {optimizer!r:.60}.")
        # Not the base class's constructor: what the optimizer has stands in for what it would set.
        self._optimizer = optimizer
        self._average = _Averager(gradient_predivide_factor, num_groups, process_set)

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def create_state(self, index: Any, weight: Any) -> Any:
        """Return the optimizer's state for a weight."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Return the optimizer's state for a weight that may be in half precision."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduce(self, index: Any, grad: Any) -> None:
        if isinstance(index, (tuple, list)):
            self._average(list(grad), [str(i) for i in index])
        else:
            self._average([grad], [str(index)])

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradients and update the weights."""
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Average the gradients and update weights that may be in half precision."""
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr: float) -> None:
        """Set the optimizer's learning rate."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Any) -> None:
        """Set the factors of single weights' learning rates."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Any) -> None:
        """Set the factors of single weights' decays."""
        self._optimizer.set_wd_mult(args_wd_mult)


class DistributedTrainer(mx.gluon.Trainer):
    """gluon's trainer, with gradients that are averaged over the ranks.

    Parameters
    ----------
    params : dict or mx.gluon.ParameterDict
        With the same names on all ranks.
    optimizer : str or mx.optimizer.Optimizer
        As of gluon's trainer.
    optimizer_params : dict, optional
        As of gluon's trainer.
    compression : class
        ``Compression.none``, ``fp16``, or a wire format: ``int8``, ``int4``, ``fp8``, ``bf16_wire``.
    gradient_predivide_factor : float
        Gradients are divided by it before they are summed, and the rest after.
    prefix : str, optional
        Put in front of the gradients' names. Trainers without one are told apart by their numbers.
    num_groups : int
        Gradients are averaged in as many groups; 0: each for itself.
    process_set : ProcessSet
        Who takes part.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        compression: type[Compressor] = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
            warnings.warn(
                "DistributedTrainer averages by itself: the optimizer that the DistributedOptimizer wraps is used.",
                stacklevel=2,
            )
        ordered = [params[name] for name in sorted(params.keys())] if hasattr(params, "keys") else params
        super().__init__(ordered, optimizer, optimizer_params, kvstore=None)
        self._average = _Averager(gradient_predivide_factor, num_groups, process_set, wire_format_of(compression))
        self._compression = compression
        self._name_prefix = prefix or ""

    def _allreduce_grads(self) -> None:
        trained = [(i, parameter) for i, parameter in enumerate(self._params) if parameter.grad_req != "null"]
        gradients = [parameter.list_grad()[0] for _, parameter in trained]
        sent = [self._compression.compress(gradient) for gradient in gradients]
        self._average([compressed for compressed, _ in sent], [f"{self._name_prefix}{i}" for i, _ in trained])
        for gradient, (compressed, context) in zip(gradients, sent):
            if compressed is not gradient:
                gradient[:] = self._compression.decompress(compressed, context)
