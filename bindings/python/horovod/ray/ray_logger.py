"""A worker's messages to the driver while it trains: ``ray_logger.log({"epoch": 3})`` reaches the run's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_send: Callable[[dict[str, Any]], Any] | None = None


def configure(send: Callable[[dict[str, Any]], Any] | None) -> None:
    """Have `send` called with what is logged in this process; None: nobody listens."""
    global _send
    _send = send


def log(info_dict: dict[str, Any]) -> None:
    """Hand a dictionary to the callbacks of the run, on the driver; without callbacks, or elsewhere, it is dropped."""
    if _send is not None:
        _send(info_dict)
