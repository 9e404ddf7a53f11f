"""Python objects as text."""

from __future__ import annotations

import base64
from typing import Any

import cloudpickle


def dumps_base64(obj: Any, to_ascii: bool = True) -> str | bytes:
    """Pickle `obj` and encode it as base64."""
    encoded = base64.b64encode(cloudpickle.dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded: str | bytes) -> Any:
    """Undo :func:`dumps_base64`; only for text from a trusted source."""
    return cloudpickle.loads(base64.b64decode(encoded))
