"""The secret of a job whose processes other code starts."""

from __future__ import annotations

import base64
import os

from horovod.runner.common.util.secret import HOROVOD_SECRET_KEY, make_secret_key


def ensure_secret() -> bytes:
    """Return the secret of this process's job; without one it is made, and processes that are started here inherit it.

    It is in ``_HOROVOD_SECRET_KEY``: hand that to processes of other hosts, on no command line.
    """
    text = os.environ.setdefault(HOROVOD_SECRET_KEY, base64.b64encode(make_secret_key()).decode())
    return base64.b64decode(text)


def get_secret() -> bytes:
    """Return the secret of this process's job; RuntimeError when it has none."""
    if HOROVOD_SECRET_KEY not in os.environ:
        raise RuntimeError(
            f"{HOROVOD_SECRET_KEY} is not set. The process that started the server has it: hand it on to this one."
        )
    return ensure_secret()
