"""A port that strangers may come to: what they can hold is bounded, whatever they send and however many they are."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from horovod.runner.util import network
from horovod.runner.util.threads import in_thread

STRANGER_SECONDS = 10.0  # for all that a stranger says and takes
_MOST_STRANGERS = 1024  # at a time; fewer where the limit on descriptors is low
_AT_ONCE = 16  # of those who wait to be let in: who is inside is heard between
_PAUSE_SECONDS = 0.1  # without descriptors, and nobody to take one from

Judge = Callable[[bytearray], "bytes | None"]


def keep_alive(connection: socket.socket) -> None:
    """Have the system notice within half a minute that the other host is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Stranger:
    """A caller that is not through. Every caller has as long, so a Door's oldest is the first to be late."""

    def __init__(self, connection: socket.socket, peer: Any, judge: Judge) -> None:
        self.connection, self.peer, self.judge = connection, peer, judge
        self.deadline = time.monotonic() + STRANGER_SECONDS
        self.heard = bytearray()
        self.answer: memoryview | None = None  # what is left of it


class Door:
    """Hears what strangers say first, and answers: one thread, and a few bytes for each of at most 1,024.

    Strangers who come when there are so many, or no descriptors are left, take the place of the oldest.

    Parameters
    ----------
    address : str
        To listen at; ``::`` for IPv4, too.
    greet : callable
        Called for each who comes; returns what is said first, and a function that judges all that was heard so far:
        it returns the answer, or None while more is to come, and raises an OSError for whom to hang up on.
    most_bytes : int
        Who is not through after so many is hung up on; no more are read.
    name : str
        The thread's.
    admit : callable, optional
        ``admit(connection, peer)`` gets whoever was answered, on the Door's thread: it must not wait. Without it the
        connection ends with the answer.
    port : int
        To listen on; 0: any free one.
    """

    def __init__(
        self,
        address: str,
        greet: Callable[[], tuple[bytes, Judge]],
        most_bytes: int,
        name: str,
        admit: Callable[[socket.socket, Any], None] | None = None,
        port: int = 0,
    ) -> None:
        self._greet, self._most_bytes, self._admit = greet, most_bytes, admit
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = _MOST_STRANGERS if soft < 0 else max(4, min(_MOST_STRANGERS, soft // 4))
        self._strangers: dict[int, _Stranger] = {}  # by descriptor, the oldest first
        self._listener = network.listen(address, backlog=128, port=port)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for source in (self._listener, self._woken):
            self._selector.register(source, selectors.EVENT_READ)
        self._thread = in_thread(self._run, name=name)

    def close(self) -> None:
        """Let nobody in any more, and hang up on strangers. Any thread, any number of times."""
        with contextlib.suppress(OSError):
            self._wake.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # --- the thread ---

    def _run(self) -> None:
        try:
            while True:
                ready = [key.fileobj for key, _ in self._selector.select(self._seconds_left())]
                if self._woken in ready:
                    return
                for source in ready:
                    if source is not self._listener:
                        self._serve(self._strangers[source.fileno()])  # type: ignore[union-attr]
                if self._listener in ready:
                    self._let_in()
                while self._strangers and self._oldest().deadline <= time.monotonic():
                    self._drop(self._oldest())
        finally:
            for stranger in list(self._strangers.values()):
                self._drop(stranger)
            for each in (self._selector, self._listener, self._woken):
                each.close()

    def _oldest(self) -> _Stranger:
        return next(iter(self._strangers.values()))

    def _seconds_left(self) -> float | None:
        return max(0.0, self._oldest().deadline - time.monotonic()) if self._strangers else None

    def _let_in(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = self._listener.accept()
            except (BlockingIOError, ConnectionError):  # nobody, or nobody any more
                return
            except OSError:  # no descriptors are left
                if self._strangers:
                    self._drop(self._oldest())
                else:
                    time.sleep(_PAUSE_SECONDS)
                return
            self._welcome(connection, peer)

    def _welcome(self, connection: socket.socket, peer: Any) -> None:
        if len(self._strangers) >= self._most:
            self._drop(self._oldest())
        greeting, judge = self._greet()
        try:
            connection.setblocking(False)
            keep_alive(connection)
            connection.send(greeting)
            self._selector.register(connection, selectors.EVENT_READ)
        except OSError:
            connection.close()
            return
        self._strangers[connection.fileno()] = _Stranger(connection, peer, judge)

    def _serve(self, stranger: _Stranger) -> None:
        try:
            if not self._hear(stranger):
                return
            self._forget(stranger)
            if self._admit is None:
                stranger.connection.close()
            else:
                stranger.connection.setblocking(True)
                self._admit(stranger.connection, stranger.peer)
        except BlockingIOError:
            return
        except (OSError, RuntimeError):  # the latter: no thread can be started for it
            self._drop(stranger)

    def _hear(self, stranger: _Stranger) -> bool:
        """Go on with a stranger; tell whether the answer is out."""
        connection = stranger.connection
        if stranger.answer is None:
            data = connection.recv(self._most_bytes - len(stranger.heard))
            stranger.heard += data
            answer = stranger.judge(stranger.heard) if data else None
            if answer is None:
                if not data or len(stranger.heard) >= self._most_bytes:
                    raise ConnectionError
                return False
            stranger.answer = memoryview(answer)
            self._selector.modify(connection, selectors.EVENT_WRITE)
        stranger.answer = stranger.answer[connection.send(stranger.answer) :]
        return not stranger.answer

    def _forget(self, stranger: _Stranger) -> None:
        if self._strangers.pop(stranger.connection.fileno(), None) is not None:
            self._selector.unregister(stranger.connection)

    def _drop(self, stranger: _Stranger) -> None:
        self._forget(stranger)
        stranger.connection.close()
