"""The job's secret: every control connection proves that it knows it."""

from __future__ import annotations

import secrets

DIGEST_LENGTH_IN_BYTES = 32
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"  # noqa: S105 (the name of the variable)


def make_secret_key() -> bytes:
    """Return a new random secret."""
    return secrets.token_bytes(DIGEST_LENGTH_IN_BYTES)
