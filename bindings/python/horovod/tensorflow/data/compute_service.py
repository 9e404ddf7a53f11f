"""tf.data's service: one job computes datasets, and others train with what it sends them.

    horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker /shared/compute.json

starts the dispatcher and a worker on every rank. Jobs that train read the file:

    config = TfDataServiceConfig.read("/shared/compute.json", wait_for_file_creation=True)
    dataset = dataset.send_to_data_service(config, hvd.rank(), hvd.size())

What the service sends is neither encrypted nor authenticated: that is TensorFlow's.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from horovod.common import model
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.compat.compute_service import ComputeClient
from horovod.runner.util import network

SIDES = ("compute", "training")
_shared = itertools.count()  # numbers the datasets that ranks share


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """The facts of a computing job that a training job has to know.

    Parameters
    ----------
    dispatchers : int
        How many dispatchers there are: one for all ranks that train, or one for each.
    workers_per_dispatcher : int
        How many workers of the computing job each has.
    dispatcher_side : str
        Which job starts the dispatchers: ``compute`` or ``training``.
    addresses : dict
        Of the compute service, by interface: lists of host and port.
    key : bytes
        What a client of the compute service proves to know.
    timeout : int
        For how many seconds dispatchers and workers are waited for.
    """

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: dict[str, list[tuple[str, int]]]
    key: bytes
    timeout: int = 60

    def __post_init__(self) -> None:
        if self.dispatcher_side not in SIDES:
            raise ValueError(f"dispatcher_side is compute or training, not {self.dispatcher_side!r}.")

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """Return a client of the compute service; NoValidAddressesFound when it can't be reached."""
        return ComputeClient(self.addresses, self.key, verbose)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, of which JSON is made."""
        return {**dataclasses.asdict(self), "key": base64.b64encode(self.key).decode("ascii")}

    @staticmethod
    def from_dict(config: dict[str, Any]) -> TfDataServiceConfig:
        """Return what :meth:`to_dict` made plain values of; ValueError, which names the field, for what is none."""
        try:
            given = vars(_CONFIG.take(config))
            given["key"] = base64.b64decode(given["key"])
            given["addresses"] = {
                nic: [(str(host), int(port)) for host, port in listed] for nic, listed in given["addresses"].items()
            }
            return TfDataServiceConfig(**given)
        except (ValueError, TypeError) as error:
            raise ValueError(f"This is no configuration of a compute service: {error}.") from error

    def write(self, filename: str) -> None:
        """Write a file, whole or not at all, that the owner alone can read: it has the key."""
        temporary = Path(f"{filename}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(self.to_dict(), file)
        temporary.replace(filename)

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        """Read a file that :meth:`write` wrote, when it is there; FileNotFoundError or ValueError."""
        while wait_for_file_creation and not Path(filename).exists():
            time.sleep(0.1)
        try:
            return TfDataServiceConfig.from_dict(model.parse(model.read_text(Path(filename), 1 << 20)))
        except ValueError as error:
            raise ValueError(f"{filename}: {error}") from error


@dataclasses.dataclass
class _Config:
    """A configuration as plain values, for a file."""

    dispatchers: int = model.of(model.whole(1, 1 << 20))
    workers_per_dispatcher: int = model.of(model.whole(1, 1 << 20))
    dispatcher_side: str = model.of(model.text(64))
    addresses: dict[str, Any] = model.of(model.mapped(model.listed(model.listed(model.anything(), 2), 1 << 16)))
    key: str = model.of(model.text())
    timeout: float = model.of(model.number(0), default=60)


_CONFIG = model.modelled(_Config)


def _dispatcher_of(config: TfDataServiceConfig, rank: int) -> int:
    if config.dispatchers == 1:
        return 0
    if rank >= config.dispatchers:
        raise ValueError(
            f"Rank {rank} has no dispatcher: there are {config.dispatchers}. Start the compute job with "
            "--dispatchers 1, or with one for each rank that trains."
        )
    return rank


def _own_address(client: ComputeClient) -> str:
    """Return the address of this host that others reach, who reach the compute service."""
    places = [place for listed in client.addresses().values() for place in listed]
    return network.address_towards(min(places, key=lambda place: network.is_loopback(place[0]))[0])


@contextlib.contextmanager
def _dispatcher(config: TfDataServiceConfig, client: ComputeClient, dispatcher_id: int) -> Iterator[None]:
    """Run a dispatcher in this process, and tell the compute service of it."""
    server = tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(port=0, protocol="grpc")
    )
    try:
        port = server.target.rpartition(":")[2]
        client.register_dispatcher(dispatcher_id, f"grpc://{network.host_of_url(_own_address(client))}:{port}")
        yield
    finally:
        server.stop()


@contextlib.contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """Give the address of a rank's dispatcher, with all its workers there; on the training side start it if need be.

    Parameters
    ----------
    compute_config : TfDataServiceConfig
        Of the job that computes.
    rank : int
        This process's, in the job that trains.

    Raises
    ------
    ValueError
        When this rank has no dispatcher.
    horovod.runner.common.util.timeout.TimeoutException
        When the dispatcher, or a worker, does not come.
    """
    dispatcher_id = _dispatcher_of(compute_config, rank)
    client = compute_config.compute_client()
    with contextlib.ExitStack() as stack:
        if compute_config.dispatcher_side == "training" and rank == dispatcher_id:
            stack.enter_context(_dispatcher(compute_config, client, dispatcher_id))
        address = client.wait_for_dispatcher_registration(dispatcher_id, compute_config.timeout)
        client.wait_for_dispatcher_worker_registration(dispatcher_id, compute_config.timeout)
        yield address


def send_to_data_service(
    dataset: tf.data.Dataset,
    compute_config: TfDataServiceConfig,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> tf.data.Dataset:
    """Return a dataset that the service computes; also a method of ``tf.data.Dataset``.

    Parameters
    ----------
    dataset : tf.data.Dataset
        What is computed: the same on all ranks.
    compute_config : TfDataServiceConfig
        Of the job that computes, whose dispatchers are on its own side.
    rank, size : int
        This process's, and the number of ranks that train.
    processing_mode : str
        ``distributed_epoch``: the workers share the elements. ``parallel_epochs``: each has them all.
    reuse_dataset : bool
        Whether the ranks of one dispatcher share one pass, so that each element comes to one of them. Ranks match such
        datasets by the order in which they send them.
    round_robin : bool
        With `reuse_dataset`: whether the ranks get elements in turns. Needs `size`, and an infinite dataset.

    Raises
    ------
    RuntimeError
        When the dispatchers are on the training side: they have to live as long as the dataset is used.
    ValueError
        For `round_robin` without `size`, or with ``reuse_dataset=False``.
    """
    if compute_config.dispatcher_side == "training":
        raise RuntimeError(
            "The dispatchers are on the training side. Use `with tf_data_service(compute_config, rank) as address:` "
            "and tf.data.experimental.service.distribute(..., service=address) while it lasts."
        )
    if round_robin and (size is None or not reuse_dataset):
        raise ValueError("round_robin needs size, and reuse_dataset=True.")
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name=f"job.{next(_shared)}" if reuse_dataset else None,
                consumer_index=rank if round_robin else None,
                num_consumers=size if round_robin else None,
            )
        )


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(compute_config: TfDataServiceConfig, index: int | None = None) -> None:
    """Be a worker, and a dispatcher where it is this rank's turn, until somebody shuts the compute service down.

    Parameters
    ----------
    compute_config : TfDataServiceConfig
        Of this job.
    index : int, optional
        Which of the workers this is; by default the rank, of which a launcher's variables tell before ``init``.

    Raises
    ------
    ValueError
        For one worker more than the dispatchers have.
    """
    if index is None:
        import horovod.tensorflow as hvd

        index = hvd.rank() if hvd.is_initialized() else get_env_rank_and_size()[0]
    dispatcher_id = index // compute_config.workers_per_dispatcher
    if dispatcher_id >= compute_config.dispatchers:
        raise ValueError(
            f"Worker {index} is one too many: {compute_config.dispatchers} dispatchers have "
            f"{compute_config.workers_per_dispatcher} each."
        )
    client = compute_config.compute_client()
    with contextlib.ExitStack() as stack:
        if compute_config.dispatcher_side == "compute" and index % compute_config.workers_per_dispatcher == 0:
            stack.enter_context(_dispatcher(compute_config, client, dispatcher_id))
        address = client.wait_for_dispatcher_registration(dispatcher_id, compute_config.timeout)
        own = _own_address(client)
        worker = tf.data.experimental.service.WorkerServer(
            tf.data.experimental.service.WorkerConfig(
                dispatcher_address=address.rpartition("/")[2],
                worker_address=f"{own}:%port%",
                data_transfer_address=f"{own}:%dts_port%",
                heartbeat_interval_ms=1000,
                dispatcher_timeout_ms=compute_config.timeout * 1000,
            )
        )
        stack.callback(worker.stop)
        client.register_worker_for_dispatcher(dispatcher_id, index)
        with contextlib.suppress(OSError, EOFError):  # the service may be gone before its answer
            client.wait_for_shutdown()
