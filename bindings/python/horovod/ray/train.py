"""Ray Train's trainer whose workers are the ranks of a job: ``from horovod.ray.train import HorovodTrainer``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError
from ray.train import DataConfig, RunConfig, ScalingConfig
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from horovod import _roda
from horovod.ray.coordinator import Coordinator
from horovod.runner.common.util import secret
from horovod.runner.gloo_run import create_slot_env_vars, create_torch_env_vars
from horovod.runner.util import network


@dataclass
class HorovodConfig(BackendConfig):
    """Options of the job.

    Attributes
    ----------
    nics : set of str or None
        Network interfaces to use; by default those that lead to Ray's controller.
    verbose, key, ssh_port, ssh_identity_file, ssh_str, timeout_s, placement_group_timeout_s
        Without effect: there is no ssh, each job makes a secret of its own, and Ray Train waits for room.
    """

    nics: Any = None
    verbose: int = 1
    key: Any = field(default=None, repr=False)
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    ssh_str: str | None = field(default=None, repr=False)
    timeout_s: float = 300
    placement_group_timeout_s: float = 100

    @property
    def backend_cls(self) -> type[Backend]:
        """What Ray Train starts with each set of workers."""
        return _HorovodBackend


class HorovodTrainer(DataParallelTrainer):
    """Runs a function on the workers of Ray Train, in which ``hvd.init()`` finds the job.

    ``ray.train.report`` keeps metrics and checkpoints. With ``RunConfig(failure_config=FailureConfig(max_failures=n))``
    Ray starts all workers anew when one dies or its node does; ``ray.train.get_checkpoint`` has the last checkpoint.

    Parameters
    ----------
    train_loop_per_worker : callable
        Called on each worker, with `train_loop_config` if it takes an argument.
    horovod_config : HorovodConfig, optional
        Options of the job.
    scaling_config, dataset_config, run_config, datasets, **more
        Of Ray's ``DataParallelTrainer``.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        horovod_config: HorovodConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=horovod_config or HorovodConfig(),
            scaling_config=scaling_config,
            dataset_config=dataset_config,
            run_config=run_config,
            datasets=datasets,
            **more,
        )


class _HorovodBackend(Backend):
    """Tells the workers their numbers, and serves their rendezvous from Ray's controller."""

    share_cuda_visible_devices = True
    _coordinator: Coordinator | None = None

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        self._stop()
        places = worker_group.execute(_place)
        self._coordinator = coordinator = Coordinator(backend_config)
        for rank, (node, address, _) in enumerate(places):
            coordinator.register(address, node, rank)
        shared, (_, master, port) = coordinator.serve(), places[0]
        joins = []
        for slot in coordinator.slots():
            numbers = {**create_torch_env_vars(slot, master, port), **create_slot_env_vars(slot)}
            joins.append(worker_group.execute_single_async(slot.rank, _join, {**shared, **numbers}, coordinator.key))
        ray.get(joins)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        with suppress(RayError):  # of workers that have died
            worker_group.execute(_roda.shutdown)
        self._stop()

    def _stop(self) -> None:
        if self._coordinator is not None:
            self._coordinator.stop()
            self._coordinator = None


def _place() -> tuple[str, str, int]:
    address = ray.util.get_node_ip_address()
    return str(ray.get_runtime_context().get_node_id()), address, network.free_port(address)


def _join(variables: Mapping[str, Any], key: bytes) -> None:
    os.environ.update({name: str(value) for name, value in variables.items()})
    secret.hand_over(key)
