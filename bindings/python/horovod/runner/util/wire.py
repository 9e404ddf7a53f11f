"""A connection between two processes of a job: each proves to the other that it knows a secret, then messages follow.

The side that was called asks with a nonce (32 bytes); the caller answers with a nonce of its own and its proof (64
bytes); the other side's proof (32 bytes) ends it. A proof is an HMAC-SHA256 of both nonces. Who repeats what it heard
on another connection is found out, and a stranger learns nothing that depends on the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import secrets
import socket
import struct
import time
from typing import Any, BinaryIO, Callable, Union

import cloudpickle

_NONCE_BYTES = 32
_DIGEST_BYTES = hashlib.sha256().digest_size
# No pickle begins with a zero: a proof is none of a message.
_CALLER, _CALLED = b"\0horovod caller", b"\0horovod called"
PROOF_BYTES = _NONCE_BYTES + _DIGEST_BYTES  # that the caller sends
_LENGTH = struct.Struct("i")
_MOST_BYTES = 1 << 28  # a message that says to be longer is none
_CHUNK = 1 << 20

Stream = Union[BinaryIO, io.BufferedIOBase]


def ask_for_proof(key: bytes) -> tuple[bytes, Callable[[bytes | bytearray], bytes | None]]:
    """Return the question for a caller, and what judges its answer: for :class:`horovod.runner.util.door.Door`."""
    question = secrets.token_bytes(_NONCE_BYTES)

    def judge(heard: bytes | bytearray) -> bytes | None:
        if len(heard) < PROOF_BYTES:
            return None
        nonces = question + heard[:_NONCE_BYTES]
        if not hmac.compare_digest(heard[_NONCE_BYTES:], _proof(key, _CALLER, nonces)):
            raise ConnectionError("the caller does not know the secret")
        return _proof(key, _CALLED, nonces)

    return question, judge


def prove(connection: socket.socket, key: bytes, seconds: float | None) -> None:
    """Prove to whom this process has called that it knows the secret, and have that proved in turn.

    Raises
    ------
    EOFError
        When the other side hangs up: this one's secret is not its own.
    ConnectionError
        When the other side does not know the secret.
    OSError
        When the connection fails, or after so many seconds (None: never).
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    question = _receive(connection, _NONCE_BYTES, deadline)
    own = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(own + _proof(key, _CALLER, question + own))
    if not hmac.compare_digest(_receive(connection, _DIGEST_BYTES, deadline), _proof(key, _CALLED, question + own)):
        raise ConnectionError("who was called does not know the secret")


def _proof(key: bytes, who: bytes, nonces: bytes | bytearray) -> bytes:
    return hmac.digest(key, who + nonces, "sha256")


def _receive(connection: socket.socket, count: int, deadline: float | None) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-3))
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError("the other side hung up before it proved that it knows the secret")
        data += piece
    return data


class Wire:
    """Writes and reads messages: HMAC-SHA256 of the body (32 bytes), its length (4 bytes, native order), the body.

    Parameters
    ----------
    key : bytes
        The secret. Who knows it may have any code run here: bodies are pickles.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, obj: Any, wfile: Stream) -> None:
        """Write one message."""
        body = cloudpickle.dumps(obj)
        wfile.write(self._digest(body) + _LENGTH.pack(len(body)) + body)
        wfile.flush()

    def read(self, rfile: Stream) -> Any:
        """Read one message of a peer that has proved to know the secret: a body is taken in before its HMAC is checked.

        Raises
        ------
        EOFError
            When there is none, or not all of one.
        ConnectionError
            When it was not made with the secret, or says to be longer than 256 MiB. It is not unpickled then.
        """
        digest = self._take(rfile, _DIGEST_BYTES)
        (length,) = _LENGTH.unpack(self._take(rfile, _LENGTH.size))
        if not 0 <= length <= _MOST_BYTES:
            raise ConnectionError(f"a message says to have {length} bytes; at most {_MOST_BYTES} are taken")
        body = self._take(rfile, length)
        if not hmac.compare_digest(digest, self._digest(body)):
            raise ConnectionError("Security error: digest did not match the message. Both ends need the same secret.")
        return cloudpickle.loads(body)

    def _digest(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")

    @staticmethod
    def _take(rfile: Stream, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = rfile.read(min(count - len(data), _CHUNK))
            if not chunk:
                raise EOFError(f"the connection ended after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)
