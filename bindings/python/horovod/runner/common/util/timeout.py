"""A deadline with a message."""

from __future__ import annotations

import time


class TimeoutException(Exception):
    """The deadline passed."""


class Timeout(float):
    """A deadline `timeout` seconds from now; as a number, `timeout`.

    Parameters
    ----------
    timeout : float
        Seconds.
    message : str
        With the placeholders ``{activity}`` and ``{timeout}``.
    """

    def __new__(cls, timeout: float, message: str = "") -> Timeout:  # noqa: D102
        return super().__new__(cls, timeout)

    def __init__(self, timeout: float, message: str) -> None:
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Return the seconds that are left, at least zero."""
        return max(0.0, self._deadline - time.monotonic())

    def timed_out(self) -> bool:
        """Tell whether the deadline passed."""
        return time.monotonic() >= self._deadline

    def check_time_out_for(self, activity: str) -> None:
        """Raise TimeoutException, naming `activity`, when the deadline passed."""
        if self.timed_out():
            raise TimeoutException(self._message.format(activity=activity, timeout=self._timeout))
