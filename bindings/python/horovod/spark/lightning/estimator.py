"""Lightning's ``TorchEstimator``, and the ``TorchModel`` that it returns."""

from __future__ import annotations

import copy
from typing import Any

import cloudpickle

from horovod.spark.common import util
from horovod.spark.common.backend import Backend
from horovod.spark.common.estimator import HorovodEstimator
from horovod.spark.common.params import EstimatorParams as EstimatorParams, parameters
from horovod.spark.common.remote import Training
from horovod.spark.lightning import remote
from horovod.spark.lightning.legacy import to_lightning_module
from horovod.spark.torch.estimator import TorchEstimator as PlainEstimator, TorchModel as PlainModel
from horovod.spark.torch.remote import bind, loaded

MIN_PL_VERSION = "2.0.0"


@parameters(
    input_shapes=("shape of each input, with -1 for the rows", None),
    loss_constructors=("functions that return the losses of a module that is not Lightning's", None),
    num_gpus=("0: train on the CPU", None),
    logger=("Lightning's logger; by default it writes CSV files", None),
    log_every_n_steps=("how often Lightning logs", 50),
    data_module=("subclass of DataModule that reads the data", None),
    loader_num_epochs=("has no effect: loaders have batches without end", None),
    terminate_on_nan=("end the job at a loss that is not finite", False),
    profiler=("Lightning's profiler", None),
    trainer_args=("arguments of the Trainer, in place of the estimator's own", None),
    debug_data_loader=("has no effect", False),
    train_async_data_loader_queue_size=("batches that are read ahead for training", None),
    val_async_data_loader_queue_size=("batches that are read ahead for validation", None),
)
class TorchEstimator(HorovodEstimator):
    """Trains a ``LightningModule``, whose steps get a dict of tensors, by column.

    Parameters
    ----------
    **kwargs
        By name; ``explainParams()`` has all. `model`, `store`, `feature_cols` and `label_cols` are needed. A model that
        is a plain ``torch.nn.Module`` needs `optimizer` and `loss`, too.
    """

    _run_prefix = "pytorch"

    def _check_params(self) -> None:
        super()._check_params()
        given = [name for name in ("optimizer", "loss", "loss_constructors", "loss_weights")
                 if self.getOrDefault(name) is not None]  # fmt: skip
        if remote.package_of(self.getModel()) is not None:
            if given:
                raise ValueError(f"A LightningModule has its optimizer and loss itself: leave out {', '.join(given)}.")
        elif "optimizer" not in given or not {"loss", "loss_constructors"} & set(given):
            raise ValueError("A model that is not a LightningModule needs the parameters optimizer and loss.")
        elif {"loss", "loss_constructors"} <= set(given):
            raise ValueError("only one of loss_constructors and loss parameters can be specified.")

    def _check_metadata_compatibility(self, metadata: dict[str, Any]) -> None:
        features, labels = self.getFeatureCols(), self.getLabelCols()
        util.check_shape_compatibility(
            metadata, features, labels, self.getInputShapes(), label_shapes=self.getLabelShapes()
        )

    def _fit_on_prepared_data(self, backend: Backend, training: Training, run_id: str, metadata: dict[str, Any]) -> Any:
        model, optimizer = copy.deepcopy((self.getModel(), self.getOptimizer()))
        module = model
        if remote.package_of(model) is None:
            module = to_lightning_module(
                *bind(model, optimizer),
                self.getLoss(),
                self.getLossWeights(),
                self.getFeatureCols(),
                self.getLabelCols(),
                self.getSampleWeightCol(),
                self.getLossConstructors(),
            )
        checkpoint = self._checkpoint(run_id, remote.SUFFIX)
        history, state = backend.run(remote.train, (training, cloudpickle.dumps(module.cpu()), checkpoint))[0]
        model.load_state_dict(loaded(state))
        return self.get_model_class()(**self._get_model_kwargs(model.eval(), history, optimizer, run_id, metadata))

    def get_model_class(self) -> type[TorchModel]:
        """Return the class of what ``fit`` returns."""
        return TorchModel

    _get_model_kwargs = PlainEstimator._get_model_kwargs


class TorchModel(PlainModel):
    """Predicts with a ``LightningModule``, which ``getModel()`` returns."""
