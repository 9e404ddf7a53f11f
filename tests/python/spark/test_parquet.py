"""Row groups shared out among ranks, and batches of them; no Spark."""

from __future__ import annotations

import decimal
import importlib.util
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from horovod.data import parquet
from horovod.data.parquet import ParquetBatches, RowGroup
from horovod.spark.common.remote import RowTransform, shaped

FILES = fsspec.filesystem("file")


def write(folder: Path, *sizes: int, group: int = 1 << 20) -> parquet.Dataset:
    """Write files of so many rows, numbered through."""
    folder.mkdir(exist_ok=True)
    first = 0
    for index, size in enumerate(sizes):
        numbers = np.arange(first, first + size)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 3).astype("f4")), 3)
        table = pa.table({"number": numbers, "list": lists.cast(pa.list_(pa.float32())), "unused": numbers})
        pq.write_table(table, folder / f"part-{index}.parquet", row_group_size=group)
        first += size
    (folder / "_SUCCESS").touch()
    return parquet.find(FILES, str(folder))


@pytest.mark.parametrize("sizes", [[5], [1, 1, 1], [7, 2, 9], [3] * 11])
def test_ranks_get_as_many_rows_and_together_all(sizes: list[int]) -> None:
    groups = [RowGroup("", index, rows) for index, rows in enumerate(sizes)]
    total = sum(sizes)
    for size in range(1, total + 3):
        seen: set[tuple[int, int]] = set()
        for rank in range(size):
            parts = list(parquet.share_out(groups, rank, size))
            mine = [(group.index, row) for group, begin, end in parts for row in range(begin, end)]
            assert len(mine) == -(-total // size)
            seen |= set(mine)
        assert len(seen) == total


@pytest.mark.parametrize("buffer_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("in_memory", [False, True])
def test_batches_of_epochs(tmp_path: Path, buffer_bytes: int, in_memory: bool) -> None:
    dataset = write(tmp_path / "data", 10, 21, 0, 6, group=4)
    assert dataset.rows == 37
    assert len(dataset.groups) == 11
    options: dict[str, Any] = {"buffer_bytes": buffer_bytes, "in_memory": in_memory, "seed": 3}
    readers = [ParquetBatches(FILES, dataset, ["number", "list"], 5, rank, 2, **options) for rank in range(2)]
    epochs = []
    for _ in range(2):
        seen = []
        for reader in readers:
            batches = list(reader)
            assert [len(batch["number"]) for batch in batches] == [5, 5, 5, 4]
            assert len(reader) == 4
            for batch in batches:
                assert set(batch) == {"number", "list"}
                assert (batch["list"] == batch["number"][:, None]).all()
                assert batch["list"].shape[1:] == (3,)
                seen += batch["number"].tolist()
        assert set(seen) == set(range(37))
        assert len(seen) == 38  # one row for both
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    for reader in readers:
        reader.close_async_loader()


def test_without_shuffling_rows_keep_their_order(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", 4, 5)
    reader = ParquetBatches(FILES, dataset, ["number"], 4, shuffle=False, async_loader_queue_size=0)
    assert [batch["number"].tolist() for batch in reader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    forever = reader.forever()
    assert [next(forever)["number"][0] for _ in range(5)] == [0, 4, 8, 0, 4]


def test_more_ranks_than_rows(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", 3)
    numbers = [list(ParquetBatches(FILES, dataset, ["number"], 8, rank, 5))[0]["number"].tolist() for rank in range(5)]
    assert numbers == [[0], [0], [1], [1], [2]]


def test_memory_holds_a_buffer_of_data_that_are_larger(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows, width = 4096, 2048  # 64 MiB in one row group
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(rows * width)), width)
    pq.write_table(pa.table({"x": values}), tmp_path / "data/a.parquet", compression="zstd")
    dataset = parquet.find(FILES, str(tmp_path / "data"))
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for batch in ParquetBatches(FILES, dataset, ["x"], 64, buffer_bytes=1 << 20, async_loader_queue_size=0):
        most, count = max(most, pa.total_allocated_bytes() - before), count + len(batch["x"])
    assert count == rows
    assert most < 16 << 20


def test_what_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no Parquet files in .*nothing"):
        parquet.find(FILES, str(tmp_path / "nothing"))
    dataset = write(tmp_path / "data", 2)
    with pytest.raises(ValueError, match="has no column elsewhere, gone. It has: number, list, unused"):
        ParquetBatches(FILES, dataset, ["gone", "number", "elsewhere"], 1)
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "empty/a.parquet")
    with pytest.raises(ValueError, match=r"No rows found in .*empty"):
        parquet.find(FILES, str(tmp_path / "empty"))


def test_without_pyarrow_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow, .*: pip install pyarrow"):
        parquet.find(FILES, str(tmp_path))


@pytest.mark.parametrize(
    ("values", "words"),
    [([[1.0], [1.0, 2.0]], "Column x has lists of 1 to 2 values"), ([1, None], "Column x has 1 missing values")],
)
def test_rows_of_different_kinds(values: list[Any], words: str) -> None:
    column = pa.chunked_array([pa.array(values)])
    with pytest.raises(ValueError, match=words):
        parquet.to_array(column, "Column x")
    assert len(parquet.to_array(column, "Column x", is_strict=False)) == 2


def test_columns_as_arrays() -> None:
    for values, expected in [
        ([[[1, 2]], [[3, 4]]], np.array([[[1, 2]], [[3, 4]]])),
        ([True, False], np.array([True, False])),
        ([decimal.Decimal("1.5")], np.array([1.5])),
        (["a", "bc"], np.array(["a", "bc"], dtype=object)),
    ]:
        array = parquet.to_array(pa.chunked_array([pa.array(values)]), "x")
        assert array.dtype == expected.dtype
        assert (array == expected).all()


def test_transformations_of_rows() -> None:
    rows = {"x": np.arange(4.0), "y": np.arange(4)}

    def double(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": [row["x"], 2 * row["x"]], "y": row["y"]}

    changed = RowTransform(double, [("x", np.float32, (2, 1), False)], ["y"])(rows)
    assert list(changed) == ["x"]
    assert changed["x"].dtype == np.float32
    assert changed["x"].shape == (4, 2, 1)
    with pytest.raises(ValueError, match="column x is not of one shape"):
        RowTransform(lambda row: {"x": np.zeros(row["y"])})(rows)


def test_shapes_of_a_models_inputs() -> None:
    assert shaped(np.zeros(4), None).shape == (4, 1)
    assert shaped(np.zeros((4, 6)), [-1, 1, 2, 3]).shape == (4, 1, 2, 3)
    assert shaped(np.zeros((4, 1)), [-1]).shape == (4,)
