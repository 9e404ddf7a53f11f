"""``KerasEstimator`` and the ``KerasModel`` that it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from horovod.spark.common import util as common
from horovod.spark.common.backend import Backend
from horovod.spark.common.estimator import Arrays, HorovodEstimator, HorovodModel, Predict, WithVariables
from horovod.spark.common.params import EstimatorParams as EstimatorParams, parameters
from horovod.spark.common.remote import Training
from horovod.spark.keras import remote, util

_HEAP = {"LIBHDFS_OPTS": "-Xms2048m -Xmx2048m"}


def _check_model(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise ValueError(f"model has to be an instance of keras.Model, of Keras 3, and is a {type(model).__name__}.")
    if not model.inputs:
        raise ValueError(f"The model {model.name} has no inputs yet: begin it with keras.Input, or call it once.")


@parameters(
    custom_objects=("classes and functions of the user's, by the names that a saved model has for them", None),
    checkpoint_callback=("ModelCheckpoint that saves in place of every epoch's end", None),
    data_module=("subclass of DataModule that reads the data", None),
    backend_env=("variables of the ranks", _HEAP),
    tensorflow_dataset_prefetch_buffer_size=("has no effect: a thread reads ahead", 0),
)
class KerasEstimator(HorovodEstimator):
    """Trains a ``keras.Model`` of Keras 3.

    Parameters
    ----------
    **kwargs
        By name; ``explainParams()`` has all. `model`, `loss`, `store`, `feature_cols` and `label_cols` are needed, and
        `optimizer` unless the model is compiled.
    """

    _run_prefix = "keras"

    def _check_params(self) -> None:
        super()._check_params()
        _check_model(self.getModel())
        if self.getLoss() is None:
            raise ValueError("Loss parameter is required for the model to compile")
        if self.getOptimizer() is None and getattr(self.getModel(), "optimizer", None) is None:
            raise ValueError("Optimizer must be provided either as a parameter or as part of a compiled model")

    def _check_metadata_compatibility(self, metadata: dict[str, Any]) -> None:
        inputs, outputs = self.get_model_shapes()
        if not self.getLabelShapes() and "sparse" in str(self.getLoss()).lower():
            outputs = None  # one label for many outputs
        common.check_shape_compatibility(
            metadata, self.getFeatureCols(), self.getLabelCols(), inputs, outputs, self.getLabelShapes()
        )

    def get_model_shapes(self) -> tuple[Any, Any]:
        """Return the shapes of the model's inputs and outputs, with -1 for what is open."""
        model = self.getModel()
        return (
            [[size or -1 for size in tensor.shape] for tensor in model.inputs],
            [[size or -1 for size in tensor.shape] for tensor in model.outputs],
        )

    def _fit_on_prepared_data(self, backend: Backend, training: Training, run_id: str, metadata: dict[str, Any]) -> Any:
        model, optimizer = self.getModel(), self.getOptimizer()
        custom, checkpoint = self._named_objects(), self._checkpoint(run_id, util.SUFFIX)
        compiled = {
            "optimizer": util.portable(keras.optimizers.get(optimizer) if optimizer is not None else model.optimizer),
            "loss": util.portable(self.getLoss()),
            "metrics": util.portable(self.getMetrics()),
            "loss_weights": self.getLossWeights(),
        }
        training.options.update(loss=None, metrics=None)
        job = remote.Job(
            checkpoint or util.serialize_model(model), checkpoint is not None, compiled, custom, keras.config.floatx()
        )
        variables = {"KERAS_BACKEND": keras.config.backend(), **(self.getBackendEnv() or {})}
        history, trained = backend.run(remote.train, (training, job), env=variables)[0]
        model, floatx = util.deserialize_model(trained, custom), keras.config.floatx()
        return self.get_model_class()(**self._get_model_kwargs(model, history, run_id, metadata, floatx))

    def _named_objects(self) -> dict[str, Any]:
        return {**util.named(self.getLoss(), self.getMetrics()), **(self.getCustomObjects() or {})}

    def get_model_class(self) -> type[KerasModel]:
        """Return the class of what ``fit`` returns."""
        return KerasModel

    def _get_model_kwargs(self, model: Any, history: Any, run_id: str, metadata: Any, floatx: str) -> dict[str, Any]:
        """Return what that class is called with; a subclass may have more to say."""
        return {
            "history": history,
            "model": model,
            "feature_columns": self.getFeatureCols(),
            "label_columns": self.getLabelCols(),
            "custom_objects": self._named_objects(),
            "run_id": run_id,
            "_metadata": metadata,
            "_floatx": floatx,
        }

    def _packed(self, values: dict[str, Any]) -> Any:
        return _packed(values)

    def _unpacked(self, values: Any) -> dict[str, Any]:
        return _unpacked(values)


@parameters(
    custom_objects=("classes and functions of the user's, by name", None),
    _floatx=("Keras' type of numbers", None),
)
class KerasModel(HorovodModel):
    """Predicts with a ``keras.Model``, which ``getModel()`` returns."""

    def _predictor(self) -> Callable[[], Predict]:
        model = util.serialize_model(self.getModel())
        load = Predictor(model, self.getCustomObjects() or {}, self.getOrDefault("_floatx"))
        return WithVariables({"KERAS_BACKEND": keras.config.backend()}, load)

    def _packed(self, values: dict[str, Any]) -> Any:
        return _packed(values)

    def _unpacked(self, values: Any) -> dict[str, Any]:
        return _unpacked(values)


_PORTABLE: tuple[str, ...] = ("optimizer", "loss", "metrics")


def _packed(values: dict[str, Any]) -> dict[str, Any]:
    changed = {name: util.portable(values[name]) for name in _PORTABLE if name in values}
    if values.get("model") is not None:
        changed["model"] = util.serialize_model(values["model"])
    return {**values, **changed}


def _unpacked(values: dict[str, Any]) -> dict[str, Any]:
    custom = {**util.named(values.get("loss"), values.get("metrics")), **(values.get("custom_objects") or {})}
    changed = {name: util.restored(values[name], custom) for name in _PORTABLE if name in values}
    if values.get("model") is not None:
        changed["model"] = util.deserialize_model(values["model"], custom)
    return {**values, **changed}


class Predictor:
    """Loads a file of Keras, and predicts with the model."""

    def __init__(self, model: bytes, custom_objects: dict[str, Any], floatx: str) -> None:
        self._model, self._custom, self._floatx = model, custom_objects, floatx

    def __call__(self) -> Predict:
        """Return the function of inputs that returns outputs."""
        keras.config.set_floatx(self._floatx)
        model = util.deserialize_model(self._model, self._custom, is_compiled=False)

        def predict(inputs: Arrays) -> Arrays:
            outputs = model.predict_on_batch(remote.inputs_of(model, inputs))
            return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

        return predict
