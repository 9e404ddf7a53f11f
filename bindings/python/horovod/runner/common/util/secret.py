"""The job's secret: every control connection proves that it knows it."""

from __future__ import annotations

import os
import secrets

DIGEST_LENGTH_IN_BYTES = 32
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"  # noqa: S105 (the name of the variable)


def make_secret_key() -> bytes:
    """Return a new random secret."""
    return secrets.token_bytes(DIGEST_LENGTH_IN_BYTES)


def hand_over(secret: bytes) -> None:
    """Give the secret to this process's engine, which starts later; processes that are started here don't get it."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(secret)
    os.environ["HOROVOD_SECRET_FD"] = str(reader)
    os.environ.pop("HOROVOD_SECRET_FILE", None)
