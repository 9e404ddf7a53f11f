"""A DataFrame as Parquet files in the store, and what the columns are."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyspark
from pyspark.ml.linalg import DenseVector, VectorUDT
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from horovod.common.util import require_framework
from horovod.data.parquet import Dataset, ParquetBatches
from horovod.runner.common.util.host_hash import host_hash as host_hash

_TYPES = {
    "bool": BooleanType,
    "int8": ByteType,
    "int16": ShortType,
    "int32": IntegerType,
    "int64": LongType,
    "float32": FloatType,
    "float64": DoubleType,
}
_lock = threading.Lock()
_written: weakref.WeakKeyDictionary[DataFrame, dict[Any, int]] = weakref.WeakKeyDictionary()
_in_use: dict[tuple[str, int], int] = {}  # the number of fits


def clear_training_cache() -> None:
    """Forget which DataFrames have been written: they are written anew."""
    with _lock:
        _written.clear()


def check_validation(validation: Any, df: DataFrame | None = None) -> None:
    """Raise ValueError for what is neither a fraction below 1 nor a column."""
    if not validation:
        return
    if isinstance(validation, float):
        if not 0 <= validation < 1:
            raise ValueError(f"Validation split {validation} must be in the range: [0, 1)")
    elif isinstance(validation, str):
        if df is not None and validation not in df.columns:
            raise ValueError(
                f"Validation column {validation} does not exist in the DataFrame, which has: {_there(df)}."
            )
    else:
        raise ValueError(f'Param validation must be of type "float" or "str", found: {type(validation)}')


@contextlib.contextmanager
def prepare_data(
    num_processes: int,
    store: Any,
    df: DataFrame,
    label_columns: Sequence[str],
    feature_columns: Sequence[str] | None,
    validation: Any = None,
    sample_weight_col: str | None = None,
    compress_sparse: bool = False,
    partitions_per_process: int = 10,
    verbose: int = 0,
    seed: int | None = None,
) -> Iterator[int]:
    """Write a DataFrame's columns to the store, unless that was done and its DataFrame is still there.

    Returns
    -------
    context manager
        Its value is the data's number in the store, which nothing else gets while it is open.

    Raises
    ------
    ValueError
        When columns are missing, or rows, or arguments can't be met.
    """
    del compress_sparse  # in Parquet zeros take no room
    check_validation(validation, df)
    if num_processes <= 0 or partitions_per_process <= 0:
        raise ValueError(
            f"num_proc={num_processes} and partitions_per_process={partitions_per_process} must both be > 0"
        )
    if not label_columns:
        raise ValueError("Parameter label_columns cannot be None or empty")
    if feature_columns is None:
        feature_columns = [column for column in df.columns if column not in label_columns]
    kinds = {
        "Label": label_columns,
        "Feature": feature_columns,
        "Weight": [sample_weight_col] if sample_weight_col else [],
    }
    for kind, columns in kinds.items():
        for column in columns:
            if column not in df.columns:
                raise ValueError(f"{kind} column {column} does not exist in the DataFrame, which has: {_there(df)}.")
    columns = list(dict.fromkeys(column for columns in kinds.values() for column in columns))
    partitions = num_processes * partitions_per_process
    key = (store.get_train_data_path(), store.get_val_data_path(), validation, tuple(columns), partitions, seed)
    with _lock:
        index = _written.get(df, {}).get(key)
        is_new = index is None or not store.exists(store.get_train_data_path(index))
        if index is None or is_new:
            index = _free_index(key[0])
        used = (key[0], index)
        _in_use[used] = _in_use.get(used, 0) + 1
    try:
        if is_new:
            if verbose:
                print(f"horovod.spark: writes the DataFrame to {store.get_train_data_path(index)}", flush=True)
            _write(df, store, index, columns, validation, partitions, seed)
            with _lock:
                _written.setdefault(df, {})[key] = index
        yield index
    finally:
        with _lock:
            _in_use[used] -= 1
            if not _in_use[used]:
                del _in_use[used]


def _there(df: DataFrame) -> str:
    return ", ".join(df.columns)


def _free_index(path: str) -> int:
    kept = {index for keys in _written.values() for key, index in keys.items() if key[0] == path}
    kept |= {index for used, index in _in_use if used == path}
    return next(index for index in range(len(kept) + 1) if index not in kept)


def _as_array(name: str) -> Any:
    """Return a column of vectors as one of lists."""
    if pyspark.__version__ < "4":
        require_framework("pandas", "horovod.spark")  # which the import below needs there
    from pyspark.ml.functions import vector_to_array

    return vector_to_array(functions.col(f"`{name}`")).alias(name)


def _write(
    df: DataFrame, store: Any, index: int, columns: list[str], validation: Any, partitions: int, seed: int | None
) -> None:
    selected = [
        _as_array(field.name) if isinstance(field.dataType, VectorUDT) else functions.col(f"`{field.name}`")
        for field in df.schema.fields
        if field.name in columns or field.name == validation
    ]
    train, val, ratio = df.select(*selected), None, 0.0
    if isinstance(validation, float) and validation:
        train, val = train.randomSplit([1.0 - validation, validation], seed)
        ratio = validation
    elif validation:
        chosen = functions.col(f"`{validation}`")
        if not isinstance(df.schema[validation].dataType, BooleanType):
            chosen = chosen > 0
        dropped = [] if validation in columns else [validation]
        train, val = train.filter(~chosen).drop(*dropped), train.filter(chosen).drop(*dropped)
        ratio = 0.5
    for part, path, share in (
        (train, store.get_train_data_path(index), 1 - ratio),
        (val, store.get_val_data_path(index), ratio),
    ):
        if part is None:
            continue
        part = part.coalesce(max(1, int(partitions * share)))
        if store.is_sparks:
            part.write.mode("overwrite").parquet(path)
        else:
            _write_by_tasks(part, store, path)


def _write_by_tasks(df: DataFrame, store: Any, path: str) -> None:
    """Write Parquet files as they are read, by fsspec: Spark needs more libraries and options for object stores."""
    folder, files = store.get_localized_path(path), store.fs
    if files.exists(folder):
        files.rm(folder, recursive=True)
    files.makedirs(folder, exist_ok=True)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow.parquet

        name = f"{folder}/part-{pyspark.TaskContext.get().partitionId():05d}.parquet"
        with contextlib.ExitStack() as stack:
            writer = None
            for batch in batches:
                if writer is None:
                    file = stack.enter_context(store.fs.open(name, "wb"))
                    writer = stack.enter_context(pyarrow.parquet.ParquetWriter(file, batch.schema))
                writer.write_batch(batch)
        yield pyarrow.RecordBatch.from_pydict({"is_written": [writer is not None]})

    if not any(row.is_written for row in df.mapInArrow(write, "is_written boolean").collect()):
        raise ValueError(f"No rows found for {path}.")
    files.invalidate_cache()  # of what was there before


def get_metadata(filesystem: Any, dataset: Dataset, columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each column's type in Spark, and the number of its values in a row, None where that is not known.

    Raises
    ------
    ValueError
        When a column is missing, with what there is.
    """
    dataset.check_columns(columns)
    first = Dataset(dataset.path, dataset.groups[:1], dataset.columns)
    rows = next(iter(ParquetBatches(
        filesystem, first, columns, 1, size=first.rows, shuffle=False, transform=dict, async_loader_queue_size=0
    )))  # fmt: skip
    metadata = {}
    for column in columns:
        value = np.asarray(rows[column][0])
        kind = _TYPES.get(value.dtype.name, StringType)
        metadata[column] = {
            "spark_data_type": DenseVector if value.ndim else kind,
            "shape": None if kind is StringType else value.size,
        }
    return metadata


def check_shape_compatibility(
    metadata: Mapping[str, Mapping[str, Any]],
    feature_columns: Sequence[str],
    label_columns: Sequence[str],
    input_shapes: Any = None,
    output_shapes: Any = None,
    label_shapes: Any = None,
) -> None:
    """Raise ValueError, with both sizes, when a column does not have as many values as the model's input or output."""
    for kind, columns, shapes, whose in (
        ("Feature", feature_columns, input_shapes, "model input"),
        ("Label", label_columns, label_shapes or output_shapes, "label shape" if label_shapes else "model output"),
    ):
        if not shapes:
            continue
        if len(columns) != len(shapes):
            raise ValueError(f"{kind} column count {len(columns)} must equal {whose}s count {len(shapes)}")
        for index, (column, shape) in enumerate(zip(columns, shapes)):
            size, wanted = metadata[column]["shape"], abs(int(np.prod([part or -1 for part in shape])))
            if size is not None and size != wanted:
                raise ValueError(
                    f"{kind} column '{column}' with size {size} must equal that of the {whose} at index {index} with "
                    f"size {wanted}"
                )


def to_list(value: Any, length: int, name: str = "loss_constructors and loss functions") -> list[Any]:
    """Return one thing, or a list, as a list of a length; ValueError where it has another."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(values) == 1:
        values *= length
    if len(values) != length:
        raise ValueError(f"{name} must be a list with length that matches the length of label_cols")
    return values
