"""Batches of PyTorch's tensors from a reader.

A reader is an iterable of dicts or namedtuples by column: of arrays with a row for each along the first dimension, or,
where values are single numbers or the reader's ``batched_output`` is false, of one row each. petastorm's are such.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.data.parquet import Rows

# What few operations of PyTorch take, or none.
_WIDER = {"bool": "uint8", "uint16": "int32", "uint32": "int64"}


class PytorchDataLoader(BaseDataLoader):
    """Iterates over a reader's rows: dicts of tensors, by column. One thread may iterate at a time.

    Parameters
    ----------
    reader : iterable
        As this module says. After its end ``reader.reset()`` is called, if there is one, before it is read again.
    batch_size : int
        Rows of a batch; the last one before the reader's end may have fewer.
    shuffling_queue_capacity : int
        So many rows, at least those of a batch, are in memory for a batch to be drawn from, as ``torch.manual_seed``
        decides; 0: rows keep their order.
    name : str
        For what is printed, and for errors.
    limit_step_per_epoch : int
        Batches of an epoch at most; -1: those until the reader's end. The next epoch begins where the reader is.
    verbose : bool
        Print when an epoch begins and ends.

    Raises
    ------
    ValueError
        When numbers are out of range; from an iteration, when the reader has no rows or columns don't fit together.
    TypeError
        From an iteration, when there are no tensors of what the reader yields.
    """

    def __init__(
        self,
        reader: Iterable[Any],
        batch_size: int,
        shuffling_queue_capacity: int,
        name: str = "",
        limit_step_per_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if batch_size < 1 or shuffling_queue_capacity < 0 or limit_step_per_epoch < -1:
            raise ValueError(
                f"{name or 'loader'}: batch_size={batch_size} must be at least 1, "
                f"shuffling_queue_capacity={shuffling_queue_capacity} at least 0, and "
                f"limit_step_per_epoch={limit_step_per_epoch} at least 0, or -1 for no limit."
            )
        self.reader, self.batch_size = reader, batch_size
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self.name, self.limit_step_per_epoch, self.verbose = name, limit_step_per_epoch, verbose
        seed = int(torch.empty((), dtype=torch.int64).random_())
        self._random = np.random.default_rng(seed) if shuffling_queue_capacity else None
        self._is_at_end = False

    def __len__(self) -> int:
        """Return the limit of an epoch's batches, or else the reader's own length."""
        limit = self.limit_step_per_epoch
        return len(self.reader) if limit < 0 else limit  # type: ignore[arg-type]

    def _iterate(self) -> Iterator[Rows]:
        return self._epoch(self._batches(self._read()))

    def _epoch(self, batches: Iterator[Rows]) -> Iterator[Rows]:
        """Yield batches up to the limit."""
        self._say("an epoch begins")
        count = 0
        limit = self.limit_step_per_epoch
        for batch in itertools.islice(batches, None if limit < 0 else limit):
            count += 1
            yield batch
        self._say(f"an epoch of {count} batches ends")

    def _batches(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yield batches drawn from the rows that are in memory."""
        pool = _Pool(self.name, max(self.shuffling_queue_capacity, self.batch_size))
        for part in rows:
            taken = 0
            while taken < _length(part):
                taken += pool.put(part, taken)
                if pool.is_full:
                    yield pool.draw(self.batch_size, self._random)
        while pool.count:
            yield pool.draw(self.batch_size, self._random)

    def _read(self) -> Iterator[Rows]:
        """Yield the rows up to the reader's end."""
        for _ in range(2):  # where it stopped at its very end, it has nothing more the first time
            if hasattr(self.reader, "reset") and (self._is_at_end or getattr(self.reader, "last_row_consumed", False)):
                self._say("the reader begins anew")
                self.reader.reset()
            has_rows = self._is_at_end = False
            for item in self.reader:
                rows = self._by_column(item)
                has_rows = has_rows or _length(rows) > 0
                yield rows
            self._is_at_end = True
            if has_rows:
                return
        raise ValueError(f"{self.name or 'loader'}: the reader has no rows, or none any more, and no reset().")

    def _by_column(self, item: Any) -> Rows:
        """Return what the reader yielded as arrays of one length."""
        where = self.name or "loader"
        if not isinstance(item, Mapping):
            if not hasattr(item, "_asdict"):
                kind = type(item).__name__
                raise TypeError(f"{where}: the reader yields {kind}: give dicts or namedtuples by column.")
            item = item._asdict()
        columns = {name: np.asarray(value) for name, value in item.items()}
        if not getattr(self.reader, "batched_output", all(array.ndim for array in columns.values())):
            columns = {name: array[None] for name, array in columns.items()}
        lengths = {name: len(array) for name, array in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"{where}: a batch needs columns of one length, and the reader's have {lengths}.")
        for name, array in columns.items():
            if array.dtype.kind not in "biuf":
                raise TypeError(
                    f"{where}: PyTorch has no tensors of column {name}, of {array.dtype}. Leave it out of the reader's."
                )
        return columns

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"[{self.name}]: {text}", flush=True)


class PytorchAsyncDataLoader(AsyncDataLoaderMixin, PytorchDataLoader):
    """The same, read ahead; first arguments as of :class:`horovod.data.AsyncDataLoaderMixin`."""


class PytorchInfiniteDataLoader(PytorchDataLoader):
    """A loader that goes on where the last epoch stopped, rows in memory included; the reader's end is no epoch's.

    Without ``limit_step_per_epoch`` an epoch has no end.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self.reader, "num_epochs", None) is not None:
            raise ValueError(f"{self.name or 'loader'}: the reader ends. Make it with num_epochs=None.")
        self._endless: Iterator[Rows] | None = None

    def _iterate(self) -> Iterator[Rows]:
        if self._endless is None:
            self._endless = self._batches(itertools.chain.from_iterable(self._read() for _ in itertools.count()))
        try:
            yield from self._epoch(self._endless)
        except Exception:  # after which there is nothing to go on with
            self._endless = None
            raise


class PytorchInfiniteAsyncDataLoader(AsyncDataLoaderMixin, PytorchInfiniteDataLoader):
    """The same, read ahead; first arguments as of :class:`horovod.data.AsyncDataLoaderMixin`."""


class PytorchInmemDataLoader(PytorchDataLoader):
    """Reads the rows of an epoch's batches once, and has all epochs of them.

    Parameters
    ----------
    reader, batch_size, name, verbose
        As of :class:`PytorchDataLoader`.
    num_epochs : int, optional
        Without effect: there is no end of epochs.
    shuffle : bool
        Mix all rows anew in each epoch.
    limit_step_per_epoch : int
        Batches of an epoch, at least 1: rows of so many are kept. Where the reader has fewer, they come again.
    """

    def __init__(
        self,
        reader: Iterable[Any],
        batch_size: int,
        num_epochs: int | None = None,
        name: str = "",
        shuffle: bool = False,
        limit_step_per_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if limit_step_per_epoch < 1:
            raise ValueError(
                f"{name or 'loader'}: limit_step_per_epoch={limit_step_per_epoch} must be at least 1: it tells how "
                "many rows are kept in memory."
            )
        super().__init__(reader, batch_size, int(shuffle), name, limit_step_per_epoch, verbose)
        self.num_epochs = num_epochs
        self._kept: Rows | None = None

    def _iterate(self) -> Iterator[Rows]:
        if self._kept is None:
            self._kept = self._first_rows()
        yield from self._epoch(itertools.chain.from_iterable(self._pass(self._kept) for _ in itertools.count()))

    def _first_rows(self) -> Rows:
        pool = _Pool(self.name, self.batch_size * self.limit_step_per_epoch)
        for part in self._read():
            pool.put(part, 0)
            if pool.is_full:
                break
        return pool.all()

    def _pass(self, kept: Rows) -> Iterator[Rows]:
        count = _length(kept)
        order = torch.from_numpy(np.arange(count) if self._random is None else self._random.permutation(count))
        for chosen in order.split(self.batch_size):
            yield {name: tensor[chosen] for name, tensor in kept.items()}


class PytorchInmemAsyncDataLoader(AsyncDataLoaderMixin, PytorchInmemDataLoader):
    """The same, read ahead; first arguments as of :class:`horovod.data.AsyncDataLoaderMixin`."""


class _Pool:
    """Rows in memory, of which batches are drawn: `most` at most."""

    def __init__(self, name: str, most: int) -> None:
        self.count = 0
        self._name, self._most = name or "loader", most
        self._arrays: Rows = {}  # which have room for more

    @property
    def is_full(self) -> bool:
        return self.count == self._most

    def put(self, rows: Rows, begin: int) -> int:
        """Take up rows from `begin` on; return how many had room."""
        count = min(_length(rows) - begin, self._most - self.count)
        for name in dict.fromkeys([*rows, *self._arrays]):
            self._make_room(name, rows, count)
            self._arrays[name][self.count : self.count + count] = rows[name][begin : begin + count]
        self.count += count
        return count

    def _make_room(self, name: str, rows: Rows, count: int) -> None:
        """Have a column's array hold `count` rows more of these, or raise ValueError."""
        array, values = self._arrays.get(name), rows.get(name)
        if array is None and not self.count:
            dtype = _WIDER.get(values.dtype.name, values.dtype)  # type: ignore[union-attr]
            array = np.empty((0, *values.shape[1:]), dtype)  # type: ignore[union-attr]
        if array is None or values is None or values.shape[1:] != array.shape[1:] or (
            not np.can_cast(values.dtype, array.dtype, "same_kind")
        ):  # fmt: skip
            kinds = ["not there" if one is None else f"{one.dtype} of shape {one.shape[1:]}" for one in (values, array)]
            raise ValueError(f"{self._name}: column {name} is {kinds[0]} in a row, and in those before {kinds[1]}.")
        if len(array) < self.count + count:
            more = np.empty((min(self._most, 2 * (self.count + count)), *array.shape[1:]), array.dtype)
            more[: self.count] = array[: self.count]
            array = more
        self._arrays[name] = array

    def all(self) -> Rows:
        """Return the rows as tensors, which share the pool's memory."""
        return {name: torch.from_numpy(array[: self.count]) for name, array in self._arrays.items()}

    def draw(self, count: int, random: np.random.Generator | None) -> Rows:
        """Take out so many rows, or what there is, as tensors; without `random` the first ones, which must be all."""
        count = min(count, self.count)
        chosen = np.arange(count) if random is None else random.choice(self.count, count, replace=False)
        drawn = {name: torch.from_numpy(array[chosen]) for name, array in self._arrays.items()}
        self.count -= count
        # The last rows go to where the drawn ones were.
        moved = np.setdiff1d(np.arange(self.count, self.count + count), chosen, assume_unique=True)
        for array in self._arrays.values():
            array[chosen[chosen < self.count]] = array[moved]
        return drawn


def _length(rows: Rows) -> int:
    return len(next(iter(rows.values())))
