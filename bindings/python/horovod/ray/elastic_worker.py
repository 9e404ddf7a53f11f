"""The actor that a worker of an elastic job is: an ordinary one, with a line to the job's control."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from typing import Any

import ray

from horovod import _roda
from horovod.ray.exchange import Sender
from horovod.ray.worker import BaseHorovodWorker


class ElasticWorker(BaseHorovodWorker):
    """Calls a function that may go from one generation of the job to the next."""

    def begin(self, number: int, env_vars: Mapping[str, Any], key: bytes, exchange: Any) -> None:
        """Take the job's secret, and tie this process's ``Channel`` to the driver."""
        self.join(env_vars, key)
        ours, theirs = socket.socketpair()
        os.environ["_RODA_ELASTIC_FD"] = str(theirs.detach())
        for function in (_send_lines, _receive_lines):
            name = f"horovod-ray{function.__name__}"
            threading.Thread(target=function, args=(ours, number, exchange), name=name, daemon=True).start()

    def train(self, func: Any, arguments: tuple[Any, ...], exchange: Any) -> Any:
        """Make the object, and call the function with it; a worker that has no place any more returns None."""
        try:
            self.start_executable(*arguments)
            result = self.execute(func, exchange)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise RuntimeError(f"The function ended its process with status {end.code}.") from end
            result = None
        _roda.shutdown()  # before this process is killed, which the others would take for a failure
        return result


def _send_lines(ours: socket.socket, number: int, exchange: Any) -> None:
    sender = Sender(exchange, None)
    with ours.makefile("rb") as lines:
        for line in lines:
            sender.send((number, line))


def _receive_lines(ours: socket.socket, number: int, exchange: Any) -> None:
    while True:
        try:
            for text in ray.get(exchange.take.remote(number)):
                ours.sendall(text.encode() + b"\n")
        except (ray.exceptions.RayError, OSError):
            return  # the driver is gone, or this process ends
