"""``DistributedOptimizer``: reduces gradients while the backward pass still runs, then steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from horovod.common.basics import Adasum, Average, Max, Min, Product, Sum
from horovod.common.compression import wire_format_of
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch._adasum_optimizer import DistributedAdasumMixin
from horovod.torch._copies import distribute
from horovod.torch._distributed_optimizer import DistributedMixin
from horovod.torch._names import checked_names
from horovod.torch._sharded_optimizer import ShardedMixin
from horovod.torch.compression import Compression, Compressor, compressor_of
from horovod.torch.mpi_ops import rocm_built, size

# Horovod's names of the classes: other code imports them to say what its functions take.
_DistributedOptimizer = DistributedMixin
_DistributedAdasumOptimizer = DistributedAdasumMixin

if TYPE_CHECKING:

    class Distributed(ShardedMixin, Any):
        """The interface of the result, whose class is made of the optimizer's own when the program runs.

        Any stands for that one: the result may take the optimizer's name, whatever its class.
        `clip_grad_norm_` and `full_state_dict` are there with ``sharded=True``.
        """


def DistributedOptimizer(  # noqa: N802 (the name is the contract's)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    sharded: bool = False,
    gradient_as_bucket_view: bool = False,
    unused_as_none: bool = False,
) -> Distributed:
    """Wrap an optimizer so that it steps with gradients reduced over all ranks.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The one to wrap; the result takes over its groups, state and hooks.
    named_parameters : iterable of (str, torch.Tensor), optional
        ``model.named_parameters()``: names that the ranks match by. Without it they are numbered.
    compression : Compressor
        Applied to what travels; see :func:`allreduce`. Adasum and `sharded` are exact where it is a wire format.
    backward_passes_per_step : int
        Gradients are reduced after this many backward passes.
    op : int
        ``Average``, ``Sum`` or ``Adasum`` (which reduces the update instead of the gradient).
    gradient_predivide_factor : float
        With ``Average``: divide by this before the sum, and by ``size / factor`` after it.
    num_groups : int
        Deprecated name of an integer `groups`, which wins when both are given.
    groups : int or list of lists of torch.Tensor, optional
        Parameters whose gradients are reduced together: that many groups, or these.
    sparse_as_dense : bool
        Reduce sparse gradients as dense tensors.
    process_set : ProcessSet
        Who takes part.
    sharded : bool
        Keep on every rank the optimizer's state of its part of each parameter only. The parameters come out the same;
        ``docs/python.md`` says which optimizers can and what becomes of ``state_dict()``.
    gradient_as_bucket_view : bool
        Keep gradients in a few contiguous buckets, of which each ``.grad`` is a part, and reduce these as they lie.
        Where that is not possible, gradients are reduced as without it, and one warning says why.
    unused_as_none : bool
        Leave the gradient of a parameter None in a step in which no rank used it, as on one process: no weight decay,
        and no change by momentum. Otherwise it is zero then. Costs one more small allreduce a step. Not for Adasum.

    Returns
    -------
    torch.optim.Optimizer
        An instance of a subclass of the optimizer's class.

    Raises
    ------
    TypeError
        For what is no optimizer, and for an `op` that there is not.
    ValueError
        For an optimizer that is distributed already, and for arguments that do not go together.
    NotImplementedError
        For Adasum with another process set than the global one.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"DistributedOptimizer() wraps a torch.optim.Optimizer, and got {type(optimizer).__name__}.")
    if hasattr(optimizer, "_start_distributing"):
        raise ValueError("The optimizer is distributed already: give DistributedOptimizer() the one that it wraps.")
    if op not in (Average, Sum, Adasum, Min, Max, Product):
        raise TypeError(f"op is one of hvd.Average, Sum, Adasum, Min, Max and Product, not {op!r}")
    compressor_of(compression)
    if gradient_predivide_factor != 1.0:
        if rocm_built():
            raise ValueError("gradient_predivide_factor not supported yet with ROCm")
        if op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`.", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if sharded and groups:
        raise ValueError("sharded=True takes no groups: small pieces are fused by the engine.")
    use_delta = op == Adasum and size() > 1 and not sharded
    if unused_as_none and op == Adasum:
        raise ValueError("unused_as_none=True does not go with op=Adasum, which combines steps instead of gradients.")
    if gradient_as_bucket_view:
        gradient_as_bucket_view = _can_use_buckets(sharded, op, compression, groups)
    mixin = ShardedMixin if sharded else DistributedAdasumMixin if use_delta else DistributedMixin
    # The type is said to be of this module, because programs look for "horovod" in it to know that an optimizer is
    # distributed. The methods are in the class itself as well: programs copy them from there.
    members = {**vars(mixin), "__module__": __name__}
    cls: Any = type(optimizer.__class__.__name__, (mixin, optimizer.__class__), members)
    result = cls.__new__(cls)
    # The instance is taken over rather than built anew: whatever the class's constructor wants stays as it was given.
    # Functions set on the instance (a scheduler wraps `step`) belong to the old one.
    result.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k not in ("step", "zero_grad")})
    arguments: list[Any] = [checked_names(optimizer, named_parameters), compression, backward_passes_per_step]
    if use_delta:
        if process_set.process_set_id != 0:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
    elif sharded:
        arguments += [op, gradient_predivide_factor, sparse_as_dense, process_set, unused_as_none]
    else:
        arguments += [op, gradient_predivide_factor, groups, sparse_as_dense, process_set]
        arguments += [gradient_as_bucket_view, unused_as_none]
    distribute(result, *arguments)
    return result


def _can_use_buckets(
    sharded: bool, op: int, compression: type[Compressor], groups: int | Sequence[Sequence[torch.Tensor]] | None
) -> bool:
    """Tell whether gradients can be reduced in buckets; a warning says what is in the way."""
    obstacles = {
        "sharded=True reduces each parameter's gradient into parts": sharded,
        "Adasum combines each parameter by itself": op == Adasum,
        "compression makes a copy of each gradient": compression is not Compression.none
        and not wire_format_of(compression),
        "groups says what is reduced together": bool(groups),
    }
    reason = next((reason for reason, is_there in obstacles.items() if is_there), None)
    if reason is not None:
        warnings.warn(f"gradient_as_bucket_view=True has no effect: {reason}.", stacklevel=3)
    return reason is None
