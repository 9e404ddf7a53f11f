"""Messages between the driver of a job and its workers, through an actor that both can call at any time."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_REST = "that was all"
_WAITERS = 100_000  # calls that may be pending: each worker has one


async def _take_all(queue: asyncio.Queue[Any]) -> list[Any]:
    taken = [await queue.get()]
    while not queue.empty():
        taken.append(queue.get_nowait())
    return taken


class Exchange:
    """The actor. Ray calls it in any order; messages of one :class:`Sender` keep theirs."""

    def __init__(self) -> None:
        self._boxes: dict[Any, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self._turns: dict[str, asyncio.Condition] = defaultdict(asyncio.Condition)
        self._delivered: dict[str, int] = defaultdict(int)

    async def put(self, sender: str, index: int, receiver: int | None, message: Any) -> None:
        """Leave a sender's message for a worker, or for the driver (None), when those before it have been left."""
        async with self._turns[sender]:
            await self._turns[sender].wait_for(lambda: self._delivered[sender] == index)
            self._boxes[receiver].put_nowait(message)
            self._delivered[sender] += 1
            self._turns[sender].notify_all()

    async def take(self, receiver: int | None) -> list[Any]:
        """Return what was left for it: at least one message."""
        return await _take_all(self._boxes[receiver])


class Sender:
    """Leaves messages for one receiver, in their order. One thread."""

    def __init__(self, exchange: Any, receiver: int | None) -> None:
        self._exchange, self._receiver = exchange, receiver
        self._name, self._count = uuid.uuid4().hex, 0
        self._last: Any = None

    def send(self, message: Any) -> None:
        """Leave a message; does not wait."""
        self._last = self._exchange.put.remote(self._name, self._count, self._receiver, message)
        self._count += 1

    def flush(self) -> None:
        """Wait until all has been left."""
        if self._last is not None:
            ray.wait([self._last])


def open_exchange() -> Any:
    """Start the actor beside the driver: the node of a worker may go."""
    node = ray.get_runtime_context().get_node_id()
    beside = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(Exchange).options(num_cpus=0, max_concurrency=_WAITERS, scheduling_strategy=beside).remote()


class Inbox:
    """The messages that workers left for the driver. One thread.

    Attributes
    ----------
    ref
        Is ready when there is something.
    """

    def __init__(self, exchange: Any) -> None:
        self._exchange = exchange
        self.ref = exchange.take.remote(None)

    def take(self) -> list[Any]:
        """Return what is there."""
        taken: list[Any] = []
        while ray.wait([self.ref], timeout=0)[0]:
            taken += ray.get(self.ref)
            self.ref = self._exchange.take.remote(None)
        return taken

    def take_rest(self) -> list[Any]:
        """Return all that was left until now."""
        taken: list[Any] = []
        Sender(self._exchange, None).send(_REST)
        while _REST not in taken:
            taken += ray.get(self.ref)
            self.ref = self._exchange.take.remote(None)
        taken.remove(_REST)
        return taken


def call_all(callbacks: Sequence[Callable[[dict[str, Any]], Any]] | None, infos: Sequence[dict[str, Any]]) -> None:
    """Hand dictionaries of workers to all callbacks."""
    for info in infos:
        for callback in callbacks or ():
            callback(info)
