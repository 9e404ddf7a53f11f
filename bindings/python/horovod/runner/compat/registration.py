"""The fates of an elastic job's workers, slot by slot."""

from __future__ import annotations

import threading
from typing import Any

READY = "READY"
SUCCESS = "SUCCESS"
FAILURE = "FAILURE"


class WorkerStateRegistry:
    """A record of the last that each slot's worker did. What follows from it, the driver decides. Any thread.

    Parameters
    ----------
    driver, host_manager, verbose
        Of no effect.
    reset_limit : int, optional
        Of no effect: the driver has it.
    """

    def __init__(self, driver: Any, host_manager: Any, reset_limit: int | None = None, verbose: bool = False) -> None:
        del driver, host_manager, reset_limit, verbose
        self._lock = threading.Lock()
        self._states: dict[tuple[str, int], str] = {}
        self._size = 0
        self._resets = 0

    def get_recorded_slots(self) -> set[tuple[str, int]]:
        """Return the slots of which something is known, as (host, slot)."""
        with self._lock:
            return set(self._states)

    def get(self, state: str) -> set[tuple[str, int]]:
        """Return the slots whose worker did that."""
        with self._lock:
            return {slot for slot, known in self._states.items() if known == state}

    def count(self, state: str) -> int:
        """Return how many those are."""
        return len(self.get(state))

    def total_count(self) -> int:
        """Return of how many slots something is known."""
        return len(self.get_recorded_slots())

    def size(self) -> int:
        """Return how many workers the generation has."""
        return self._size

    def last_rendezvous(self) -> int:
        """Return how many generations there have been."""
        return self._resets

    def reset(self, size: int) -> None:
        """Begin a generation of so many workers: nothing is known of them."""
        with self._lock:
            self._states.clear()
            self._size = size
            self._resets += 1

    def record_ready(self, host: str, slot: int) -> int:
        """Note that a worker waits for the next generation."""
        return self._record(host, slot, READY)

    def record_success(self, host: str, slot: int) -> int:
        """Note that a worker has ended well."""
        return self._record(host, slot, SUCCESS)

    def record_failure(self, host: str, slot: int) -> int:
        """Note that a worker has failed."""
        return self._record(host, slot, FAILURE)

    def _record(self, host: str, slot: int, state: str) -> int:
        with self._lock:
            self._states[host, slot] = state
            return self._resets
