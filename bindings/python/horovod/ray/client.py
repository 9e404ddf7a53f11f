"""Jobs of a driver that is connected by Ray Client: what reaches workers must live in the cluster."""

from __future__ import annotations

from typing import Any

import ray


def job_of(job_class: type, *arguments: Any) -> Any:
    """Return a job: an object here, or one in an actor of the cluster where this process is only a client of that."""
    if not ray.util.client.ray.is_connected():
        return job_class(*arguments)
    return _RemoteJob(job_class, *arguments)


class _RemoteJob:
    """A job in an actor; callbacks are called there."""

    def __init__(self, job_class: type, *arguments: Any) -> None:
        self._actor = ray.remote(job_class).options(num_cpus=0).remote(*arguments)

    def start(self, *arguments: Any) -> None:
        """Start it."""
        ray.get(self._actor.start.remote(*arguments))

    def execute(self, fn: Any, callbacks: Any = None) -> list[Any]:
        """Call a function on all workers."""
        return ray.get(self._actor.execute.remote(fn, callbacks))

    def run_remote(self, fn: Any) -> list[Any]:
        """Do that and return references."""
        return ray.get(self._actor.run_remote.remote(fn))

    def execute_single(self, fn: Any) -> Any:
        """Call a function on rank 0."""
        return ray.get(self._actor.execute_single.remote(fn))

    def shutdown(self) -> None:
        """End its workers."""
        ray.get(self._actor.shutdown.remote())
