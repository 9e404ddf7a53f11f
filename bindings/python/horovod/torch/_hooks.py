"""Gradients: being told when one is complete, and standing in for one that does not come."""

from __future__ import annotations

import weakref
from typing import Any

import torch


def on_gradient(parameter: torch.Tensor, callback: Any) -> Any:
    """Call ``callback(parameter)`` in every backward pass, once ``parameter.grad`` holds the pass's gradient.

    Parameters
    ----------
    parameter : torch.Tensor
        A leaf that requires a gradient.
    callback : bound method
        Its object is not kept alive: when that dies, the hook goes with it.

    Returns
    -------
    object
        Keeps the hook alive (before torch 2.1); its ``remove()`` ends it.
    """
    method = weakref.WeakMethod(callback)

    def call(ready: torch.Tensor) -> None:
        target = method()
        if target is not None:
            target(ready)

    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    if register is not None:
        hook = register(call)
        weakref.finalize(callback.__self__, hook.remove).atexit = False
        return hook
    # Older torch: the node that accumulates the gradient is reached through a view of the parameter.
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: call(parameter))
    return accumulator


def end_hooks(optimizer: Any) -> None:
    """Have a distributed optimizer hear of no more gradients, though somebody still holds it."""
    while optimizer._hooks:
        optimizer._hooks.pop().remove()


def zero_gradient(parameter: torch.Tensor, is_sparse: bool) -> torch.Tensor:
    """Return zeros to stand in for a gradient, sparse ones as the backward pass of an embedding makes them."""
    if not is_sparse:
        return torch.zeros_like(parameter)
    no_rows = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    values = parameter.new_empty((0, *parameter.shape[1:]))
    return torch.sparse_coo_tensor(no_rows, values, parameter.shape, check_invariants=False)
