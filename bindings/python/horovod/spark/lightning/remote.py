"""The work of each rank of Lightning's ``TorchEstimator``."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from horovod.spark.common.remote import Training, shaped
from horovod.spark.torch.remote import loaded, saved, tensors

SUFFIX = ".ckpt"  # which Lightning gives its checkpoints
_RANKS = "horovod_ranks"  # for which a checkpoint's learning rates are


def package_of(model: Any) -> Any:
    """Return the package that a module of Lightning is of, which has two names; None for other modules."""
    names = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    for name, package in (("pytorch_lightning", "pytorch_lightning"), ("lightning", "lightning.pytorch")):
        if name in names:
            return importlib.import_module(package)
    return None


class _Loader:
    """The batches of an epoch, for the Trainer."""

    def __init__(self, batches: Iterator[Any], steps: int, prepare: Callable[[Any], Any]) -> None:
        self._batches, self._steps, self._prepare = batches, steps, prepare

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[Any]:
        for batch in itertools.islice(self._batches, self._steps):
            yield self._prepare(batch)


def train(training: Training, pickled: bytes, checkpoint: bytes | None) -> tuple[list[dict[str, float]], bytes]:
    """Train in one rank; return what was logged by epoch, and on rank 0 the state of the model."""
    training.prepare_process()
    model = cloudpickle.loads(pickled)  # the strategy is of the package that this imports
    package: Any = package_of(model)
    import horovod.torch as hvd
    from horovod.torch.lightning import HorovodStrategy

    hvd.init()
    package.seed_everything(training.seed + hvd.rank(), verbose=False)
    steps, val_steps = training.steps(hvd.size())
    store, epochs = training.remote_store, training.epochs
    history: list[Any] = []
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(store.get_local_output_dir())
        data = stack.enter_context(training.data(hvd.rank(), hvd.size()))
        resumed = None
        if checkpoint is not None:
            resumed, trained = _resumed(checkpoint, hvd.size(), stack.enter_context(tempfile.TemporaryDirectory()))
            epochs += trained
        sync = (lambda: store.sync(output)) if store.saving_runs and hvd.rank() == 0 else lambda: None
        keeper, callbacks = _callbacks(package, training, output, history, sync, hvd.size())
        on_gpu = training.use_gpu and training.num_gpus != 0
        compression = training.gradient_compression
        trainer = package.Trainer(**{
            "accelerator": "auto" if on_gpu else "cpu",
            "devices": 1,
            "strategy": HorovodStrategy(**({"compression": compression} if compression else {})),
            "max_epochs": epochs,
            "callbacks": callbacks,
            "logger": training.logger or package.loggers.CSVLogger(os.path.join(output, store.logs_subdir)),
            "log_every_n_steps": training.log_every_n_steps,
            "num_sanity_val_steps": 0,
            "accumulate_grad_batches": training.backward_passes_per_step,
            "enable_progress_bar": False,
            "enable_model_summary": bool(training.verbose),
            "use_distributed_sampler": False,
            "profiler": training.profiler,
            **(training.trainer_args or {}),
        })  # fmt: skip
        prepare = _preparation(training)
        loaders = [_Loader(data.train_data(), steps, prepare)]
        if training.val is not None:
            loaders.append(_Loader(data.val_data(), val_steps, prepare))
        trainer.fit(model, *loaders, ckpt_path=resumed)
        sync()
        if hvd.rank() != 0:
            return history, b""
        if keeper is not None:  # the user's, which may have another than the last
            with open(keeper.best_model_path, "rb") as file:
                model.load_state_dict(loaded(file.read())["state_dict"])
        return history, saved(getattr(model, "wrapped", model).cpu().state_dict())


def _resumed(checkpoint: bytes, size: int, folder: str) -> tuple[str, int]:
    """Write a checkpoint with learning rates for so many ranks to a file; return that, and its number of epochs."""
    state = loaded(checkpoint)
    for optimizer in state["optimizer_states"]:
        for group in optimizer["param_groups"]:
            group["lr"] *= size / state[_RANKS]
    path = os.path.join(folder, f"resumed{SUFFIX}")
    with open(path, "wb") as file:
        file.write(saved(state))
    return path, state["epoch"] + 1


def _preparation(training: Training) -> Callable[[Any], Any]:
    shapes = dict(zip(training.feature_cols, training.input_shapes or ()))
    shapes.update(zip(training.label_cols, training.label_shapes or ()))

    def prepare(batch: Any) -> Any:
        batch = tensors(batch)
        return {name: shaped(value, shapes[name]) if name in shapes else value for name, value in batch.items()}

    return prepare


def _callbacks(
    package: Any, training: Training, output: str, history: list[Any], sync: Callable[[], None], size: int
) -> tuple[Any, list[Any]]:
    """Return all callbacks, and before them the one of the user that keeps checkpoints, or None."""

    class Record(package.Callback):
        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            sync()  # what was saved after the last epoch

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            if training.terminate_on_nan and loss is not None and not math.isfinite(float(loss)):
                raise ValueError(f"The loss is {float(loss)} in epoch {trainer.current_epoch} (terminate_on_nan).")

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            history.append(metrics)
            if training.verbose and trainer.is_global_zero:
                print({"epoch": trainer.current_epoch, **metrics}, flush=True)

        def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
            checkpoint[_RANKS] = size

    given = list(training.callbacks or ())
    for callback in given:
        if isinstance(callback, package.callbacks.ModelCheckpoint):
            callback.dirpath, callback.filename = output, training.remote_store.checkpoint_filename
            return callback, [*given, Record()]
    name = training.remote_store.checkpoint_filename
    last = package.callbacks.ModelCheckpoint(output, name, enable_version_counter=False, save_on_train_epoch_end=True)
    return None, [*given, Record(), last]
