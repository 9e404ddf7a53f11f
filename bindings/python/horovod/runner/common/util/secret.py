"""The job's secret: every control connection proves that it knows it."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections import deque

SECRET_LENGTH = DIGEST_LENGTH = 32  # bytes
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"  # noqa: S105 (the name of the variable)

# An engine that has read a descriptor takes the same number for the same secret, which is there no more.
_recent: deque[int] = deque(maxlen=32)


def make_secret_key() -> bytes:
    """Return a new random secret."""
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA256 of a message, which other launchers' messages begin with."""
    return hmac.new(key, message, hashlib.sha256).digest()


def check_digest(key: bytes, message: bytes, digest: bytes) -> bool:
    """Tell whether a digest is the message's, in the same time for all wrong ones."""
    return hmac.compare_digest(compute_digest(key, message), digest)


def hand_over(secret: bytes) -> None:
    """Give the secret to this process's engine, which starts later; processes that are started here don't get it."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(secret)
    while reader in _recent:
        taken, reader = reader, fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, reader + 1)
        os.close(taken)
    _recent.append(reader)
    os.environ["HOROVOD_SECRET_FD"] = str(reader)
    os.environ.pop("HOROVOD_SECRET_FILE", None)
