"""Network interfaces, as code around Horovod on Ray asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ray

from horovod.runner.gloo_run import create_nics_env_vars


def detect_nics(settings: Any, all_host_names: Any = None, node_workers: Any = None) -> list[str]:
    """Return the interfaces that the user named; without them workers use the one that leads to the rendezvous."""
    del all_host_names, node_workers
    return list(settings.nics or ())


def nics_to_env_var(nics: Iterable[str]) -> dict[str, str]:
    """Return the variables that tell workers which interfaces to use; none for none."""
    return create_nics_env_vars(list(nics))


def map_blocking(fn: Callable[[Any], Any], collection: Iterable[Any]) -> list[Any]:
    """Return what the calls of a remote function on each worker gave, in their order; all run at the same time."""
    results: list[Any] = ray.get([fn(worker) for worker in collection])
    return results
