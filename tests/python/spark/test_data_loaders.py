"""Batches of tensors from readers, which these stand for; no Spark."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from horovod.data import parquet
from horovod.spark import data_loaders
from horovod.spark.data_loaders.pytorch_data_loaders import (
    PytorchAsyncDataLoader,
    PytorchDataLoader,
    PytorchInfiniteAsyncDataLoader,
    PytorchInfiniteDataLoader,
    PytorchInmemAsyncDataLoader,
    PytorchInmemDataLoader,
)

Columns = namedtuple("Columns", ["number", "list"])


class Reader:
    """What petastorm's are: an iterator, which is to be reset at its end and nowhere else."""

    batched_output = True

    def __init__(self, *sizes: int, num_epochs: int | None = 1) -> None:
        self._sizes, self.num_epochs = sizes, num_epochs
        self.last_row_consumed = False
        self.resets = self.read = 0
        self._items = self._epochs()

    def reset(self) -> None:
        assert self.last_row_consumed
        self.last_row_consumed = False
        self.resets += 1
        self._items = self._epochs()

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._items)
        except StopIteration:
            self.last_row_consumed = True
            raise

    def _epochs(self) -> Iterator[Any]:
        epochs = 0
        while self.num_epochs is None or epochs < self.num_epochs:
            first, epochs = 0, epochs + 1
            for size in self._sizes:
                numbers = np.arange(first, first + size)
                self.read += size
                yield Columns(numbers, np.stack([numbers, -numbers], axis=1).astype("f4"))
                first += size


def numbers(batches: Any) -> list[list[int]]:
    found = []
    for batch in batches:
        assert set(batch) == {"number", "list"}
        assert (batch["list"] == torch.stack([batch["number"], -batch["number"]], dim=1)).all()
        found.append(batch["number"].tolist())
    return found


@pytest.mark.parametrize("kind", [PytorchDataLoader, PytorchAsyncDataLoader])
def test_epochs_up_to_the_readers_end(kind: type) -> None:
    reader = Reader(3, 0, 5, 1)
    loader = kind(reader=reader, batch_size=4, shuffling_queue_capacity=0)
    for _ in range(3):
        assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    if kind is PytorchDataLoader:
        assert reader.resets == 2
    else:
        loader.close_async_loader()


def test_an_epoch_of_so_many_batches_begins_where_the_reader_is() -> None:
    reader = Reader(2, 2, 2)
    loader = PytorchDataLoader(reader, 2, 0, limit_step_per_epoch=1)
    assert [numbers(loader) for _ in range(4)] == [[[0, 1]], [[2, 3]], [[4, 5]], [[0, 1]]]
    assert len(loader) == 1
    assert len(PytorchDataLoader([{"x": 1.0}] * 3, 2, 0)) == 3  # as the reader says


@pytest.mark.parametrize("capacity", [1, 10, 1000])
def test_shuffled_rows_come_once_and_few_are_in_memory(capacity: int) -> None:
    reader = Reader(*[7] * 20)
    torch.manual_seed(5)
    loader = PytorchDataLoader(reader, 4, capacity)
    seen: list[int] = []
    for batch in loader:
        seen += numbers([batch])[0]
        assert reader.read - len(seen) <= max(capacity, 4) + 7
    assert sorted(seen) == list(range(140))
    assert seen != list(range(140))
    assert sum(numbers(loader), []) != seen  # another order
    torch.manual_seed(5)
    assert sum(numbers(PytorchDataLoader(Reader(*[7] * 20), 4, capacity)), []) == seen


@pytest.mark.parametrize("kind", [PytorchInfiniteDataLoader, PytorchInfiniteAsyncDataLoader])
@pytest.mark.parametrize("reader", [Reader(3, num_epochs=None), [{"number": 0, "list": [0, 0]}] * 3])
def test_epochs_without_end_lose_no_row(kind: type, reader: Any) -> None:
    loader = kind(reader=reader, batch_size=2, shuffling_queue_capacity=5, limit_step_per_epoch=3)
    for _ in range(5):
        assert [len(batch) for batch in numbers(loader)] == [2, 2, 2]
    if kind is PytorchInfiniteAsyncDataLoader:
        loader.close_async_loader()
        return
    ordered = PytorchInfiniteDataLoader(Reader(3, num_epochs=None), 2, 0, limit_step_per_epoch=2)
    assert [numbers(ordered) for _ in range(2)] == [[[0, 1], [2, 0]], [[1, 2], [0, 1]]]


@pytest.mark.parametrize("kind", [PytorchInmemDataLoader, PytorchInmemAsyncDataLoader])
def test_rows_in_memory_are_read_once(kind: type) -> None:
    reader = Reader(3, 3, 100)
    loader = kind(reader=reader, batch_size=2, num_epochs=1, limit_step_per_epoch=3, shuffle=True)
    epochs = [sum(numbers(loader), []) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(6))] * 3
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert reader.read == 6
    few = kind(reader=Reader(3), batch_size=2, num_epochs=None, limit_step_per_epoch=3)
    assert numbers(few) == [[0, 1], [2], [0, 1]]
    if kind is PytorchInmemAsyncDataLoader:
        loader.close_async_loader()
        few.close_async_loader()


def test_rows_by_themselves_and_types(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"flag": bool(i % 2), "wide": np.uint16(60_000 + i), "list": np.full(2, i, "f8")} for i in range(3)]
    (batch,) = PytorchDataLoader(rows, 4, 0, "rows", verbose=True)
    assert batch["flag"].dtype == torch.uint8
    assert batch["wide"].tolist() == [60_000, 60_001, 60_002]
    assert batch["list"].dtype == torch.float64
    assert "[rows]: an epoch of 1 batches ends" in capsys.readouterr().out

    class OfLists(list):
        batched_output = False

    (batch,) = PytorchDataLoader(OfLists([{"list": np.arange(3)}] * 2), 4, 0)
    assert batch["list"].shape == (2, 3)


def test_parquet_is_a_reader(tmp_path: Path) -> None:
    pq.write_table(pa.table({"number": np.arange(10)}), tmp_path / "a.parquet")
    files = fsspec.filesystem("file")
    reader = parquet.ParquetBatches(files, parquet.find(files, str(tmp_path)), ["number"], 3)
    loader = data_loaders.PytorchDataLoader(reader, 4, 8)
    for _ in range(2):
        assert sorted(row for batch in loader for row in batch["number"].tolist()) == list(range(10))
    reader.close_async_loader()


@pytest.mark.parametrize(
    ("reader", "error", "words"),
    [
        ([], ValueError, "mine: the reader has no rows"),
        ([(1, 2)], TypeError, "mine: the reader yields tuple: give dicts or namedtuples by column"),
        ([{"x": "text"}], TypeError, "mine: PyTorch has no tensors of column x, of <U4"),
        ([{"x": np.arange(2), "y": np.arange(3)}], ValueError, r"columns of one length.*'x': 2, 'y': 3"),
        ([{"x": 1}, {"y": 1}], ValueError, "mine: column . is "),
        ([{"x": 1}, {"x": 1.5}], ValueError, r"column x is float64 of shape \(\) in a row, and in those before int64"),
        ([{"x": np.ones((2, 2))}, {"x": np.ones((2, 3))}], ValueError, r"of shape \(3,\) in a row, .* of shape \(2,\)"),
    ],
)  # fmt: skip
def test_what_can_not_become_batches(reader: list[Any], error: type[Exception], words: str) -> None:
    loaders = [PytorchDataLoader(reader, 4, 0, "mine"), PytorchInfiniteDataLoader(reader, 4, 3, "mine")]
    for loader in loaders + loaders:  # also the second time
        with pytest.raises(error, match=words):
            list(loader)


def test_wrong_numbers() -> None:
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        PytorchDataLoader([], 0, 0)
    with pytest.raises(ValueError, match="limit_step_per_epoch=-1 must be at least 1"):
        PytorchInmemDataLoader([], 1, 1)
    with pytest.raises(ValueError, match="Make it with num_epochs=None"):
        PytorchInfiniteDataLoader(Reader(1), 1, 0)
    loader = PytorchDataLoader(iter([{"x": 1.0}]), 1, 0)
    assert len(list(loader)) == 1
    with pytest.raises(ValueError, match=r"none any more, and no reset\(\)"):
        list(loader)
