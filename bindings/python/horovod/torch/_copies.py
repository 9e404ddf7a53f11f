"""Distributed optimizers are started, and copied: by ``copy.deepcopy``, and by programs that copy their methods."""

from __future__ import annotations

import copy
from typing import Any


def distribute(optimizer: Any, *arguments: Any) -> None:
    """Start reducing an optimizer's gradients, and note which of its attributes that takes."""
    inherited = set(vars(optimizer))
    optimizer._start_distributing(*arguments)
    optimizer._own_attributes = set(vars(optimizer)) - inherited | {"_own_attributes"}


def wrapped(optimizer: Any) -> Any:
    """Return what ``super()`` is in a distributed optimizer's method.

    Programs copy these methods into a class that they make of the wrapped one, as Horovod itself does.
    """
    mro = type(optimizer).__mro__
    last = max(place for place, cls in enumerate(mro) if "_start_distributing" in vars(cls))
    return super(mro[last], optimizer)


def copy_optimizer(optimizer: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of a distributed optimizer, which is told of gradients as the original is. Not collective.

    The copy is of the original's parameters, or of what `memo` has for them, as when a model and its optimizer are
    copied together. Reductions that are under way belong to the original alone. What others set on the instance stays
    behind, as when torch copies an optimizer: a scheduler's ``step`` would go on to step the original.
    """
    cls: Any = type(optimizer)
    clone = memo[id(optimizer)] = cls.__new__(cls)
    clone.__setstate__(copy.deepcopy(optimizer.__getstate__(), memo))
    own = {name: vars(optimizer)[name] for name in optimizer._own_attributes}
    vars(clone).update(copy.deepcopy(own | {"_handles": {}, "_hooks": []}, memo))
    clone.set_backward_passes_per_step(clone.backward_passes_per_step)
    clone._hook_parameters()
    return clone
