"""The work of each rank of a ``KerasEstimator``."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from horovod._keras.variables import fetch_state
from horovod.spark.common.remote import Training, shaped
from horovod.spark.keras import util


@dataclass
class Job:
    """A Keras model, and what it is trained with.

    Attributes
    ----------
    model : bytes
        A file of Keras; with `is_resumed` a checkpoint, whose optimizer goes on.
    compiled : dict
        What ``compile`` gets, portable.
    custom_objects : dict
        Of the user.
    floatx : str
        Keras' type of numbers.
    """

    model: bytes
    is_resumed: bool
    compiled: dict[str, Any]
    custom_objects: dict[str, Any]
    floatx: str


def train(training: Training, job: Job) -> tuple[dict[str, list[float]], bytes]:
    """Train in one rank; return what was measured, and on rank 0 the model of the last or the best epoch."""
    training.prepare_process()
    _choose_gpu(training.use_gpu)
    import horovod.keras as hvd

    hvd.init()
    keras.config.set_floatx(job.floatx)
    keras.utils.set_random_seed(training.seed + hvd.rank())
    model, rate = _compiled(hvd, training, job)
    steps, val_steps = training.steps(hvd.size())
    is_first, store = hvd.rank() == 0, training.remote_store
    folder: Any = store.get_local_output_dir() if is_first else contextlib.nullcontext()
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    for callback in training.callbacks or ():
        if hasattr(callback, "initial_lr"):  # Horovod's schedules, which Horovod gives the scaled one
            callback.initial_lr = rate
        callbacks.append(callback)
    with training.data(hvd.rank(), hvd.size()) as data, folder as output:
        path = None
        if is_first:
            path = os.path.join(output, store.checkpoint_filename + util.SUFFIX)
            for callback in callbacks:
                if isinstance(callback, keras.callbacks.TensorBoard):
                    callback.log_dir = os.path.join(output, store.logs_subdir)
            sync = store.sync if store.saving_runs else lambda _: None
            callbacks.append(_Checkpoint(path, training.checkpoint_callback, hvd.size(), lambda: sync(output)))
        validation = {}
        if training.val is not None:
            batches = _batches(data.val_data(), training, model)
            validation = {"validation_data": batches, "validation_steps": val_steps}
        history = model.fit(
            _batches(data.train_data(), training, model),
            steps_per_epoch=steps,
            epochs=training.epochs,
            callbacks=callbacks,
            verbose=2 if training.verbose and is_first else 0,
            **validation,
        )
        measured = {name: [float(value) for value in values] for name, values in history.history.items()}
        if path is None:
            return measured, b""
        with open(path, "rb") as file:
            return measured, file.read()


def _choose_gpu(use_gpu: bool) -> None:
    """Let the framework see one GPU: this rank's of those that the executor has."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = given.split(",") if given else [str(index) for index in range(len(glob.glob("/dev/nvidia[0-9]*")))]
    chosen = devices[int(os.environ.get("HOROVOD_LOCAL_RANK", 0)) % len(devices)] if devices and use_gpu else ""
    os.environ["CUDA_VISIBLE_DEVICES"] = chosen


def _compiled(hvd: Any, training: Training, job: Job) -> tuple[Any, float | None]:
    custom, compiled = job.custom_objects, job.compiled
    model = util.deserialize_model(job.model, custom, is_compiled=job.is_resumed)
    own = model.optimizer if job.is_resumed else util.restored(compiled["optimizer"], custom, model.trainable_variables)
    util.scale_rate(own, hvd.size())
    optimizer = hvd.PartialDistributedOptimizer(
        own,
        compression=training.gradient_compression or hvd.Compression.none,
        backward_passes_per_step=training.backward_passes_per_step,
    )
    model.compile(
        optimizer=optimizer,
        loss=util.restored(compiled["loss"], custom),
        metrics=util.restored(compiled["metrics"], custom) or None,
        loss_weights=compiled["loss_weights"],
    )
    return model, float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def inputs_of(model: Any, arrays: Sequence[Any]) -> Any:
    """Return arrays as a model's inputs, in their shapes and types."""
    inputs = [
        shaped(np.asarray(array), [-1, *tensor.shape[1:]]).astype(keras.backend.standardize_dtype(tensor.dtype))
        for array, tensor in zip(arrays, model.inputs)
    ]
    return inputs[0] if len(inputs) == 1 else inputs


def _labels_of(model: Any, arrays: Sequence[Any], shapes: Any) -> Any:
    labels = []
    for index, (array, tensor) in enumerate(zip(arrays, model.outputs)):
        size = int(np.prod(array.shape[1:]))
        wanted = shapes[index] if shapes else [-1, *tensor.shape[1:]]
        if shapes or None not in tensor.shape[1:] and int(np.prod(tensor.shape[1:])) == size:
            array = shaped(array, wanted)
        labels.append(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)
    return labels[0] if len(labels) == 1 else labels


def _batches(rows: Iterator[Any], training: Training, model: Any) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        x = inputs_of(model, [batch[name] for name in training.feature_cols])
        y = _labels_of(model, [batch[name] for name in training.label_cols], training.label_shapes)
        if training.sample_weight_col is None:
            yield x, y
        else:
            weight = np.asarray(batch[training.sample_weight_col]).reshape(-1)
            yield x, y, [weight] * len(y) if isinstance(y, list) else weight


class _Checkpoint(keras.callbacks.Callback):
    """Saves after every epoch, or when the user's callback does, with the learning rate as for one rank."""

    def __init__(self, path: str, inner: Any, size: int, sync: Any) -> None:
        super().__init__()
        self._path, self._inner, self._size, self._sync = path, inner, size, sync
        if inner is not None:
            inner.filepath = path

    @contextlib.contextmanager
    def _unscaled(self) -> Iterator[None]:
        fetch_state(self.model)
        util.scale_rate(self.model.optimizer, 1 / self._size)
        try:
            yield
        finally:
            util.scale_rate(self.model.optimizer, self._size)

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        if self._inner is not None:
            self._inner.set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        if self._inner is not None:
            self._inner.on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._inner is not None and self._inner.save_freq != "epoch":
            with self._unscaled():
                self._inner.on_train_batch_end(batch, logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._inner is not None:
            self._inner.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        with self._unscaled():
            if self._inner is not None:
                self._inner.on_epoch_end(epoch, logs)
            else:
                new = self._path.removesuffix(util.SUFFIX) + f".new{util.SUFFIX}"
                self.model.save(new)
                os.replace(new, self._path)  # a checkpoint is the last or the new one
        self._sync()
