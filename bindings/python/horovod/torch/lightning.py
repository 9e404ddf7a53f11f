"""``strategy="horovod"`` for Lightning 2: importing this module registers it.

    import horovod.torch.lightning
    trainer = lightning.Trainer(accelerator="cpu", strategy="horovod")

Works with the package that the program has imported, ``lightning`` or ``pytorch_lightning``.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
import torch.distributed as dist

import horovod.torch as hvd
from horovod.common import stragglers
from horovod.common.util import lightning_package
from horovod.runner.util import network
from horovod.torch._hooks import end_hooks

_PYTORCH = lightning_package()
_FABRIC = "lightning_fabric" if _PYTORCH == "pytorch_lightning" else "lightning.fabric"

try:
    _Callback: Any = importlib.import_module(f"{_PYTORCH}.callbacks").Callback
    _strategies: Any = importlib.import_module(f"{_PYTORCH}.strategies")
    _ClusterEnvironment: Any = importlib.import_module(f"{_FABRIC}.plugins.environments").ClusterEnvironment
    from lightning_utilities.core.rank_zero import rank_zero_only
except ImportError as error:
    raise ImportError("horovod.torch.lightning needs Lightning 2: pip install lightning") from error

__all__ = ["HorovodEnvironment", "HorovodStrategy", "StragglerCallback"]


class StragglerCallback(_Callback):
    """Gives the Trainer's loggers, at an epoch's end, which rank kept the others waiting since the one before.

    ``straggler`` is the rank (-1: none was named, :func:`horovod.torch.on_straggler`), ``straggler_ms`` by how much it
    comes last.
    """

    def __init__(self) -> None:
        self._latest = stragglers.Latest()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log them."""
        del pl_module
        told = self._latest.take()
        for logger in trainer.loggers:
            logger.log_metrics(told, step=trainer.global_step)


class HorovodEnvironment(_ClusterEnvironment):
    """The job as the engine knows it, whatever launcher started it."""

    creates_processes_externally = True
    main_address = network.loopback_address()  # asked for by none: the engine brings the processes together
    main_port = 0

    @staticmethod
    def detect() -> bool:
        """Say no: the strategy brings its environment."""
        return False

    def world_size(self) -> int:
        """Return the number of ranks."""
        return hvd.size()

    def global_rank(self) -> int:
        """Return this process's rank."""
        return hvd.rank()

    def local_rank(self) -> int:
        """Return this process's number on its host."""
        return hvd.local_rank()

    def node_rank(self) -> int:
        """Return the number of this process's host."""
        return hvd.cross_rank()

    def set_world_size(self, size: int) -> None:
        """Do nothing: the job has as many ranks as were started."""

    def set_global_rank(self, rank: int) -> None:
        """Do nothing, as above."""


class HorovodStrategy(_strategies.DDPStrategy):
    """One rank for each process that the launcher started; gradients are reduced by ``hvd.DistributedOptimizer``.

    ``devices`` and ``num_nodes`` of the Trainer have no effect: a rank uses the GPU of its number on the host, or the
    CPU. What torch.distributed offers (torchmetrics, ``sync_dist``, ``all_gather``) goes over the same engine.

    Parameters
    ----------
    scale_learning_rate : bool
        Multiply every learning rate by the number of ranks, as Lightning 1's strategy of this name did.
    **options
        Of ``hvd.DistributedOptimizer``: ``compression``, ``op``, ``sharded``, ``groups``, …
    """

    strategy_name = "horovod"

    def __init__(self, scale_learning_rate: bool = True, **options: Any) -> None:
        own = {name: options.pop(name) for name in ("accelerator", "parallel_devices") if name in options}
        hvd.init()
        super().__init__(cluster_environment=HorovodEnvironment(), process_group_backend="roda", **own)
        self._scale_learning_rate = scale_learning_rate
        self._options = options

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the strategy under its name."""
        strategy_registry.register(cls.strategy_name, cls, description="hvd.DistributedOptimizer", override=True)

    @property
    def root_device(self) -> torch.device:
        """Return the device of this rank."""
        device: torch.device = self.parallel_devices[0]
        if device.type == "cpu":
            return device
        return torch.device(device.type, hvd.local_rank() % torch.cuda.device_count())

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """Return how data are shared out among the ranks."""
        return {"num_replicas": hvd.size(), "rank": hvd.rank()}

    def _configure_launcher(self) -> None:
        self._launcher = None

    def setup_distributed(self) -> None:
        """Bring torch.distributed up over the engine, unless it is up."""
        self.set_world_ranks()
        if not dist.is_initialized():
            dist.init_process_group("roda", timeout=self._timeout)

    def set_world_ranks(self) -> None:
        """Tell Lightning which rank prints."""
        rank_zero_only.rank = hvd.rank()

    def configure_ddp(self) -> None:
        """Give every rank the first one's model; nothing is wrapped."""
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)

    def setup_optimizers(self, trainer: Any) -> None:
        """Wrap the module's optimizers.

        Raises
        ------
        ValueError
            When Lightning is to clip gradients that only a part of lies on each rank.
        """
        if self._options.get("sharded") and trainer.gradient_clip_val:
            raise ValueError(
                "With sharded=True no rank has whole gradients for gradient_clip_val. Leave it out, and call "
                "optimizer.clip_grad_norm_(max_norm) before the step in manual optimization."
            )
        super().setup_optimizers(trainer)
        if self._scale_learning_rate:
            self._scale_learning_rates()
        for optimizer in self.optimizers:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self.optimizers: list[Any] = [self._distributed(optimizer, trainer) for optimizer in self.optimizers]

    def _scale_learning_rates(self) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= hvd.size()
        for config in self.lr_scheduler_configs:
            if hasattr(config.scheduler, "base_lrs"):
                config.scheduler.base_lrs = [rate * hvd.size() for rate in config.scheduler.base_lrs]

    def _distributed(self, optimizer: torch.optim.Optimizer, trainer: Any) -> torch.optim.Optimizer:
        own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        named = [(name, parameter) for name, parameter in self.lightning_module.named_parameters() if parameter in own]
        passes = trainer.accumulate_grad_batches
        distributed = hvd.DistributedOptimizer(optimizer, named, backward_passes_per_step=passes, **self._options)
        optimizer._opt_called = True  # its schedulers would warn that it never steps
        return distributed

    def _waits_in_closure(self) -> bool:
        """Tell whether whole gradients lie in the parameters before the step, as plain reductions leave them."""
        is_plain = self._options.get("op") != hvd.Adasum and not self._options.get("sharded")
        return self.lightning_module.automatic_optimization and is_plain

    def post_backward(self, closure_loss: torch.Tensor) -> None:
        """Wait for the gradients, so that they are whole when Lightning clips them."""
        super().post_backward(closure_loss)
        trainer = self.lightning_module.trainer
        if self._waits_in_closure() and not trainer.fit_loop._should_accumulate():
            for optimizer in self.optimizers:
                optimizer.synchronize()

    def optimizer_step(self, optimizer: Any, closure: Any, model: Any = None, **kwargs: Any) -> Any:
        """Step, without waiting for gradients that the closure waits for."""
        with optimizer.skip_synchronize() if self._waits_in_closure() else contextlib.nullcontext():
            return super().optimizer_step(optimizer, closure, model, **kwargs)

    def teardown(self) -> None:
        """Leave the model as it was: a later fit has optimizers of its own."""
        for optimizer in self.optimizers:
            end_hooks(optimizer)
        super().teardown()


HorovodStrategy.register_strategies(_strategies.StrategyRegistry)
