"""A Spark task's work for a job: it runs an agent of our launcher, which runs the rank, and obeys the driver."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from pyspark import TaskContext

from horovod.runner.boot import agent_text, boot_command, framed
from horovod.runner.common.util.host_hash import host_hash
from horovod.runner.util import network
from horovod.runner.util.door import keep_alive
from horovod.runner.util.wire import Wire, prove

_GPUS = "_HOROVOD_SPARK_GPUS"  # tells a rank of its task's


@dataclass(frozen=True)
class Call:
    """The call that every task of a job gets from Spark.

    Attributes
    ----------
    driver : str
        The driver's address, with the port.
    key : bytes
        Proves task and driver to each other.
    secret : bytes
        The job's, for the engine.
    function : bytes
        A pickled call for ``horovod.runner.run_task``.
    executable : str or None
        The rank's Python; by default the task's.
    timeout : float
        Seconds for reaching the driver.
    """

    driver: tuple[str, int]
    key: bytes
    secret: bytes
    function: bytes
    executable: str | None
    timeout: float


@dataclass(frozen=True)
class Place:
    """Where a task is, as it tells the driver.

    Attributes
    ----------
    index, attempt : int
        Spark's numbers of the task.
    host : str
        Its host hash.
    address, port
        An address of its host, and a port of that which is free.
    gpus : tuple of str
        Those that Spark assigned to it, by the names that ``CUDA_VISIBLE_DEVICES`` takes.
    """

    index: int
    attempt: int
    host: str
    address: str
    port: int
    gpus: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return how errors name it."""
        return f"{self.host}/task{self.index}.{self.attempt}"


def get_available_devices() -> list[str]:
    """Return the GPUs that Spark assigned to this rank, as numbers among those that the process sees.

    Empty where Spark assigns none, and in what is not a rank.
    """
    seen = _listed("CUDA_VISIBLE_DEVICES")
    return [str(seen.index(gpu)) if gpu in seen else gpu for gpu in _listed(_GPUS)]


def _listed(variable: str) -> list[str]:
    return [entry.strip() for entry in os.environ.get(variable, "").split(",") if entry.strip()]


def _assigned_gpus() -> tuple[str, ...]:
    """Return the task's GPUs; Spark's addresses count those that the executor sees, as for its TorchDistributor."""
    gpus = TaskContext.get().resources().get("gpu")
    seen = dict(enumerate(_listed("CUDA_VISIBLE_DEVICES")))
    addresses = gpus.addresses if gpus else []
    return tuple(seen.get(int(address), address) if address.isdigit() else address for address in addresses)


def take_part(call: Call, index: int, rows: Iterable[Any]) -> Iterator[Any]:
    """Be one task of a job to its end; for ``mapPartitionsWithIndex``.

    Raises
    ------
    RuntimeError
        When the driver can't be reached, or gave this task up: Spark may try again.
    """
    del rows
    try:
        connection = socket.create_connection(call.driver, call.timeout)
    except OSError as error:
        raise RuntimeError(
            f"Spark task {index} on {socket.gethostname()} can't reach the driver at {call.driver[0]}, port "
            f"{call.driver[1]}: {error}. Set spark.driver.host to an address that executors reach, "
            "or name an interface (nics)."
        ) from error
    with connection, connection.makefile("rb") as stream, connection.makefile("wb") as writer:
        keep_alive(connection)
        try:
            prove(connection, call.key, call.timeout)
        except (OSError, EOFError) as error:
            raise RuntimeError(
                f"Who is at {call.driver[0]}:{call.driver[1]} has ended, or does not know the job's secret: {error}."
            ) from error
        wire = Wire(call.key)
        address = connection.getsockname()[0]
        place = Place(
            index,
            TaskContext.get().attemptNumber(),
            host_hash(),
            address,
            network.free_port(address),
            _assigned_gpus(),
        )
        wire.write(place, writer)
        connection.settimeout(None)
        try:
            wire.read(stream)  # that it may begin
        except (EOFError, ConnectionResetError):
            return iter(())  # the job is over, or has no use for this task
        _run_agent(call, place.gpus, connection, stream)
    return iter(())


def _run_agent(call: Call, gpus: Iterable[str], connection: socket.socket, stream: BinaryIO) -> None:
    agent = subprocess.Popen(  # not by horovod.child: it is spoken with for as long as the job lasts
        boot_command(sys.executable),
        stdin=subprocess.PIPE,
        stdout=connection.fileno(),
        bufsize=0,
        # What Spark or the user put on this process's path is there for the rank, too.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), _GPUS: ",".join(gpus)},
        start_new_session=True,
    )
    is_given_up = threading.Event()
    try:
        _tell(agent, agent_text())
        length = stream.read(8)
        if length:
            spec = json.loads(stream.read(int(length)))
            # The secret and the function don't go over the connection, which nothing encrypts.
            spec.update(
                secret=call.secret.hex(),
                function=call.function.hex(),
                command=[call.executable or sys.executable, "-m", "horovod.runner.run_task"],
            )
            _tell(agent, framed(json.dumps(spec)))
        pump = threading.Thread(target=_pass_on, args=(stream, agent, is_given_up), daemon=True)
        pump.start()
        agent.wait()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        pump.join()
    finally:
        agent.stdin.close()  # type: ignore[union-attr]
        agent.wait()  # without a launcher it ends the rank, in its grace time
    if is_given_up.is_set():
        raise RuntimeError("The driver has given this task up, because its rank failed, or has ended.")
    if agent.returncode:
        raise RuntimeError(f"What runs the rank of this Spark task ended with status {agent.returncode}.")


def _tell(agent: subprocess.Popen[bytes], data: bytes) -> None:
    while data:
        data = data[agent.stdin.write(data) :]  # type: ignore[union-attr]


def _pass_on(stream: Any, agent: subprocess.Popen[bytes], is_given_up: threading.Event) -> None:
    """Hand the driver's commands to the agent; the driver's end is the agent's."""
    with contextlib.suppress(OSError, ValueError):
        while data := stream.read1(1 << 16):
            _tell(agent, data)
    if agent.poll() is None:
        is_given_up.set()
    with contextlib.suppress(OSError):
        agent.stdin.close()  # type: ignore[union-attr]
