"""``TorchEstimator`` and the ``TorchModel`` that it returns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np
import torch
from pyspark.sql import Row

from horovod.spark.common import util
from horovod.spark.common.backend import Backend
from horovod.spark.common.estimator import Arrays, HorovodEstimator, HorovodModel, Predict, PredictRows, value_of
from horovod.spark.common.params import EstimatorParams as EstimatorParams, parameters
from horovod.spark.common.remote import Training, is_open, shaped
from horovod.spark.torch import remote


@parameters(
    input_shapes=("shape of each input, with -1 for the rows", None),
    loss_constructors=("functions that return the losses, in place of loss", None),
    train_minibatch_fn=("what trains on a batch: (model, optimizer, transform_outputs, loss_fn, inputs, labels, "
                        "sample_weights) -> (outputs, loss)", None),
    data_module=("subclass of DataModule that reads the data", None),
)  # fmt: skip
class TorchEstimator(HorovodEstimator):
    """Trains a ``torch.nn.Module``.

    Features and labels come as floats. A model of several inputs takes them in the order of `feature_cols`; each output
    has a label. Losses are called with (output, label), and with ``reduction="none"`` where rows have weights.

    Parameters
    ----------
    **kwargs
        By name; ``explainParams()`` has all. `model`, `optimizer`, `store`, `feature_cols`, `label_cols` and `loss` or
        `loss_constructors` are needed.

    Raises
    ------
    ValueError
        For both `loss` and `loss_constructors`.
    """

    _run_prefix = "pytorch"

    def __init__(self, **kwargs: Any) -> None:
        if kwargs.get("loss") is not None and kwargs.get("loss_constructors") is not None:
            raise ValueError("only one of loss_constructors and loss parameters can be specified.")
        super().__init__(**kwargs)

    def _check_params(self) -> None:
        super()._check_params()
        if self.getOptimizer() is None:
            raise ValueError("Optimizer parameter is required")
        if self.getLoss() is None and self.getLossConstructors() is None:
            raise ValueError("Loss parameter is required, or loss_constructors")
        if self.getCallbacks():
            raise ValueError("TorchEstimator calls no callbacks: use train_minibatch_fn, or horovod.spark.lightning.")

    def _check_metadata_compatibility(self, metadata: dict[str, Any]) -> None:
        util.check_shape_compatibility(
            metadata,
            self.getFeatureCols(),
            self.getLabelCols(),
            self.getInputShapes(),
            label_shapes=self.getLabelShapes(),
        )

    def _fit_on_prepared_data(self, backend: Backend, training: Training, run_id: str, metadata: dict[str, Any]) -> Any:
        model, optimizer = copy.deepcopy((self.getModel(), self.getOptimizer()))
        model, optimizer = remote.bind(model, optimizer)
        checkpoint = self._checkpoint(run_id)
        if checkpoint is not None:
            remote.load_state(model, optimizer, remote.loaded(checkpoint))
        losses = remote.Losses(
            self.getLoss(), self.getLossConstructors(), self.getLossWeights(), len(self.getLabelCols())
        )
        pickled = cloudpickle.dumps((model.cpu(), optimizer))
        history, state = backend.run(remote.train, (training, pickled, losses, self.getInputShapes()))[0]
        remote.load_state(model, optimizer, remote.loaded(state))
        return self.get_model_class()(**self._get_model_kwargs(model.eval(), history, optimizer, run_id, metadata))

    def get_model_class(self) -> type[TorchModel]:
        """Return the class of what ``fit`` returns."""
        return TorchModel

    def _get_model_kwargs(self, model: Any, history: Any, optimizer: Any, run_id: str, metadata: Any) -> dict[str, Any]:
        """Return what that class is called with; a subclass may have more to say."""
        return {
            "history": history,
            "model": model,
            "optimizer": optimizer,
            "feature_columns": self.getFeatureCols(),
            "input_shapes": self.getInputShapes(),
            "label_columns": self.getLabelCols(),
            "run_id": run_id,
            "_metadata": metadata,
            "loss": self.getLoss(),
            "loss_constructors": self.getLossConstructors(),
        }


@parameters(
    optimizer=("the optimizer, with its state", None),
    input_shapes=("shape of each input, with -1 for the rows", None),
    loss=("loss that it was trained with", None),
    loss_constructors=("functions that returned the losses", None),
)
class TorchModel(HorovodModel):
    """Predicts with a ``torch.nn.Module``, which ``getModel()`` returns."""

    def get_prediction_fn(self) -> Callable[[Any, Row], Any]:
        """Return the function of the model and a row that predicts; a subclass may have another, which is then called.

        Rows go through it one by one. By itself ``transform`` predicts many at a time where shapes leave their number
        open.
        """
        columns = self.getFeatureColumns()
        shapes = self.getInputShapes() or [None] * len(columns)

        def predict(model: Any, row: Row) -> Any:
            arrays = [np.asarray(value_of(row[column]), dtype=np.float32) for column in columns]
            return model(*[
                torch.from_numpy(shaped(array[None], None) if shape is None else array.reshape(shape))
                for array, shape in zip(arrays, shapes)
            ])  # fmt: skip

        return predict

    def _row_predictor(self) -> Callable[[], PredictRows]:
        is_own = type(self).get_prediction_fn is not TorchModel.get_prediction_fn
        if is_own or not all(is_open(shape) for shape in self.getInputShapes() or ()):
            return RowPredictor(cloudpickle.dumps((self.getModel(), self.get_prediction_fn())))
        return super()._row_predictor()

    def _predictor(self) -> Callable[[], Predict]:
        return Predictor(cloudpickle.dumps(self.getModel()), self.getInputShapes())


class RowPredictor:
    """Loads a pickled module and a function of it and a row, and predicts row by row on the CPU."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled

    def __call__(self) -> PredictRows:
        """Return the function of rows that returns outputs."""
        model, of_row = cloudpickle.loads(self._pickled)
        model = model.cpu().eval()

        def predict(rows: Sequence[Row]) -> Arrays:
            with torch.no_grad():
                found = [of_row(model, row) for row in rows]
            found = [outputs if isinstance(outputs, (list, tuple)) else [outputs] for outputs in found]
            return [np.stack([np.asarray(output).reshape(-1) for output in outputs]) for outputs in zip(*found)]

        return predict


class Predictor:
    """Loads a pickled module, and predicts with it on the CPU."""

    def __init__(self, pickled: bytes, input_shapes: Any) -> None:
        self._pickled, self._shapes = pickled, input_shapes

    def __call__(self) -> Predict:
        """Return the function of inputs that returns outputs."""
        model = cloudpickle.loads(self._pickled).cpu().eval()

        def predict(inputs: Arrays) -> Arrays:
            shapes = self._shapes or [None] * len(inputs)
            arrays = [shaped(np.asarray(array, dtype=np.float32), shape) for array, shape in zip(inputs, shapes)]
            with torch.no_grad():
                outputs = model(*[torch.from_numpy(array) for array in arrays])
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            return [output.numpy() for output in outputs]

        return predict
