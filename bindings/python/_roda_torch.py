"""Makes the backend ``roda`` of ``torch.distributed`` known when torch is imported: torch calls ``register`` itself.

It stands beside the package and not in it, because torch must come up whatever has become of the package since. It
imports torch only when called: torch may be at its own import when this module is loaded.
"""

from __future__ import annotations

import inspect
from typing import Any


def create(options: Any, more: Any) -> Any:
    """Return a group of ranks over the engine, which is loaded now."""
    from horovod.torch.distributed import create_group

    return create_group(options, more)


def register() -> None:
    """Make the backend known; does nothing the second time, and before torch 2.1."""
    import torch.distributed as dist

    if not dist.is_available() or "RODA" in dist.Backend._plugins:
        return
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        dist.Backend.register_backend("roda", create, extended_api=True, devices=["cpu", "cuda"])
