"""The orders that every rank of a fit gets from the driver, whatever the framework."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horovod.data.parquet import Dataset, Rows
from horovod.spark.common.datamodule import DataModule, ParquetDataModule


class RowTransform:
    """Applies a function of users to each row.

    Parameters
    ----------
    function : callable
        Gets a dict by column and returns one; None for the same, changed.
    edited : sequence of (name, dtype, shape, nullable), optional
        What columns are afterwards.
    removed : sequence of str, optional
        Columns to leave out.
    """

    def __init__(
        self,
        function: Callable[[dict[str, Any]], dict[str, Any] | None],
        edited: Sequence[tuple[Any, ...]] | None = None,
        removed: Sequence[str] | None = None,
    ) -> None:
        self._function = function
        self._edited = {name: (dtype, tuple(shape or ())) for name, dtype, shape, *_ in edited or ()}
        self._removed = set(removed or ())

    def __call__(self, rows: Rows) -> Rows:
        """Return rows as they are to be."""
        changed = []
        for index in range(len(next(iter(rows.values())))):
            row = {name: values[index] for name, values in rows.items()}
            result = self._function(row)
            changed.append(row if result is None else result)
        return {
            name: self._column(name, [row[name] for row in changed]) for name in changed[0] if name not in self._removed
        }

    def _column(self, name: str, values: list[Any]) -> Any:
        dtype, shape = self._edited.get(name, (None, ()))
        try:
            column = np.stack([np.asarray(value, dtype=dtype) for value in values])
        except ValueError as error:
            raise ValueError(f"transformation_fn: column {name} is not of one shape in all rows: {error}") from error
        return column.reshape(len(values), *shape) if shape else column


@dataclass
class Training:
    """A fit, but for what its framework needs.

    Attributes
    ----------
    options : dict
        The estimator's parameters, but model, optimizer, store and backend.
    columns : list of str
        Columns to read.
    store : Store
        Where the data are.
    remote_store : RemoteStore
        The same, for this run.
    train, val : Dataset
        What to train on and to validate with, if anything.
    seed : int
        Of all that is random.
    """

    options: dict[str, Any]
    columns: list[str]
    store: Any
    remote_store: Any
    train: Dataset
    val: Dataset | None
    seed: int

    def __getattr__(self, name: str) -> Any:
        """Return a parameter."""
        if name == "options" or name not in self.options:
            raise AttributeError(name)
        return self.options[name]

    def prepare_process(self) -> None:
        """Set what the whole process has one of."""
        if self.mp_start_method:
            multiprocessing.set_start_method(self.mp_start_method, force=True)

    def steps(self, size: int) -> tuple[int, int]:
        """Return the number of batches of an epoch and of a validation, which all ranks have."""
        return (
            self.train_steps_per_epoch or self.train.batches(size, self.batch_size),
            self.validation_steps_per_epoch
            or (self.val.batches(size, self.val_batch_size or self.batch_size) if self.val else 0),
        )

    def data(self, rank: int, size: int) -> DataModule:
        """Return the module that a rank reads its batches from."""
        steps, val_steps = self.steps(size)
        transformation = None
        if self.transformation_fn is not None:
            edited, removed = self.transformation_edit_fields, self.transformation_removed_fields
            transformation = RowTransform(self.transformation_fn, edited, removed)
        queues = {name: self.options.get(name) for name in ("train_async_data_loader_queue_size",
                                                            "val_async_data_loader_queue_size")}  # fmt: skip
        module = self.options.get("data_module") or ParquetDataModule
        return module(
            train_dir=self.remote_store.train_data_path,
            val_dir=self.remote_store.val_data_path,
            has_val=self.val is not None,
            train_batch_size=self.batch_size,
            val_batch_size=self.val_batch_size or self.batch_size,
            shuffle=self.shuffle and self.shuffle_buffer_size != 0,
            shuffle_rows=self.shuffle_buffer_size,
            transformation=transformation,
            inmemory_cache_all=self.inmemory_cache_all,
            cur_shard=rank,
            shard_count=size,
            schema_fields=self.columns,
            storage_options=self.store.storage_options,
            steps_per_epoch_train=steps,
            steps_per_epoch_val=val_steps,
            train_reader_worker_count=self.train_reader_num_workers,
            val_reader_worker_count=self.val_reader_num_workers,
            seed=self.seed,
            verbose=self.verbose if rank == 0 else 0,
            filesystem=self.store.fs,
            train_dataset=self.train,
            val_dataset=self.val,
            **queues,
        )


def is_open(shape: Sequence[int | None]) -> bool:
    """Tell whether a shape's first dimension is the number of rows, and not one of a row's own."""
    return shape[0] in (-1, None)


def shaped(array: Any, shape: Sequence[int | None] | None) -> Any:
    """Return an array in a shape whose first dimension is the rows; without one, single values become rows of one.

    A single size is a row's own: ``[2]`` says what ``[-1, 2]`` does.
    """
    if shape is None:
        return array.reshape(-1, 1) if array.ndim == 1 else array
    if len(shape) == 1 and not is_open(shape):
        return array.reshape(len(array), *shape)
    return array.reshape(len(array), *[size or -1 for size in shape[1:]]) if len(shape) > 1 else array.reshape(-1)
