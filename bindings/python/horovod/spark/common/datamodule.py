"""Where ranks get their batches from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from horovod.data.parquet import ParquetBatches, Rows


class DataModule:
    """The base class of an estimator's ``data_module``: ``with module(**options) as data: data.train_data()``.

    Parameters
    ----------
    **options
        ``train_dir``, ``val_dir``, ``has_val``, ``train_batch_size``, ``val_batch_size``, ``shuffle``,
        ``transformation``, ``inmemory_cache_all``, ``cur_shard``, ``shard_count``, ``schema_fields``,
        ``storage_options``, ``steps_per_epoch_train``, ``steps_per_epoch_val``, ``seed``, ``verbose``, and what
        :class:`ParquetDataModule` reads with.
    """

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)
        self.options = options

    def __enter__(self) -> DataModule:
        """Begin to read."""
        return self

    def __exit__(self, *error: object) -> None:
        """End reading."""

    def train_data(self) -> Iterator[Rows]:
        """Yield batches without end: dicts of arrays, by column."""
        raise NotImplementedError

    def val_data(self) -> Iterator[Rows]:
        """Yield batches without end, in every validation the same ones."""
        raise NotImplementedError


class ParquetDataModule(DataModule):
    """Reads Parquet files by :class:`horovod.data.parquet.ParquetBatches`; estimators' own module."""

    filesystem: Any
    train_dataset: Any
    val_dataset: Any

    def __enter__(self) -> DataModule:
        """Begin to read."""
        self._readers: list[ParquetBatches] = []
        return self

    def __exit__(self, *error: object) -> None:
        """End reading."""
        for reader in self._readers:
            reader.close_async_loader()

    def train_data(self) -> Iterator[Rows]:
        """Yield this rank's batches of one epoch after the other."""
        return self._read("train", self.train_dataset, self.options["shuffle"])

    def val_data(self) -> Iterator[Rows]:
        """Yield this rank's batches, in the files' order."""
        return self._read("val", self.val_dataset, False)

    def _read(self, part: str, dataset: Any, shuffle: bool) -> Iterator[Rows]:
        options = self.options
        queue = options.get(f"{part}_async_data_loader_queue_size")
        reader = ParquetBatches(
            self.filesystem,
            dataset,
            options["schema_fields"],
            options[f"{part}_batch_size"],
            options["cur_shard"],
            options["shard_count"],
            shuffle=shuffle,
            seed=options["seed"],
            shuffle_rows=options["shuffle_rows"],
            transform=options["transformation"],
            in_memory=options["inmemory_cache_all"],
            use_threads=options[f"{part}_reader_worker_count"] > 1,
            **({} if queue is None else {"async_loader_queue_size": queue}),
        )
        self._readers.append(reader)
        return reader.forever()
