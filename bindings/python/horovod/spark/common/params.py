"""Parameters of estimators and models, each with the accessors that Horovod has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.ml.param.shared import HasOutputCols, Param, Params, TypeConverters

Class = TypeVar("Class", bound=type)

_ACCESSORS = {  # where they aren't the name in capitals
    "train_reader_num_workers": "TrainReaderNumWorker",
    "val_reader_num_workers": "ValReaderNumWorker",
    "shuffle_buffer_size": "ShufflingBufferSize",
    "inmemory_cache_all": "InMemoryCacheAll",
    "num_gpus": "NumGPUs",
}


def parameters(**described: tuple[Any, ...]) -> Callable[[Class], Class]:
    """Give a class parameters, with ``get…`` and ``set…`` for each.

    Parameters
    ----------
    **described
        By name: what it is, its default, and what converts values, if anything does.
    """

    def declare(cls: Class) -> Class:
        for name, (text, _, *converter) in described.items():
            setattr(cls, name, Param(Params._dummy(), name, text, *converter))
            accessor = _ACCESSORS.get(name, "".join(part[:1].upper() + part[1:] for part in name.split("_")))
            for prefix, function in (("get", _getter(name)), ("set", _setter(name))):
                if not hasattr(cls, prefix + accessor):
                    function.__doc__ = f"{prefix.capitalize()} `{name}`: {text}."
                    function.__name__ = prefix + accessor
                    setattr(cls, prefix + accessor, function)
        cls._defaults = {  # type: ignore[attr-defined]
            **getattr(cls, "_defaults", {}), **{name: default for name, (_, default, *_) in described.items()}
        }  # fmt: skip
        return cls

    return declare


def _getter(name: str) -> Any:
    return lambda self: self.getOrDefault(name)


def _setter(name: str) -> Any:
    return lambda self, value: self._set(**{name: value})


class Keywords(Params):
    """Parameters that are given by keyword; None means the default."""

    _defaults: dict[str, Any] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._setDefault(**{name: list(default) if isinstance(default, list) else default
                            for name, default in self._defaults.items()})  # fmt: skip
        self.setParams(**{name: value for name, value in kwargs.items() if value is not None})

    def setParams(self, **kwargs: Any) -> Any:  # noqa: N802 (Spark's name)
        """Set several; TypeError for one that there isn't."""
        unknown = sorted(name for name in kwargs if not self.hasParam(name))
        if unknown:
            there = ", ".join(param.name for param in self.params)
            raise TypeError(f"{type(self).__name__} has no parameter {', '.join(unknown)}. It has: {there}.")
        return self._set(**kwargs)


_BOOL, _INT, _TEXT = TypeConverters.toBoolean, TypeConverters.toInt, TypeConverters.toString
_TEXTS = TypeConverters.toListString


@parameters(
    num_proc=("number of ranks; by default spark.default.parallelism", None),
    model=("model to train", None),
    backend=("what runs the ranks, in place of num_proc", None),
    store=("where data and checkpoints are", None),
    optimizer=("optimizer of the model", None),
    loss=("loss, or a list with one for each label", None),
    loss_weights=("weight of each label's loss", None, TypeConverters.toListFloat),
    sample_weight_col=("column with each row's weight", None, _TEXT),
    gradient_compression=("Compression of gradients", None),
    metrics=("metrics to record", []),
    feature_cols=("columns that are the model's inputs, in their order", None, _TEXTS),
    label_cols=("columns that the model's outputs are to be, in their order", None, _TEXTS),
    continuous_cols=("has no effect", None, _TEXTS),
    categorical_cols=("has no effect", None, _TEXTS),
    validation=("fraction of the rows to validate with, or the column that is true, or above 0, for these", None),
    callbacks=("callbacks of the framework", []),
    batch_size=("rows of a rank's batch", 32, _INT),
    val_batch_size=("rows of a batch in validation; by default batch_size", None, _INT),
    epochs=("number of epochs", 1, _INT),
    verbose=("0: print nothing", 1, _INT),
    random_seed=("seed of the framework, of shuffling and of the split", None, _INT),
    shuffle_buffer_size=("rows that are mixed at a time, if they fit into the reader's memory; 0: as shuffle=False",
                         None, _INT),
    shuffle=("train on rows in another order every epoch", True, _BOOL),
    partitions_per_process=("Parquet files for each rank", 10, _INT),
    run_id=("name of the run; one that has a checkpoint goes on from there", None, _TEXT),
    train_steps_per_epoch=("batches of an epoch, for each rank; by default those of all rows", None, _INT),
    validation_steps_per_epoch=("batches of a validation, for each rank; by default those of all rows", None, _INT),
    transformation_fn=("called with every row, a dict by column; returns the row to use", None),
    transformation_edit_fields=("(name, dtype, shape, nullable) of columns as transformation_fn returns them", None),
    transformation_removed_fields=("columns to leave out after transformation_fn", None),
    train_reader_num_workers=("1: decode columns of training data one after the other", 2, _INT),
    val_reader_num_workers=("1: decode columns of validation data one after the other", 2, _INT),
    reader_pool_type=("has no effect: a thread reads ahead", "thread", _TEXT),
    label_shapes=("shape of each label", None),
    inmemory_cache_all=("keep each rank's rows in memory after the first epoch", False, _BOOL),
    use_gpu=("train on GPUs where there are any", True, _BOOL),
    mp_start_method=("how Python's multiprocessing starts processes in a rank", None, _TEXT),
    backward_passes_per_step=("batches whose gradients are added up for a step", 1, _INT),
    compress_sparse_cols=("has no effect: Parquet's encoding makes zeros small", False, _BOOL),
)  # fmt: skip
class EstimatorParams(Keywords):
    """The parameters of all estimators."""

    def _check_params(self) -> None:
        if self.getModel() is None:
            raise ValueError("Model parameter is required")
        if self.getStore() is None:
            raise ValueError("Store parameter is required: Store.create(path), of a folder that all workers reach")
        if not self.getFeatureCols():
            raise ValueError("Parameter feature_cols cannot be None or empty")
        if not self.getLabelCols():
            raise ValueError("Parameter label_cols cannot be None or empty")
        for name in ("epochs", "batch_size", "val_batch_size", "train_steps_per_epoch", "validation_steps_per_epoch",
                     "backward_passes_per_step", "num_proc", "partitions_per_process"):  # fmt: skip
            value = self.getOrDefault(name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be > 0")
        weights, labels = self.getLossWeights(), self.getLabelCols()
        if weights and len(weights) != len(labels):
            raise ValueError(f"There are {len(weights)} loss_weights for {len(labels)} label columns.")

    def _columns(self) -> list[str]:
        """Return the columns that ranks read."""
        weight = [self.getSampleWeightCol()] if self.getSampleWeightCol() else []
        return list(dict.fromkeys([*self.getFeatureCols(), *self.getLabelCols(), *weight]))


@parameters(
    history=("what was measured in each epoch", None),
    model=("trained model", None),
    feature_columns=("columns that are the model's inputs", None),
    label_columns=("columns that its outputs stand for", None),
    run_id=("name of the run that trained it", None, _TEXT),
    _metadata=("types and shapes of the columns", None),
)
class ModelParams(Keywords, HasOutputCols):
    """The parameters of trained models; ``<label>__output`` are output columns unless ``setOutputCols`` says others."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.getLabelColumns():
            self.setOutputCols([f"{column}__output" for column in self.getLabelColumns()])

    def setOutputCols(self, value: list[str]) -> Any:  # noqa: N802 (Spark's name)
        """Set the names of the output columns."""
        return self._set(outputCols=value)

    def setLabelColoumns(self, value: list[str]) -> Any:  # noqa: N802 (Horovod's name)
        """Set the label columns."""
        return self._set(label_columns=value)

    def _get_metadata(self) -> Any:
        return self.getOrDefault("_metadata")
