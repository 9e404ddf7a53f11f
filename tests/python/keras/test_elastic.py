"""The state of elastic jobs, and its callbacks."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from common import assert_same, small_model


def compiled(hvd: ModuleType, keras: ModuleType) -> Any:
    model = small_model(keras)
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)), loss="mse")
    return model


def test_sync_save_and_restore(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(hvd, keras)
    state = hvd.elastic.KerasState(model, epoch=hvd.rank() + 7)
    if hvd.rank() == 0:
        model.layers[0].set_weights([np.ones((3, 4)), np.zeros(4)])
    state.sync()
    assert state.epoch == 7
    assert np.array_equal(model.get_weights()[0], np.ones((3, 4)))
    assert_same(hvd, model.get_weights(), "synchronised")

    model.fit(data.x, data.y, verbose=0)
    state.epoch = 8
    state.save()
    saved = model.get_weights()
    model.fit(data.x, data.y, epochs=2, verbose=0)
    state.epoch = 9
    assert not np.array_equal(saved[0], model.get_weights()[0])
    state.restore()
    assert state.epoch == 8
    assert int(model.optimizer.iterations.numpy()) == 1
    for ours, theirs in zip(model.get_weights(), saved):
        assert np.array_equal(ours, theirs)


def test_a_newcomer_has_the_variables_of_the_others(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(hvd, keras)
    if hvd.rank() == 0:
        hvd.DistributedOptimizer(keras.optimizers.Adam(0.1))  # names and numbers may differ
    state = hvd.elastic.KerasState(model)
    state.sync()
    variables = model.optimizer.variables
    assert len(variables() if callable(variables) else variables) > 2
    model.fit(data.x, data.y, verbose=0)
    assert_same(hvd, model.get_weights(), "trained")


def test_the_model_must_be_built(hvd: ModuleType, keras: ModuleType) -> None:
    with pytest.raises(ValueError, match="Model must be built first"):
        hvd.elastic.KerasState(keras.Sequential([keras.layers.Dense(1)]))


def test_callbacks(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(hvd, keras)
    state = hvd.elastic.KerasState(model, batch=0, epoch=5)
    commits: list[tuple[int, int]] = []
    state.commit = lambda: commits.append((state.epoch, state.batch))
    callbacks = [
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=3),
    ]
    model.fit(data.x, data.y, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    assert commits == [(5, 2), (6, 0), (6, 1), (7, 0)]
    assert (state.epoch, state.batch) == (7, 0)


def test_a_resumed_epoch_is_shorter(hvd: ModuleType, keras: ModuleType) -> None:
    state = SimpleNamespace(batch=3)
    callback = hvd.elastic.UpdateBatchStateCallback(state)
    callback.set_params({"steps": 10})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    assert callback.params["steps"] == 7
    callback.on_epoch_end(0)
    callback.on_epoch_begin(1)
    assert callback.params["steps"] == 10


def test_run_goes_back_to_the_last_commit(hvd: ModuleType, keras: ModuleType) -> None:
    from horovod.common.exceptions import HorovodInternalError

    model = compiled(hvd, keras)
    state = hvd.elastic.KerasState(model, tries=0)
    seen: list[Any] = []

    @hvd.elastic.run
    def train(state: Any) -> str:
        seen.append(model.get_weights()[0])
        if len(seen) == 1:
            model.layers[0].set_weights([np.zeros((3, 4)), np.zeros(4)])
            raise HorovodInternalError("a peer failed")
        return "done"

    assert train(state) == "done"
    assert len(seen) == 2
    assert np.array_equal(seen[0], seen[1])
    assert hvd.is_initialized()
