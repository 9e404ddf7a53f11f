"""The Spark application that a job is part of: where its driver is found, and tasks that wait for orders."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark import SparkContext

from horovod.common.util import whole_number
from horovod.runner.common.util import secret
from horovod.runner.common.util.env import exportable
from horovod.runner.common.util.timeout import Timeout
from horovod.runner.util import network
from horovod.spark.gathering import Gathering
from horovod.spark.stage import Stage
from horovod.spark.task import Call

_START_SECONDS = 600.0
_REACH_SECONDS = 60.0  # for a task to reach the driver, at most
_DONE_SECONDS, _FAILED_SECONDS = 30.0, 2.0  # for tasks to end when their ranks have


@dataclass(frozen=True)
class Driver:
    """Where executors find the driver, and where it listens for them."""

    address: str
    listens_at: str

    @property
    def numeric_address(self) -> str:
        """The address, as numbers where the name resolves."""
        return network.resolve_host_address(self.address) or self.address


def say(text: str) -> None:
    """Tell the user."""
    print(f"horovod.spark: {text}", file=sys.stderr, flush=True)


def find_context() -> SparkContext:
    """Return the active SparkContext; an Exception when there is none."""
    context = SparkContext._active_spark_context
    if context is None:
        raise Exception("Could not find an active SparkContext, are you running in a PySpark session?")
    return context


def find_driver(context: SparkContext, nics: Sequence[str]) -> Driver:
    """Return where the driver is; ValueError for an interface that it does not have."""
    if nics:
        own = network.interface_address(nics[0])
        return Driver(own, own)
    if (context.master or "").startswith("local"):
        return Driver(network.loopback_address(), network.loopback_address())
    name = context.getConf().get("spark.driver.host") or network.outward_address()
    address = network.resolve_host_address(name)
    if address is None or address not in network.get_local_host_addresses():  # the name may be that of a gateway
        address = network.any_address()
    return Driver(name, address)


def count_ranks(context: SparkContext, num_proc: int | None, verbose: int) -> int:
    """Return how many are asked for; ValueError for none."""
    if num_proc is None:
        num_proc = context.defaultParallelism
        if verbose >= 1:
            say(f"{num_proc} ranks, by spark.default.parallelism")
    return whole_number("num_proc", num_proc, 1)


def start_seconds(asked: float | None) -> float:
    """Return how long tasks may take to start."""
    return float(asked or os.environ.get("HOROVOD_SPARK_START_TIMEOUT") or _START_SECONDS)


def start_timeout(context: SparkContext, seconds: float) -> Timeout:
    """Return the deadline for tasks that start from now on."""
    slots = context.defaultParallelism
    text = (
        "Only {activity} Spark tasks have started within {timeout:g} s. Every rank is a task, and all run at the same "
        f"time: ask for fewer (num_proc), give Spark more cores (the default parallelism is {slots}), "
        "end what else runs on it, or wait longer (start_timeout)."
    )
    return Timeout(seconds, text)


def interfaces(nics: str | Iterable[str] | None) -> list[str]:
    """Return the network interfaces that are named."""
    return [nics] if isinstance(nics, str) else list(nics or ())


def environment_of_ranks(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables that ranks get of the driver: what is given, and its own options."""
    options = {name: value for name, value in os.environ.items() if name.startswith("HOROVOD_")}
    return exportable({**options, **(env or {})})


@dataclass(frozen=True)
class Held:
    """Tasks that wait for orders, the Spark job that they are in, and the secret that their ranks have."""

    gathering: Gathering
    stage: Stage
    secret: bytes


@contextlib.contextmanager
def hold_tasks(
    context: SparkContext,
    driver: Driver,
    count: int,
    call: bytes,
    executable: str | None,
    seconds: float,
    is_elastic: bool = False,
) -> Iterator[Held]:
    """Have Spark start so many tasks, and end them after the block.

    Parameters
    ----------
    context : SparkContext
        Whose executors run them.
    driver : Driver
        Where this process is reached.
    count : int
        How many.
    call : bytes
        The function of the ranks with its arguments, pickled.
    executable : str, optional
        Python of the ranks.
    seconds : float
        How long tasks may take to start.
    is_elastic : bool
        They may come and go.
    """
    keys = secret.make_secret_key(), secret.make_secret_key()
    with contextlib.closing(Gathering(driver.listens_at, keys[0], is_elastic)) as gathering:
        place = (driver.address, gathering.port)
        stage = Stage(context, count, Call(place, *keys, call, executable, min(seconds, _REACH_SECONDS)))
        grace = _FAILED_SECONDS
        try:
            yield Held(gathering, stage, keys[1])
            grace = _DONE_SECONDS
        finally:
            gathering.dismiss()  # tasks that the job has no use for end well, also those that begin only now
            stage.end(grace)
