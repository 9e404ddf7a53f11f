"""What a launcher writes to its own streams, without waiting for whoever reads them."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_MOST_PENDING = 1 << 20  # bytes that wait to be written before whoever prints has to wait, too
_AT_ONCE = 1 << 16
_ATOMIC = 4096  # a pipe that is ready takes so much without a wait


class Printer:
    """Writes to streams of this process from a thread: a stream that nobody reads holds nothing else up.

    Streams that are no files, as a notebook's, are written at once. All methods are for one thread.

    Parameters
    ----------
    wake : callable
        Called on the printer's thread when what waited has been written, or can't be.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed = threading.Condition()
        self._pieces: deque[tuple[Any, Any, bytes]] = deque()  # stream, the file below it, data
        self._pending = 0  # bytes, with those that are being written
        self._is_given_up = self._is_closed = False
        self._errors: deque[tuple[Any, OSError]] = deque()
        self._has_thread = False

    @property
    def is_full(self) -> bool:
        """Tell whether ranks that print have to wait."""
        return self._pending >= _MOST_PENDING and not self._is_given_up

    @property
    def is_idle(self) -> bool:
        """Tell whether all is written that can be."""
        return self._pending == 0 or self._is_given_up

    def give_up(self) -> None:
        """Forget the text that waits, and all text that comes."""
        with self._changed:
            self._is_given_up = True
            self._pieces.clear()
            self._changed.notify()

    def close(self) -> None:
        """Let the thread end once all is written."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def errors(self) -> list[tuple[Any, OSError]]:
        """Return the streams that could not be written since the last call, and why: a disk may be full.

        Raises
        ------
        BrokenPipeError
            When nobody can read one any more: that ends other programs, too.
        """
        found = [self._errors.popleft() for _ in range(len(self._errors))]
        for _, error in found:
            if isinstance(error, BrokenPipeError):
                raise error
        return found

    def writer(self, stream: Any) -> Callable[[str], None]:
        """Return what takes text for a stream; for one that is closed, or None, that drops it."""
        if stream is None or getattr(stream, "closed", False):
            return lambda _text: None
        binary = getattr(stream, "buffer", None)
        # What stays in a buffer that can't be flushed would be this process's end at its exit.
        raw = getattr(binary, "raw", binary)
        try:
            stream.flush()
            raw.fileno()  # type: ignore[union-attr]
            self._start()
        except (OSError, AttributeError, RuntimeError):  # what was printed can't be written; no file below; no thread
            return lambda text: self._write_at_once(stream, raw, text)
        return lambda text: self._put(stream, raw, text.encode("utf-8"))  # whatever the locale: ranks print UTF-8

    def _put(self, stream: Any, raw: Any, data: bytes) -> None:
        with self._changed:
            if self._is_given_up:
                return
            self._pieces.append((stream, raw, data))
            self._pending += len(data)
            self._changed.notify()

    def _start(self) -> None:
        if not self._has_thread:
            threading.Thread(target=self._run, name="horovod-printer", daemon=True).start()
            self._has_thread = True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces or self._is_given_up or self._is_closed)
                if not self._pieces:
                    return
                stream, raw, data = self._pieces.popleft()
                parts, size = [data], len(data)
                while self._pieces and self._pieces[0][1] is raw and size < _AT_ONCE:
                    parts.append(self._pieces.popleft()[2])
                    size += len(parts[-1])
            try:
                _write_all(raw, b"".join(parts))
            except (OSError, ValueError) as error:  # the second: it was closed meanwhile
                self._errors.append((stream, error if isinstance(error, OSError) else OSError(0, str(error))))
            with self._changed:
                was_full = self.is_full
                self._pending -= size
                is_news = self._errors or self._pending == 0 or (was_full and not self.is_full)
            if is_news:
                self._wake()

    def _write_at_once(self, stream: Any, raw: Any, text: str) -> None:
        try:
            stream.flush()
            if raw is None:
                stream.write(text)
                stream.flush()
            else:
                _write_all(raw, text.encode("utf-8"))
        except OSError as error:
            self._errors.append((stream, error))


def _is_ready(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be written; tell whether it can."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))


def _write_all(raw: Any, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = raw.write(rest)
        if written is None:  # a pipe that does not block is full
            _is_ready(raw.fileno())
        rest = rest[written or 0 :]


def say(text: str, seconds: float) -> None:
    """Write a line to this process's standard error, as far as that takes it within so many seconds."""
    if sys.stderr is None:
        return
    try:
        fd, ends = sys.stderr.fileno(), time.monotonic() + seconds
    except (OSError, AttributeError):  # no file
        print(text, file=sys.stderr, flush=True)
        return
    data = f"{text}\n".encode()
    with contextlib.suppress(OSError):
        while data and _is_ready(fd, ends - time.monotonic()):
            data = data[os.write(fd, data[:_ATOMIC]) :]


def open_closed_streams() -> None:
    """Open /dev/null in place of streams that this program was started without: nothing else may get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:  # those below are open, so that the number would have been this one, if it was free
            os.close(null)
        else:
            os.set_inheritable(null, True)
        setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: PTH123, SIM115 (for as long as the program)
