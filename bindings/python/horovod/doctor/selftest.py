"""Two ranks over each usable transport, beside what plain copies and plain sockets of this machine give."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from horovod.child import Ended, run
from horovod.doctor.finding import BROKEN, OK, WARNING, Finding
from horovod.places import PACKAGE
from horovod.runner import mpi_run
from horovod.runner.common.util.settings import Settings
from horovod.runner.util import network

SECTION = "Self-test"
_tested = partial(Finding, SECTION)
SIZE = 16 << 20
_MEASURED = 0.25  # seconds
# Less than this part of the ceiling is worth a look: something else runs, or a slow path was taken.
_LOW = 0.1
# More than this part: the machine was slower while the ceiling was measured.
_HIGH = 1.25
NO_MPIRUN = "no mpirun starts its ranks: there is none in PATH, or the first one does not work"
# Variables of another job that this process is part of, and those that would choose another transport.
_OF_A_JOB = re.compile(
    r"HOROVOD_(RANK|SIZE|LOCAL_|CROSS_|HOSTNAME|GLOO_RENDEZVOUS|RENDEZVOUS|SECRET|ELASTIC|CONTROLLER|CPU_OPERATIONS|SELECT)"
    r"|_HOROVOD|OMPI_COMM|OMPI_MCA_(ess|orte)|PMI_|PMIX_|SLURM_|(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)$"
    r"|TORCHELASTIC"
)
# How an allreduce of two ranks moves data. In memory each rank sums one half up (two reads, a write) and copies the
# other (a read, a write): 1.25 times what a plain copy of the tensor moves. Between sockets each sends all of it once.
_PART_OF_COPY = 0.8
_BY_HAND = {"job": "roda-perf -n 2", "mpi": "mpirun -np 2 roda-perf --launched -t mpi"}
_OVER_SOCKETS = ("tcp", "gloo")
_OVER_MEMORY = ("shm", "mpi", "ucx")


def _both(work: Callable[[int], float]) -> float:
    """Return the mean of what two threads return that do `work(i)` at the same time."""
    found = [0.0, 0.0]

    def call(i: int) -> None:
        found[i] = work(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found) / 2


def memory_copy() -> float:
    """Return GB/s that each of two threads copies at the same time, from one buffer of :data:`SIZE` to another."""

    def copy(_: int) -> float:
        source, target = (ctypes.create_string_buffer(SIZE) for _ in range(2))
        times: list[float] = []
        end = time.perf_counter() + _MEASURED
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            ctypes.memmove(target, source, SIZE)  # without the interpreter's lock
            times.append(time.perf_counter() - start)
        return SIZE / statistics.median(times) / 1e9

    return _both(copy)


def loopback() -> float:
    """Return GB/s that each of two plain TCP connections carries at the same time, one in each direction.

    Raises
    ------
    OSError
        When this machine's loopback does not work.
    """

    def pair() -> tuple[socket.socket, socket.socket]:
        with network.listen(network.loopback_address()) as server:
            near = socket.create_connection(server.getsockname()[:2], timeout=5)
            far, _ = server.accept()
        far.settimeout(5)
        return near, far

    block = bytes(1 << 20)

    def send(near: socket.socket) -> None:
        with near:
            end = time.perf_counter() + _MEASURED
            while time.perf_counter() < end:
                near.sendall(block)

    pairs = [pair(), pair()]
    senders = [threading.Thread(target=send, args=(near,)) for near, _ in pairs]
    for sender in senders:
        sender.start()

    def receive(i: int) -> float:
        target, moved, start = bytearray(1 << 20), 0, time.perf_counter()
        with pairs[i][1] as far:
            while count := far.recv_into(target):
                moved += count
        return moved / (time.perf_counter() - start) / 1e9

    result = _both(receive)
    for sender in senders:
        sender.join()
    return result


def ceilings() -> dict[str, float]:
    """Return by transport what two ranks here hardly pass, GB/s; nothing is known of other transports."""
    found = dict.fromkeys(_OVER_MEMORY, memory_copy() * _PART_OF_COPY)
    with contextlib.suppress(OSError):  # the transports over it say why
        found.update(dict.fromkeys(_OVER_SOCKETS, loopback()))
    return found


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _OF_A_JOB.match(name)}
    return {**kept, "HOROVOD_LOG_LEVEL": "error", "HOROVOD_GLOO_TIMEOUT_SECONDS": "10"}


def _two_ranks(transport: str) -> Ended:
    """Run an allreduce of :data:`SIZE` bytes on two ranks; an empty name is the engine's own choice."""
    program = str(PACKAGE / "bin" / "roda-perf")
    command = [program, "-c", "allreduce", "-s", str(SIZE), "-w", "2", "--iterations", "10", "--json"]
    environment = _environment()
    if transport:
        command += ["-t", transport]
    if transport != "mpi":
        return run([*command, "-n", "2"], 20, environment)
    try:
        settings = Settings(num_proc=2, hosts="localhost:2")
        line = mpi_run.get_command(settings, [], environment, [*command, "--launched"])
    except RuntimeError:
        return Ended(1, "", NO_MPIRUN)
    return run(["/bin/sh", "-c", f"exec {line}"], 20, environment)


def _bandwidth(ended: Ended) -> float | None:
    """Return GB/s of a run whose sums were right; None for any other."""
    row = re.search(r"\{\"collective\".*\}", ended.stdout)
    if ended.status != 0 or row is None:
        return None
    figures = json.loads(row[0])
    return float(figures["algbw_GBps"]) if figures["check"] == "ok" else None


def _why(ended: Ended) -> str:
    """Return the ranks' own words, rather than the launcher's."""
    if '"WRONG"' in ended.stdout:
        return "their sums were wrong"
    told = re.findall(r"roda-perf: (?!rank \d+ ended)(.*)", ended.stderr)
    return told[0] if told and ended.status is not None else ended.why


def _judge(name: str, ended: Ended, ceiling: float | None) -> Finding:
    bandwidth = _bandwidth(ended)
    if bandwidth is None:
        mend = f"HOROVOD_LOG_LEVEL=debug {_BY_HAND.get(name, f'roda-perf -n 2 -t {name}')} -s 16M   (says more)"
        return _tested(name, BROKEN, f"two ranks failed: {_why(ended)}", mend)
    figures = {"GBps": round(bandwidth, 3)}
    text = f"{bandwidth:.2f} GB/s"
    if ceiling is None:
        return _tested(name, OK, text, figures=figures)
    figures["ceiling_GBps"] = round(ceiling, 3)
    if bandwidth > _HIGH * ceiling:
        text += f", more than the {ceiling:.2f} measured for this machine: try again when nothing else runs"
        return _tested(name, OK, text, figures=figures)
    text += f", {100 * bandwidth / ceiling:.0f} % of this machine's {ceiling:.2f}"
    if bandwidth < _LOW * ceiling:
        mend = "look with `top` for what else runs here, and try again"
        return _tested(name, WARNING, f"{text}: low", mend, figures=figures)
    return _tested(name, OK, text, figures=figures)


def examine(usable: Sequence[str]) -> Iterator[Finding]:
    """Run a job as the engine chooses, then one over each transport that says it is usable here.

    Parameters
    ----------
    usable : sequence of str
        Transports for host memory.
    """
    known: Mapping[str, float] = ceilings()
    yield _judge("job", _two_ranks(""), None)
    for name in usable:
        yield _judge(name, _two_ranks(name), known.get(name))
