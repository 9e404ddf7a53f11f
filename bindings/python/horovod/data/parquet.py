"""Batches of Parquet files for each rank, as NumPy's arrays; pyarrow reads them, from any file system of fsspec.

An epoch's rows are the files' row groups one after the other, in an order that changes with every epoch. Each rank
takes the same number of neighbouring rows of it: all ranks have the same number of batches, of the same sizes,
whatever the number of row groups. Where the ranks don't divide the rows, neighbours share a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horovod.common.util import require_framework
from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

Rows = dict[str, Any]  # arrays by column, with a row for each along the first dimension

BUFFER_BYTES = 64 << 20
_READ_AHEAD = 8  # batches
_STREAM_BYTES = 1 << 20


@dataclass(frozen=True)
class RowGroup:
    """Where rows are: the row group `index` of a file."""

    path: str
    index: int
    rows: int


@dataclass(frozen=True)
class Dataset:
    """A folder of files, as their footers describe it.

    Attributes
    ----------
    path : str
        The folder, or the file.
    groups : tuple of RowGroup
        Those with rows, in the order of the files' names.
    columns : tuple of str
        Those of the first file.
    """

    path: str
    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(group.rows for group in self.groups)

    def batches(self, size: int, batch_size: int) -> int:
        """Return the number of batches of an epoch, which each of `size` ranks has."""
        of_rank = math.ceil(self.rows / size)
        return math.ceil(of_rank / batch_size)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise ValueError, with what there is, when columns are missing."""
        missing = sorted(set(columns) - set(self.columns))
        if missing:
            there = ", ".join(self.columns)
            raise ValueError(f"{self.path} has no column {', '.join(missing)}. It has: {there}.")


def find(filesystem: Any, path: str) -> Dataset:
    """Read the footers of all Parquet files below a path.

    Parameters
    ----------
    filesystem : fsspec.AbstractFileSystem
        Where it is.

    Raises
    ------
    ValueError
        When there are no Parquet files, or no rows in them.
    """
    parquet = _pyarrow("parquet")
    names = [name for name in sorted(filesystem.find(path)) if not name.rpartition("/")[2].startswith(("_", "."))]
    groups: list[RowGroup] = []
    columns = None
    for name in [name for name in names if ".parquet" in name] or names:
        with filesystem.open(name, "rb") as stream, parquet.ParquetFile(stream) as file:
            columns = columns or tuple(file.schema_arrow.names)
            rows = [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
        groups += [RowGroup(name, index, count) for index, count in enumerate(rows) if count]
    if columns is None:
        raise ValueError(f"There are no Parquet files in {path}. It must be a place that driver and workers share.")
    if not groups:
        raise ValueError(f"No rows found in {path}.")
    return Dataset(path, tuple(groups), columns)


def share_out(groups: Sequence[RowGroup], rank: int, size: int) -> Iterator[tuple[RowGroup, int, int]]:
    """Yield a rank's part of the row groups in this order: each with the first of its rows, and that after the last."""
    total = sum(group.rows for group in groups)
    first = rank * total // size
    last = first + -(-total // size)
    for group in groups:
        begin, end = max(first, 0), min(last, group.rows)
        if begin < end:
            yield group, begin, end
        first, last = first - group.rows, last - group.rows


class _Batches(BaseDataLoader):
    def __init__(
        self,
        filesystem: Any,
        dataset: Dataset,
        columns: Sequence[str],
        batch_size: int,
        rank: int = 0,
        size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        shuffle_rows: int | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        transform: Callable[[Rows], Rows] | None = None,
        in_memory: bool = False,
        use_threads: bool = True,
    ) -> None:
        dataset.check_columns(columns)
        self._filesystem, self._dataset, self._columns = filesystem, dataset, list(columns)
        self._batch_size, self._rank, self._size = batch_size, rank, size
        self._shuffle, self._seed = shuffle, seed
        self._most_rows, self._most_bytes = shuffle_rows, buffer_bytes
        self._transform, self._use_threads = transform, use_threads
        self._in_memory = in_memory
        self._kept: Rows | None = None
        self._epoch = self._row_bytes = 0

    def __len__(self) -> int:
        """Return the number of batches of an epoch, which is that of every rank."""
        return self._dataset.batches(self._size, self._batch_size)

    def forever(self) -> Iterator[Rows]:
        """Yield the batches of one epoch after the other."""
        while True:
            yield from self

    def _iterate(self) -> Iterator[Rows]:
        shuffled = np.random.default_rng((self._seed, self._epoch, self._rank)) if self._shuffle else None
        windows = self._windows()
        self._epoch += 1
        if self._in_memory:
            if self._kept is None:
                self._kept = _joined(list(windows))
            windows = iter([self._kept])
        rest: Rows = {}
        for window in windows:
            rows = _joined([rest, window]) if rest else window
            count = _length(rows)
            order = np.arange(count) if shuffled is None else shuffled.permutation(count)
            whole = count - count % self._batch_size
            for begin in range(0, whole, self._batch_size):
                yield _taken(rows, order[begin : begin + self._batch_size])
            rest = _taken(rows, order[whole:]) if whole < count else {}
        if rest:
            yield rest

    def _windows(self) -> Iterator[Rows]:
        """Yield this rank's rows of an epoch, as many at a time as the buffer holds."""
        groups = self._dataset.groups
        if self._shuffle:  # alike on all ranks
            order = np.random.default_rng((self._seed, self._epoch)).permutation(len(groups))
            groups = tuple(groups[index] for index in order)
        waiting, size, count = [], 0, 0
        for part in share_out(groups, self._rank, self._size):
            for batch in self._read(*part):
                waiting.append(batch)
                size, count = size + batch.nbytes, count + len(batch)
                if size >= self._most_bytes or (self._most_rows and count >= self._most_rows):
                    yield self._decoded(waiting)
                    waiting, size, count = [], 0, 0
        if waiting:
            yield self._decoded(waiting)

    def _read(self, group: RowGroup, begin: int, end: int) -> Iterator[Any]:
        """Yield rows of a row group, a quarter of the buffer at a time."""
        with self._filesystem.open(group.path, "rb") as stream:
            file = _pyarrow("parquet").ParquetFile(stream, buffer_size=_STREAM_BYTES)

            def read(rows: int) -> Iterator[Any]:
                threads = self._use_threads
                return file.iter_batches(rows, [group.index], columns=self._columns, use_threads=threads)  # type: ignore

            if not self._row_bytes:  # footers tell sizes before decoding alone
                self._row_bytes = max(1, next(read(1)).nbytes)
            at = 0
            for batch in read(min(end, max(1, self._most_bytes // 4 // self._row_bytes))):
                kept = batch.slice(max(begin - at, 0), max(min(end - at, len(batch)) - max(begin - at, 0), 0))
                if len(kept):
                    yield kept
                at += len(batch)
                if at >= end:
                    return

    def _decoded(self, batches: list[Any]) -> Rows:
        table = _pyarrow().Table.from_batches(batches)
        is_strict = self._transform is None
        rows = {name: to_array(table.column(name), f"Column {name} of {self._dataset.path}", is_strict)
                for name in self._columns}  # fmt: skip
        return rows if self._transform is None else self._transform(rows)


class ParquetBatches(AsyncDataLoaderMixin, _Batches):
    """Iterates over a rank's batches, which a thread reads ahead: a dict of arrays, by column.

    Parameters
    ----------
    filesystem : fsspec.AbstractFileSystem
        Where the files are.
    dataset : Dataset
        As :func:`find` returned it, on whichever rank.
    columns : sequence of str
        What to read.
    batch_size : int
        Rows of a batch; the last of an epoch may have fewer.
    rank, size : int
        Which part of how many.
    shuffle : bool
        Read row groups in another order every epoch, and mix rows with those that are in memory at the same time.
    seed : int
        Of the shuffling; the same on all ranks.
    shuffle_rows : int, optional
        So many rows are mixed, if the buffer holds them.
    buffer_bytes : int
        Of decoded rows. A reader takes about three times as much, and what it reads ahead.
    transform : callable, optional
        Gets rows as they were read, and returns those to use.
    in_memory : bool
        Keep all of this rank's rows of the first epoch, and use them for all epochs.
    use_threads : bool
        Decode columns in parallel.
    async_loader_queue_size : int
        Batches that are read ahead.

    Raises
    ------
    ValueError
        When a column is missing, or, from an iteration, when rows don't have the same shape.
    """

    def __init__(self, *args: Any, async_loader_queue_size: int = _READ_AHEAD, **kwargs: Any) -> None:
        debug = kwargs.pop("debug_data_loader", False)
        super().__init__(async_loader_queue_size, debug, *args, **kwargs)


def to_array(column: Any, name: str, is_strict: bool = True) -> Any:
    """Return the values of a column as an array; lists of the same length are its further dimensions.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        With values.
    name : str
        For errors.
    is_strict : bool
        Raise ValueError for missing values and lists of different lengths, instead of returning an array of objects.
    """
    types, array, shape = _pyarrow().types, column.combine_chunks(), []
    while types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        if array.null_count:
            break
        lengths = _pyarrow("compute").min_max(_pyarrow("compute").list_value_length(array)).as_py()
        if lengths["min"] != lengths["max"]:
            if is_strict:
                raise ValueError(
                    f"{name} has lists of {lengths['min']} to {lengths['max']} values: one length is needed."
                )
            return _objects(column)
        shape.append(lengths["min"])
        array = array.flatten()
    if array.null_count:
        if is_strict:
            raise ValueError(f"{name} has {array.null_count} missing values. Fill them in, or leave these rows out.")
        if shape or types.is_nested(array.type):
            return _objects(column)
    if types.is_decimal(array.type):
        array = array.cast("float64")
    return array.to_numpy(zero_copy_only=False).reshape(len(column), *shape)


def _objects(column: Any) -> Any:
    values = np.empty(len(column), dtype=object)
    for index, value in enumerate(column.to_pylist()):
        values[index] = None if value is None else np.asarray(value)
    return values


def _length(rows: Mapping[str, Any]) -> int:
    return len(next(iter(rows.values())))


def _taken(rows: Rows, chosen: Any) -> Rows:
    return {name: values[chosen] for name, values in rows.items()}


def _joined(parts: Sequence[Rows]) -> Rows:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _pyarrow(module: str = "") -> Any:
    require_framework("pyarrow", "horovod.spark")
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    return getattr(pyarrow, module) if module else pyarrow
