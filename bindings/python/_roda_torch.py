"""Makes the backend ``roda`` of ``torch.distributed`` known when torch is imported: torch calls ``register`` itself.

It stands beside the package and not in it, because torch must come up whatever has become of the package since. It
imports torch only when called: torch may be at its own import when this module is loaded.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from typing import Any

_names = {"roda"}  # of backends that are this one


def create(options: Any, more: Any) -> Any:
    """Return a group of ranks over the engine, which is loaded now."""
    from horovod.torch.distributed import create_group

    return create_group(options, more)


def is_asked_for() -> bool:
    """Tell whether ``init_process_group("roda")`` is under way: torch tells the backend to nobody whom it calls."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "init_process_group":
        frame = frame.f_back
    return frame is not None and not _names.isdisjoint(re.split("[:,]", str(frame.f_locals.get("backend")).lower()))


def _let_env_find_us(handlers: dict[str, Any]) -> None:
    """Have ``env://`` ask the engine for a job's numbers, once it is to bring processes together for the backend."""
    by_torch: Any = handlers.get("env")

    def env(url: str, **options: Any) -> Any:
        if "roda" not in handlers and is_asked_for():
            handlers["env"] = by_torch
            from horovod.torch import distributed

            distributed.register()
            return handlers["env"](url, **options)
        return by_torch(url, **options)

    if by_torch is not None:
        handlers["env"] = env


def register() -> None:
    """Make the backend known; does nothing the second time, and before torch 2.1."""
    import torch
    import torch.distributed as dist

    if not dist.is_available() or "RODA" in dist.Backend._plugins:
        return
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        devices = ["cpu"] if torch.version.cuda is None and torch.version.hip is None else ["cpu", "cuda"]
        dist.Backend.register_backend("roda", create, extended_api=True, devices=devices)
        _let_env_find_us(getattr(sys.modules.get("torch.distributed.rendezvous"), "_rendezvous_handlers", {}))
        if os.environ.get("RODA_REPLACE_GLOO", "0") != "0":
            replace_gloo()


def replace_gloo() -> None:
    """Have groups that ask for ``gloo`` alone be this backend's from now on, by Gloo's name; once, with torch 2.1."""
    import torch.distributed as dist

    if "gloo" in _names:
        return
    _names.add("gloo")
    c10d = dist.distributed_c10d
    by_torch = c10d._new_process_group_helper
    signature = inspect.signature(by_torch)

    @functools.wraps(by_torch)
    def new_group(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options)
        if str(given.arguments["backend"]).lower() not in ("gloo", "cpu:gloo"):
            return by_torch(*args, **options)
        if not dist.is_initialized() and given.arguments["group_rank"] == 0:
            print("roda: torch.distributed's groups of the backend gloo are roda's", file=sys.stderr)
        given.arguments["backend"] = dist.Backend("roda")
        group, store = by_torch(*given.args, **given.kwargs)
        if group in c10d._world.pg_map:  # else this rank is none of its members
            group._backend_name = "gloo"
            c10d._world.pg_map[group] = dist.Backend("gloo"), store
            c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(dist.Backend("gloo")))
        return group, store

    c10d._new_process_group_helper = new_group
