"""A job whose workers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from horovod.ray.calls import Crew, WorkerDiedError
from horovod.ray.coordinator import Coordinator, MiniSettings
from horovod.ray.exchange import Inbox, call_all, open_exchange
from horovod.ray.strategy import BaseStrategy
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.gloo_run import create_slot_env_vars, create_torch_env_vars

Function = Callable[[Any], Any]
Callbacks = Sequence[Callable[[dict[str, Any]], Any]]


class StaticJob:
    """Starts workers, calls functions on them, and ends them.

    Parameters
    ----------
    settings : MiniSettings
        Options of the job.
    strategy : BaseStrategy
        Which workers, and where.
    """

    def __init__(self, settings: MiniSettings, strategy: BaseStrategy) -> None:
        self._settings, self._strategy = settings, strategy
        self._crew = Crew([])
        self._has_unseen_calls = False  # whose ends the caller alone sees
        self._coordinator: Coordinator | None = None

    def start(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Start the workers, and make the object of each."""
        if self._crew.workers:
            raise RuntimeError("The workers have been started; call shutdown() before start().")
        try:
            self._start_workers(extra_env_vars or {})
            arguments = (executable_cls, executable_args, executable_kwargs)
            self._crew.gather([worker.start_executable.remote(*arguments) for worker in self._crew.workers])
        except BaseException:
            self.shutdown()
            raise

    def _start_workers(self, extra: Mapping[str, Any]) -> None:
        self._crew = Crew(self._strategy.create_workers()[0])
        places = self._crew.gather([worker.place.remote() for worker in self._crew.workers])

        self._coordinator = coordinator = Coordinator(self._settings)
        for rank, (node, address, _, _) in enumerate(places):
            coordinator.register(address, node, rank)
        shared, (_, master, port, _) = coordinator.serve(), places[0]
        variables = []
        for slot in coordinator.slots():
            numbers = {**create_torch_env_vars(slot, master, port), **create_slot_env_vars(slot)}
            variables.append({**shared, **numbers, **_gpus(slot, places), **extra})
        workers = self._crew.workers
        self._crew.gather([worker.join.remote(env, coordinator.key) for worker, env in zip(workers, variables)])

    def execute(self, fn: Function, callbacks: Callbacks | None = None) -> list[Any]:
        """Call ``fn(object)`` on all workers."""
        self._settle()
        if not callbacks:
            return self._crew.gather(self._call(fn))
        exchange = open_exchange()
        inbox = Inbox(exchange)
        try:
            return self._crew.gather(self._call(fn, exchange), lambda: call_all(callbacks, inbox.take()))
        finally:
            call_all(callbacks, inbox.take_rest())
            ray.kill(exchange)

    def run_remote(self, fn: Function) -> list[Any]:
        """Call ``fn(object)`` on all workers and return Ray's references to the results."""
        self._has_unseen_calls = True
        return self._call(fn)

    def _call(self, fn: Function, exchange: Any = None) -> list[Any]:
        self._check()
        return [worker.execute.remote(fn, exchange) for worker in self._crew.workers]

    def execute_single(self, fn: Function) -> Any:
        """Call ``fn(object)`` on rank 0."""
        self._settle()
        try:
            return ray.get(self._crew.workers[0].execute.remote(fn))
        except ray.exceptions.RayActorError as error:
            raise WorkerDiedError(0, str(error)) from error
        except Exception:  # whatever a user's function raises
            self._crew.leave()
            raise

    def _settle(self) -> None:
        self._check()
        if self._has_unseen_calls:
            self._has_unseen_calls = False
            self._crew.settle()

    def _check(self) -> None:
        if not self._crew.workers:
            raise RuntimeError("There are no workers: call start() first.")
        self._crew.check()

    def shutdown(self) -> None:
        """End the workers and give back their resources."""
        self._strategy.shutdown()
        self._crew, self._has_unseen_calls = Crew([]), False
        if self._coordinator is not None:
            self._coordinator.stop()
            self._coordinator = None


def _gpus(slot: SlotInfo, places: Sequence[tuple[str, str, int, list[str]]]) -> dict[str, str]:
    """Let workers of a node see each other's GPUs: a local rank is an index among them, and they copy directly."""
    gpus = [gpu for node, _, _, gpus in places if node == slot.hostname for gpu in gpus]
    return {"CUDA_VISIBLE_DEVICES": ",".join(dict.fromkeys(gpus))} if gpus else {}
