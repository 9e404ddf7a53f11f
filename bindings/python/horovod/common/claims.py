"""Names in use by the optimizers of a process: two of them may have parameters with the same names."""

from __future__ import annotations

from collections.abc import Iterable


class Claims:
    """Names that the optimizers of one process set match their tensors by, until all ranks count anew.

    The first optimizer keeps its names. A later one that has some of them puts its number before its own: that depends
    on the order in which optimizers are first used, not on when they are made or deleted, so that ranks agree which
    came into the job at different times, or of which one alone made some that it does not use.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._users: dict[str, set[int]] = {}
        self._last = 1
        self.made = 0  # optimizers so far, where a framework counts them

    def number(self, names: Iterable[str]) -> int:
        """Claim names; return 1, or a number of one's own where some are claimed already."""
        names = set(names)
        is_free = self._names.isdisjoint(names)
        self._names |= names
        if is_free:
            return 1
        self._last += 1
        return self._last

    def place(self, names: Iterable[str], made_as: int) -> int:
        """Return how many earlier optimizers claimed one of these names, where optimizers are counted."""
        earlier: set[int] = set()
        for name in names:
            earlier |= {other for other in self._users.setdefault(name, set()) if other < made_as}
            self._users[name].add(made_as)
        return len(earlier)

    def renew(self, names: Iterable[str], number: int) -> None:
        """Claim names under the number that they had before ranks began to count anew."""
        self._names |= set(names)
        self._last = max(self._last, number)


def prefix_of(number: int) -> str:
    """Return what stands before the names of an optimizer with this number."""
    return f"optimizer.{number}." if number > 1 else ""
