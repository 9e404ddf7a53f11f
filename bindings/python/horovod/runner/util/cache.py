"""Results of slow checks, kept from one run to the next."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

FILE_NAME = "checks.json"


class Cache:
    """Values by key that are forgotten with time. Any thread; of processes that write at once, the last wins.

    Parameters
    ----------
    cache_folder : str
        Made where it is missing. A folder that can't be written keeps nothing.
    cache_staleness_threshold_in_minutes : float
        How long a value holds.
    parameters_hash : str
        What the values are of: with another one, all that was kept is forgotten.
    """

    def __init__(self, cache_folder: str, cache_staleness_threshold_in_minutes: float, parameters_hash: str) -> None:
        self._path = os.path.join(cache_folder, FILE_NAME)
        self._seconds = cache_staleness_threshold_in_minutes * 60
        self._hash = parameters_hash
        self._lock = threading.Lock()
        self._values: dict[str, tuple[float, Any]] = {}
        # Not there, or not ours:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            with open(self._path, encoding="utf-8") as file:
                kept = json.load(file)
            if kept["parameters"] == parameters_hash:
                self._values = {key: (float(when), value) for key, (when, value) in kept["values"].items()}

    def get(self, key: Any) -> Any:
        """Return what was put under a key, or None when there is nothing, or it is too old."""
        with self._lock:
            when, value = self._values.get(repr(key), (0.0, None))
            return value if 0 <= time.time() - when < self._seconds else None

    def put(self, key: Any, val: Any) -> None:
        """Keep a value that JSON can hold under a key."""
        with self._lock:
            self._values[repr(key)] = time.time(), val
            text = json.dumps({"parameters": self._hash, "values": self._values})
            with contextlib.suppress(OSError):
                folder = os.path.dirname(self._path)
                os.makedirs(folder, mode=0o700, exist_ok=True)
                descriptor, path = tempfile.mkstemp(dir=folder)
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(path, self._path)  # a reader sees the old file or the new one


def use_cache() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: calls with ``fn_cache=Cache(...)`` look their result up there first, and keep it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, fn_cache: Cache | None = None, **kwargs: Any) -> Any:
            if fn_cache is None:
                return function(*args, **kwargs)
            key = (function.__name__, args, sorted(kwargs.items()))
            value = fn_cache.get(key)
            if value is None:
                value = function(*args, **kwargs)
                if value is not None:
                    fn_cache.put(key, value)
            return value

        return call

    return decorate
