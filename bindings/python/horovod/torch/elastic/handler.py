"""A handler looks after one value of an elastic state."""

from __future__ import annotations

from typing import Any


class StateHandler:
    """Knows how one kind of value is saved, restored and synchronised.

    Parameters
    ----------
    value : object
        The value to look after.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keep a copy of the value's state, in an object of its own: the last one may still be gone back to."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give all ranks the state of rank 0; collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Look after another value from now on, and save it."""
        self.value = value
        self.save()
