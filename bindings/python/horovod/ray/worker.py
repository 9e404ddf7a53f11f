"""The actor that each worker is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from horovod import _roda
from horovod.common import program_end
from horovod.ray import ray_logger
from horovod.ray.exchange import Sender
from horovod.runner.common.util import secret
from horovod.runner.util import network


class BaseHorovodWorker:
    """Runs functions in a process where ``hvd.init()`` finds its job.

    Parameters
    ----------
    world_rank : int
        Its rank; -1 while it is not known.
    world_size : int
        Number of workers.
    """

    executable: Any = None
    _has_failed = False

    def __init__(self, world_rank: int = 0, world_size: int = 1) -> None:
        self._rank = world_rank
        os.environ["HOROVOD_HOSTNAME"] = self.node_id()
        os.environ["HOROVOD_RANK"] = str(world_rank)
        os.environ["HOROVOD_SIZE"] = str(world_size)

    def __repr__(self) -> str:
        """As Ray names it before what it prints, and in errors."""
        rank = int(os.environ["HOROVOD_RANK"])
        return "HorovodWorker" if rank < 0 else f"HorovodWorker(rank={rank})"

    def node_id(self) -> str:
        """Return Ray's name of its node."""
        return str(ray.get_runtime_context().get_node_id())

    def hostname(self) -> str:
        """Return its machine's name."""
        return socket.gethostname()

    def get_gpu_ids(self) -> list[str]:
        """Return the GPUs that Ray gave it, as CUDA_VISIBLE_DEVICES names them."""
        return [str(gpu) for gpu in ray.get_gpu_ids()]

    def place(self) -> tuple[str, str, int, list[str]]:
        """Return its node, its node's address, a port of that which is free, and its GPUs."""
        address = ray.util.get_node_ip_address()
        return self.node_id(), address, network.free_port(address), self.get_gpu_ids()

    def update_env_vars(self, env_vars: Mapping[str, Any]) -> None:
        """Set environment variables."""
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> dict[str, str]:
        """Return its environment."""
        return dict(os.environ)

    def join(self, env_vars: Mapping[str, Any], key: bytes) -> None:
        """Take its place in a job whose secret is `key`."""
        self.update_env_vars(env_vars)
        secret.hand_over(key)

    def start_executable(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the object that functions are called with."""
        if executable_cls is not None:
            self.executable = executable_cls(*(executable_args or ()), **(executable_kwargs or {}))

    def execute(self, func: Callable[[Any], Any], exchange: Any = None) -> Any:
        """Call a function with the object, or with None; what it logs goes to `exchange`."""
        sender = None if exchange is None else Sender(exchange, None)
        ray_logger.configure(None if sender is None else sender.send)
        try:
            return func(self.executable)
        except BaseException as error:
            self._has_failed = True
            if _roda.is_initialized():  # the others would wait for this worker
                program_end.abort_for(error, "can't go on: its function raised ")
            raise
        finally:
            ray_logger.configure(None)
            if sender is not None:
                sender.flush()  # what was logged is there before the result

    def has_failed(self) -> bool:
        """Tell whether a call has failed since the engine was last stopped."""
        return self._has_failed

    def leave(self) -> None:
        """Stop the engine: the others' operations end with an error, where they would wait for this worker."""
        self._has_failed = False
        _roda.shutdown()
