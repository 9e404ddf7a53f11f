"""The way of every estimator: data to the store, a job, a model; and of every model: predictions as columns."""

from __future__ import annotations

import itertools
import numbers
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np
from pyspark.ml import Estimator, Model
from pyspark.ml.linalg import DenseVector, SparseVector, Vector, VectorUDT
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from horovod.spark.common import util
from horovod.spark.common.backend import Backend, SparkBackend
from horovod.spark.common.params import EstimatorParams, ModelParams
from horovod.spark.common.remote import Training
from horovod.spark.common.serialization import HorovodParamsIO

Arrays = list[Any]
Predict = Callable[[Arrays], Arrays]
PredictRows = Callable[[Sequence[Row]], Arrays]

_ROWS = 256  # predicted at a time
_PYTHON_TYPES = {
    BooleanType: bool,
    **dict.fromkeys((ByteType, ShortType, IntegerType, LongType), int),
}


class HorovodEstimator(Estimator, EstimatorParams, HorovodParamsIO):
    """Trains a model on a DataFrame's rows, in ranks that are in tasks of Spark."""

    _run_prefix = "run"

    def fit_on_parquet(self, params: dict[Any, Any] | None = None, dataset_idx: int | None = None) -> Any:
        """Train on the Parquet files that are at the store's ``get_train_data_path(dataset_idx)`` already.

        Parameters
        ----------
        params : dict, optional
            Parameters in place of this estimator's own.
        dataset_idx : int, optional
            Which data of the store; by default those without a number.
        """
        if params:
            return self.copy(params).fit_on_parquet(dataset_idx=dataset_idx)
        self._check_params()
        util.check_validation(self.getValidation())
        self.getStore().check_writable()
        return self._train(self._get_or_create_backend(), dataset_idx)

    def _fit(self, dataset: DataFrame) -> Any:
        self._check_params()
        backend, store = self._get_or_create_backend(), self.getStore()
        util.check_validation(self.getValidation(), dataset)
        store.check_writable()
        with util.prepare_data(
            backend.num_processes(),
            store,
            dataset,
            label_columns=self.getLabelCols(),
            feature_columns=self.getFeatureCols(),
            validation=self.getValidation(),
            sample_weight_col=self.getSampleWeightCol(),
            partitions_per_process=self.getPartitionsPerProcess(),
            verbose=self.getVerbose(),
            seed=self.getRandomSeed(),
        ) as index:
            return self._train(backend, index)

    def _get_or_create_backend(self) -> Backend:
        backend: Backend | None = self.getBackend()
        if backend is None:
            return SparkBackend(self.getNumProc(), verbose=self.getVerbose())
        if self.getNumProc() is not None:
            raise ValueError('At most one of parameters "backend" and "num_proc" may be specified')
        return backend

    def _train(self, backend: Backend, index: int | None) -> Any:
        store, columns = self.getStore(), self._columns()
        train = store.get_parquet_dataset(store.get_train_data_path(index))
        val = store.get_parquet_dataset(store.get_val_data_path(index)) if self.getValidation() else None
        metadata = util.get_metadata(store.fs, train, columns)
        if self.getTransformationFn() is None:
            self._check_metadata_compatibility(metadata)
        run_id = self.getRunId() or f"{self._run_prefix}_{int(time.time())}"
        own = ("model", "optimizer", "store", "backend", "loss_constructors")
        options = {param.name: self.getOrDefault(param) for param in self.params if param.name not in own}
        seed = self.getRandomSeed()
        seed = random.randrange(1 << 31) if seed is None else seed  # noqa: S311
        training = Training(options, columns, store, store.to_remote(run_id, index), train, val, seed)
        return self._fit_on_prepared_data(backend, training, run_id, metadata)

    def _checkpoint(self, run_id: str, suffix: str = "") -> bytes | None:
        """Return what a run's last checkpoint holds, if there is one."""
        store = self.getStore()
        folder = store.get_checkpoint_path(run_id)
        path = f"{folder}/{store.get_checkpoint_filename()}{suffix}"
        if folder is None or not store.exists(path):
            return None
        if self.getVerbose():
            print(f"horovod.spark: goes on from the checkpoint {path}", flush=True)
        return bytes(store.read(path))

    def _check_metadata_compatibility(self, metadata: dict[str, Any]) -> None:
        raise NotImplementedError

    def _fit_on_prepared_data(self, backend: Backend, training: Training, run_id: str, metadata: dict[str, Any]) -> Any:
        raise NotImplementedError


class HorovodModel(Model, ModelParams, HorovodParamsIO):
    """A trained model: ``transform`` adds a column with the prediction for each label."""

    def _predictor(self) -> Callable[[], Predict]:
        """Return what loads the model, on any machine: a function of the inputs that returns the outputs."""
        raise NotImplementedError

    def _row_predictor(self) -> Callable[[], PredictRows]:
        """Return the same as a function of rows."""
        return _OfRows(self._predictor(), self.getFeatureColumns())

    def _transform(self, dataset: DataFrame) -> DataFrame:
        outputs, load = self.getOutputCols(), self._row_predictor()
        types = [self._get_metadata()[label]["spark_data_type"] for label in self.getLabelColumns()]
        first = dataset.limit(1).collect()
        if first:
            sizes = [output[0].size for output in load()(first)]
            if len(sizes) != len(outputs):
                raise ValueError(f"The model has {len(sizes)} outputs, and there are {len(outputs)} output columns.")
            types = [kind if size == 1 else _vector(kind) for kind, size in zip(types, sizes)]
        kept = [field for field in dataset.schema.fields if field.name not in outputs]
        added = [
            StructField(name, VectorUDT() if issubclass(kind, Vector) else kind()) for name, kind in zip(outputs, types)
        ]
        names = [field.name for field in kept]

        def predict(rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
            rows = iter(rows)
            model = None
            while chunk := list(itertools.islice(rows, _ROWS)):
                model = model or load()
                predictions = model(chunk)
                for index, row in enumerate(chunk):
                    values = [_field(output[index], kind) for output, kind in zip(predictions, types)]
                    yield (*[row[name] for name in names], *values)

        return dataset.sparkSession.createDataFrame(dataset.rdd.mapPartitions(predict), StructType([*kept, *added]))


class WithVariables:
    """Loads a model where variables must be set before its framework is imported.

    Parameters
    ----------
    variables : dict
        Those that the process does not have.
    load : callable
        What loads it.
    """

    def __init__(self, variables: dict[str, str], load: Callable[[], Predict]) -> None:
        self._variables, self._load = variables, cloudpickle.dumps(load)

    def __call__(self) -> Predict:
        """Return what `load` returns."""
        for name, value in self._variables.items():
            os.environ.setdefault(name, value)
        return cloudpickle.loads(self._load)()


def _vector(kind: type) -> type:
    return kind if issubclass(kind, Vector) else DenseVector


class _OfRows:
    """Loads a function of columns, and makes it one of rows."""

    def __init__(self, load: Callable[[], Predict], columns: Sequence[str]) -> None:
        self._load, self._columns = load, columns

    def __call__(self) -> PredictRows:
        predict, columns = self._load(), self._columns
        return lambda rows: predict([np.stack([value_of(row[column]) for row in rows]) for column in columns])


def value_of(value: Any) -> Any:
    """Return a row's value of a column as NumPy's."""
    return value.toArray() if isinstance(value, Vector) else np.asarray(value)


def _field(value: Any, kind: type) -> Any:
    """Return a prediction for a row as a value of a type of Spark's."""
    values = np.asarray(value, dtype=np.float64).reshape(-1)
    if issubclass(kind, SparseVector):
        (places,) = values.nonzero()
        return SparseVector(len(values), places, values[places])
    if issubclass(kind, Vector):
        return DenseVector(values)
    python = _PYTHON_TYPES.get(kind, float)
    number = float(values[0])
    return python(round(number) if issubclass(python, numbers.Integral) else number)
