"""Being told when a parameter's gradient is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def on_gradient(parameter: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> Any:
    """Call ``callback(parameter)`` in every backward pass, once ``parameter.grad`` holds the pass's gradient.

    Returns
    -------
    object
        Keeps the hook alive; drop it to lose the hook (before torch 2.1), or call its ``remove()``.
    """
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    if register is not None:
        return register(callback)
    # Older torch: the node that accumulates the gradient is reached through a view of the parameter.
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: callback(parameter))
    return accumulator
