"""Names in use by the optimizers of a process: two of them may have parameters with the same names."""

from __future__ import annotations

from collections.abc import Iterable


class Claims:
    """Names that the optimizers of one process set match their tensors by, until all ranks count anew.

    The first optimizer keeps its names. A later one that has some of them puts its number before all of its own: that
    depends on the order in which optimizers are first used, not on when they are made or deleted, so that ranks agree
    which came into the job at different times.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._last = 1
        self.made = 0  # optimizers so far

    def prefix(self, names: Iterable[str]) -> str:
        """Claim names; return what to put before each: nothing, or a number where one is claimed already."""
        names = set(names)
        is_free = self._names.isdisjoint(names)
        self._names |= names
        if is_free:
            return ""
        self._last += 1
        return f"optimizer.{self._last}."
