"""Variables of models and optimizers, in any Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def fetch_state(model: Any) -> None:
    """Bring a model's variables up to date, to be read and set within ``fit``: on JAX the step has them."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def shared(variables: Sequence[Any]) -> list[Any]:
    """Return those that all ranks shall have alike: not what an optimizer here adds up over several passes."""
    return [variable for variable in variables if not getattr(variable, "_is_ranks_own", False)]


def variables_of(optimizer: Any) -> list[Any]:
    """Return an optimizer's variables: in Keras 2 some have a method for it."""
    return list(optimizer.variables() if callable(optimizer.variables) else optimizer.variables)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Make an optimizer's variables, which the first step does else."""
    getattr(optimizer, "_create_all_weights", optimizer.build)(list(variables))
