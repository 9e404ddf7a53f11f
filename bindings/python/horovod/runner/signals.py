"""Signals that end a program, while it runs a job that must end first."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Waker:
    """Wakes one thread that waits for descriptors; a closed one does nothing."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a signal comes."""
        return self._read.fileno()

    def wakes_by(self) -> int:
        """Return the descriptor that wakes when a byte is written to it."""
        return self._write.fileno()

    def wake(self) -> None:
        """Wake the thread; any thread and any time."""
        with contextlib.suppress(OSError):
            self._write.send(b"w")

    def calm(self) -> bytes:
        """Return the bytes that it was woken by, and let the next one wake again."""
        try:
            return self._read.recv(1 << 12)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Take no more."""
        self._read.close()
        self._write.close()


class EndingSignals:
    """Collects the signals that would end this program; :func:`deliver` them afterwards.

    A signal that the program ignores, as under ``nohup``, or that is not Python's to handle, stays so. In a thread that
    is not the main one nothing is collected: Python handles signals in that one alone.

    Parameters
    ----------
    on_signal : callable
        ``on_signal(number)``: called between two instructions of the main thread.

    Attributes
    ----------
    arrived : list of int
        In their order.
    waker : Waker
        Wakes whoever waits when any signal comes.
    """

    def __init__(self, on_signal: Callable[[int], None] = lambda _number: None) -> None:
        self.arrived: list[int] = []
        self.waker = Waker()
        self._on_signal = on_signal
        self._before: dict[int, Any] = {}
        self._fd_before = -1
        self._others = b""  # signals of which another loop of the program, asyncio's as a rule, is told by descriptor

    def catch(self) -> None:
        """Begin to collect."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._fd_before = signal.set_wakeup_fd(self.waker.wakes_by(), warn_on_full_buffer=False)
        for number in _ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._take)

    def calm(self) -> None:
        """Let the next signal wake again."""
        self._others += bytes(number for number in self.waker.calm() if number not in self._before)

    def restore(self) -> None:
        """Collect no more signals: they do again what they did before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._fd_before)
            self.calm()
            if self._fd_before >= 0 and self._others:
                with contextlib.suppress(OSError):
                    os.write(self._fd_before, self._others)
        self.waker.close()

    def _take(self, number: int, _: FrameType | None) -> None:
        self.arrived.append(number)
        self._on_signal(number)


class JobInterruptedError(RuntimeError):
    """The launcher was told to stop by a signal.

    Attributes
    ----------
    signals : tuple of int
        All that came, in their order.
    exit_code : int
        128 + n for the first.
    """

    def __init__(self, *signals: int) -> None:
        super().__init__(f"The job was ended by {signal.Signals(signals[0]).name}.")
        self.signals = signals
        self.exit_code = 128 + signals[0]


@contextlib.contextmanager
def delivered() -> Iterator[None]:
    """Let signals that ended a job within do to this program what they would have done without it."""
    try:
        yield
    except JobInterruptedError as error:
        deliver(error.signals)
        raise  # the program goes on


def deliver(numbers: Sequence[int]) -> None:
    """Let signals end this program or call its handlers, as they would have when they came."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            deliver(numbers[1:])
