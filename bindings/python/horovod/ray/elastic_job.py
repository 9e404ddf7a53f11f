"""One run of an elastic job: the launcher's control of generations, with workers that are actors."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError

from horovod.common.exceptions import HorovodInternalError
from horovod.ray.calls import WorkerDiedError
from horovod.ray.elastic_worker import ElasticWorker
from horovod.ray.exchange import Inbox, Sender, call_all, open_exchange
from horovod.runner.common.util import secret
from horovod.runner.elastic.control import Control, find_hosts
from horovod.runner.elastic.generation import Place, Start, Worker, WorkersFailedError
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.gloo_run import ElasticPlaces

_LOOK_SECONDS = 0.5  # between looks at the hosts that a thread finds


@dataclass
class Resources:
    """The resources of its node that each worker takes, in Ray's counts, and the variables that it finds."""

    cpus: float
    gpus: float
    env_vars: Mapping[str, Any]


@dataclass
class _Actor:
    worker: Worker
    handle: Any
    sender: Sender
    begun: Any  # its first call, until that has ended
    late: float  # when that should have


class ElasticRun:
    """Runs a function on workers that may come and go.

    Parameters
    ----------
    settings : ElasticSettings
        Options of the job. Hosts are addresses of Ray's nodes.
    resources : Resources
        Of each worker.
    call : tuple
        The function, which gets the worker's object; and how to make that, as ``start_executable`` takes it.
    callbacks : sequence of callable
        Get what workers log.
    """

    def __init__(
        self,
        settings: ElasticSettings,
        resources: Resources,
        call: tuple[Callable[[Any], Any], tuple[Any, ...]],
        callbacks: Sequence[Callable[[dict[str, Any]], Any]],
    ) -> None:
        key = secret.make_secret_key()
        self._settings, self._resources, self._call, self._callbacks = settings, resources, call, callbacks
        self._key = key
        self._control = Control(settings, self, "horovod.ray")
        self._actors: dict[int, _Actor] = {}
        self._trainings: dict[Any, int] = {}  # number of worker by its second call
        self._results: dict[int, Any] = {}
        self._errors: dict[str, Exception] = {}  # the last of each name, in their order
        self._found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._places = ElasticPlaces(settings, key)
        self.retire = self._places.retire
        self._exchange = open_exchange()
        self._inbox = Inbox(self._exchange)

    def run(self) -> list[Any]:
        """Run to the end, and return what the function returned, by rank of the last generation.

        Raises
        ------
        WorkerDiedError
            When workers died and the job could not go on.
        Exception
            What the function raised, when the job could not go on after that.
        TimeoutException, RuntimeError
            When there were too few slots for too long, or the limit of resets was reached; the cause is what the last
            worker that failed raised, if any did.
        """
        membership, has_ended = self._control.membership, threading.Event()
        try:
            hosts = self._settings.discovery.find_available_hosts_and_slots()  # type: ignore[union-attr]
            finding = (self._settings.discovery, hosts, self._found.put, has_ended)
            threading.Thread(target=find_hosts, args=finding, name="horovod-discovery", daemon=True).start()
            membership.hosts_found(hosts, time.monotonic())
            while not membership.is_over:
                self._control.carry_out()
                self._take_in()
                membership.look(time.monotonic())
            self._deliver(self._inbox.take_rest())
        finally:
            has_ended.set()
            for actor in self._actors.values():
                ray.kill(actor.handle)
            ray.kill(self._exchange)
            self._places.close()
        error = membership.error
        if isinstance(error, WorkersFailedError):
            raise self._cause_of(error)
        if error is not None:
            raise error from next(reversed(self._errors.values()), None)
        results = self._control.by_rank(self._results)
        return [results[rank] for rank in sorted(results)]

    def _cause_of(self, error: WorkersFailedError) -> Exception:
        cause = self._errors.get(error.name, error)
        if not isinstance(cause, HorovodInternalError):
            return cause
        # An engine's errors tell of others: the last other error is the cause.
        return next((e for e in reversed(self._errors.values()) if not isinstance(e, HorovodInternalError)), cause)

    # --- what happens ---

    def _take_in(self) -> None:
        left = self._control.seconds_left()
        begins = {actor.begun: actor for actor in self._actors.values() if actor.begun is not None}
        waited = [self._inbox.ref, *self._trainings, *begins]
        ready, _ = ray.wait(waited, num_returns=1, timeout=_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
        self._deliver(self._inbox.take())  # what a worker told comes before its end
        for ref in ready:
            if ref in self._trainings:
                self._ended(self._trainings.pop(ref), ref)
            elif ref in begins:
                begins[ref].begun = None
        for actor in list(self._actors.values()):
            if actor.begun is not None and time.monotonic() >= actor.late:
                self._give_up(actor)
        while not self._found.empty():
            self._control.hosts_found(self._found.get())

    def _deliver(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if isinstance(message, dict):
                call_all(self._callbacks, [message])
            else:
                self._control.hear(*message)

    def _ended(self, number: int, ref: Any) -> None:
        actor = self._actors.pop(number)
        status, how = 0, ""
        try:
            self._results[number] = ray.get(ref)
        except RayActorError as error:
            status, how = 255, "died"
            self._note(actor, WorkerDiedError(actor.worker.name, str(error)))
        except Exception as error:  # whatever a user's function raises
            cause = getattr(error, "cause", error)  # without Ray's traceback
            status, how = 1, f"raised {type(cause).__name__}: {cause}"
            self._note(actor, error)
        ray.kill(actor.handle)
        self._control.membership.ended(number, status, time.monotonic(), how)

    def _note(self, actor: _Actor, error: Exception) -> None:
        self._errors.pop(actor.worker.name, None)
        self._errors[actor.worker.name] = error

    def _give_up(self, actor: _Actor) -> None:
        number = actor.worker.number
        del self._actors[number]
        self._trainings = {ref: other for ref, other in self._trainings.items() if other != number}
        ray.kill(actor.handle)
        how = f"has not started within {self._settings.start_timeout:g} s (timeout_s): its node has no room for it"
        self._note(actor, WorkerDiedError(actor.worker.name, how))
        self._control.membership.ended(number, 255, time.monotonic(), how)

    # --- what is to be done: the hands of the control ---

    def start(self, start: Start) -> None:
        """Start a worker's actor on its node, and call the function."""
        worker, resources = start.worker, self._resources
        handle = (
            ray.remote(ElasticWorker)
            .options(
                num_cpus=resources.cpus,
                num_gpus=resources.gpus,
                resources={f"node:{worker.host}": 0.001},
                max_restarts=0,
            )
            .remote(-1, -1)
        )
        variables = {
            **self._places.environment_of(worker.host),
            **self._places.place_of(start),
            **_gpus_of(worker.host, resources.gpus),
            **resources.env_vars,
        }
        begun = handle.begin.remote(worker.number, variables, self._key, self._exchange)
        late = time.monotonic() + self._settings.start_timeout
        self._actors[worker.number] = _Actor(worker, handle, Sender(self._exchange, worker.number), begun, late)
        function, arguments = self._call
        self._trainings[handle.train.remote(function, arguments, self._exchange)] = worker.number

    def tell(self, worker: Worker, text: str) -> None:
        """Leave a line for a worker."""
        if worker.number in self._actors:
            self._actors[worker.number].sender.send(text)

    def end(self, worker: Worker, at_once: bool) -> None:
        """Kill a worker's actor; Ray has no politer way that reaches a busy one."""
        del at_once
        if worker.number in self._actors:
            ray.kill(self._actors[worker.number].handle)

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a worker its numbers in a generation."""
        return self._places.place_of(place)


def _gpus_of(host: str, gpus: float) -> dict[str, str]:
    """Let workers see all GPUs of their node: a local rank is an index among them."""
    if not gpus:
        return {}
    count = sum(
        int(node["Resources"].get("GPU", 0))
        for node in ray.nodes()
        if node["Alive"] and node["NodeManagerAddress"] == host
    )
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}
