"""Parameters and optimizer state, sent from one rank to all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from horovod.common.objects import allgather_object as allgather_object, broadcast_object as broadcast_object
from horovod.torch._hooks import zero_gradient
from horovod.torch.mpi_ops import broadcast_async_, rank, synchronize


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int) -> None:
    """Copy the root's parameters to all ranks, in place.

    Parameters
    ----------
    params : mapping or list
        ``model.state_dict()``, ``model.named_parameters()`` as a list, or a list of tensors. Entries that are no
        tensors are left alone.
    root_rank : int
        The rank that has the values.

    Raises
    ------
    ValueError
        For an optimizer's state, and for what is none of these.
    """
    if isinstance(params, Mapping):
        if "param_groups" in params:
            raise ValueError("invalid params: these are an optimizer's; call broadcast_optimizer_state(optimizer, ...)")
        named = sorted(params.items())
    elif isinstance(params, list):
        named = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}; give model.state_dict(), or a list")
    waiting: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    for name, parameter in named:
        if not isinstance(parameter, torch.Tensor):
            continue
        target = parameter.detach()
        buffer = target.contiguous()  # the tensor itself unless it is strided
        handle = broadcast_async_(buffer, root_rank, name)
        waiting.append((handle, target, buffer))
    for handle, target, buffer in waiting:
        synchronize(handle)
        if buffer.data_ptr() != target.data_ptr():
            target.copy_(buffer)


# --- optimizer state ---


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Make the optimizer's options and state equal to the root's on all ranks.

    No step is made: what the root has no state for has none anywhere afterwards, and training goes on, or begins, as
    the root's would. On a rank whose optimizer has no state, parameters without a gradient get one of zeros.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Plain or distributed.
    root_rank : int
        The rank that has the values.
    model : torch.nn.Module, optional
        Where to look for parameters with sparse gradients.

    Raises
    ------
    TypeError
        For what is no optimizer.
    ValueError
        For LBFGS, whose state is no tensors of parameters.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"broadcast_optimizer_state() takes a torch.optim.Optimizer, and got {type(optimizer).__name__}."
        )
    if hasattr(optimizer, "_broadcast_state"):  # sharded: the ranks have different parts
        optimizer._broadcast_state(root_rank)
        return
    sparse = _sparse_parameters(optimizer, model)
    getattr(optimizer, "_sparse", set()).update(sparse)  # a distributed one: what to send for an unused embedding
    if not optimizer.state:
        _create_gradients(optimizer, sparse)
    plan = broadcast_object(_describe(optimizer) if rank() == root_rank else None, root_rank, "optimizer_state")
    for group, options in zip(optimizer.param_groups, plan["options"]):
        group.update(options)
    tensors: dict[str, torch.Tensor] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        entries = plan["state"].get(index)
        if entries is None:
            optimizer.state.pop(parameter, None)
            continue
        state = optimizer.state.setdefault(parameter, {})
        for key in [key for key in state if key not in entries]:
            del state[key]
        for key, entry in entries.items():
            if not isinstance(entry, _TensorSpec):
                state[key] = entry
                continue
            if not entry.matches(state.get(key)):
                state[key] = entry.make(parameter)
            tensors[f"{key}.{index}"] = state[key]
    if tensors:
        broadcast_parameters(tensors, root_rank)


class _TensorSpec:
    """The facts of a state tensor that a rank must know to receive it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.on_host = tuple(tensor.shape), tensor.dtype, tensor.is_cpu

    def matches(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and (tuple(value.shape), value.dtype) == (self.shape, self.dtype)

    def make(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return a tensor to receive it, laid out as the optimizer's own where it is a parameter's counterpart."""
        device = torch.device("cpu") if self.on_host else parameter.device
        if self.shape == tuple(parameter.shape):
            return torch.empty_like(parameter, dtype=self.dtype, device=device, requires_grad=False)
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def _describe(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    options = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    state: dict[int, dict[str, Any]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        if parameter in optimizer.state:
            entries = optimizer.state[parameter].items()
            state[index] = {k: _TensorSpec(v) if isinstance(v, torch.Tensor) else v for k, v in entries}
    return {"options": options, "state": state}


def _sparse_parameters(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> set[torch.Tensor]:
    if isinstance(optimizer, torch.optim.SparseAdam):
        return {parameter for group in optimizer.param_groups for parameter in group["params"]}
    modules = model.modules() if model is not None else ()
    return {m.weight for m in modules if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and m.sparse}


def _create_gradients(optimizer: torch.optim.Optimizer, sparse: set[torch.Tensor]) -> None:
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = zero_gradient(parameter, parameter in sparse)
