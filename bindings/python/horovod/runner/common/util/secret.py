"""The job's secret: every control connection proves that it knows it."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections import deque

DIGEST_LENGTH_IN_BYTES = 32
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"  # noqa: S105 (the name of the variable)

# An engine that has read a descriptor takes the same number for the same secret, which is there no more.
_recent: deque[int] = deque(maxlen=32)


def make_secret_key() -> bytes:
    """Return a new random secret."""
    return secrets.token_bytes(DIGEST_LENGTH_IN_BYTES)


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
