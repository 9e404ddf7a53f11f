"""A stream between threads."""

from __future__ import annotations

import threading
from typing import AnyStr, Generic


class Pipe(Generic[AnyStr]):
    """Hands what one thread writes, text or bytes, to another that reads. It holds one write at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rest: AnyStr | None = None
        self._closed = False

    def write(self, data: AnyStr) -> int:
        """Wait until all that was written before has been read, then take `data`; RuntimeError once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._rest is None)
            if self._closed:
                raise RuntimeError("Pipe is closed.")
            if data:
                self._rest = data
                self._changed.notify_all()
            return len(data)

    def read(self, length: int = -1, timeout: float | None = None) -> AnyStr | None:
        """Wait for something to read.

        Parameters
        ----------
        length : int
            How much at most; not positive: all that there is.
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        str or bytes or None
            None after the last of a pipe that was closed, or when the time is up.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._rest is not None, timeout)
            if self._rest is None:
                return None
            cut = length if length > 0 else len(self._rest)
            data, self._rest = self._rest[:cut], self._rest[cut:] or None
            self._changed.notify_all()
            return data

    def flush(self, timeout: float | None = None) -> None:
        """Nothing is held back from a reader: there is nothing to do."""
        del timeout

    def close(self) -> None:
        """Let readers come to an end, after what was written, and refuse further writes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
