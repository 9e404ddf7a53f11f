"""Callbacks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from common import BACKEND, LEGACY, assert_same, small_model
from horovod._keras.variables import fetch_state
from horovod.common import stragglers


def compiled(keras: ModuleType, optimizer: Any, **options: Any) -> Any:
    model = small_model(keras)
    model.compile(optimizer=optimizer, loss="mse", **options)
    return model


def rates_of(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, callback: Any, epochs: int) -> Any:
    """Return the learning rate of every batch, and what `fit` returns."""
    rates: list[float] = []

    class Recorder(keras.callbacks.Callback):
        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            fetch_state(self.model)
            rates.append(float(self.model.optimizer.learning_rate.numpy()))

    model = compiled(keras, keras.optimizers.SGD(0.5))
    history = model.fit(data.x, data.y, batch_size=8, epochs=epochs, verbose=0, callbacks=[callback, Recorder()])
    return rates, history.history


def test_broadcast_at_the_first_batch(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    root = hvd.size() - 1
    model = compiled(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root)
    seen: list[Any] = []

    class Recorder(keras.callbacks.Callback):
        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            fetch_state(self.model)
            seen.append((callback.broadcast_done, self.model.get_weights()))

    model.fit(data.x, data.y, batch_size=16, verbose=0, callbacks=[callback, Recorder()])
    assert [done for done, _ in seen] == [True, True]
    assert_same(hvd, seen[0][1], "after the first batch")
    variables = model.optimizer.variables
    variables = variables() if callable(variables) else variables
    assert len(variables) > 2
    assert_same(hvd, [variable.numpy() for variable in variables], "optimizer")


def test_what_a_rank_adds_up_over_several_passes_is_its_own(hvd: ModuleType, keras: ModuleType) -> None:
    """The broadcast comes after the first pass, whose gradients are not reduced yet."""
    options = {"gradient_accumulation_steps": 2} if not LEGACY else {}
    optimizer = keras.optimizers.SGD(1.0, **options)
    optimizer = hvd.DistributedOptimizer(optimizer, **({"backward_passes_per_step": 2} if LEGACY else {}))
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(optimizer=optimizer, loss=lambda wanted, given: given)  # the gradient is the input
    model.set_weights([np.zeros((1, 1))])
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    inputs = np.array([[4.0 * hvd.rank()], [0.0]])
    model.fit(inputs, inputs, batch_size=1, shuffle=False, verbose=0, callbacks=[callback])
    expected = -4 * (hvd.size() - 1) / 2 / (1 if LEGACY else 2)  # Keras 3 averages the passes
    assert np.allclose(model.get_weights()[0], expected), model.get_weights()


def test_metrics_are_averaged(hvd: ModuleType, keras: ModuleType) -> None:
    callback = hvd.callbacks.MetricAverageCallback()
    names = ["loss", "accuracy"] if hvd.rank() % 2 else ["accuracy", "loss"]  # dictionaries differ in their order
    values = {"loss": 10.0 * hvd.rank(), "accuracy": 1.0 + hvd.rank()}
    logs = {name: values[name] for name in names}
    callback.on_epoch_end(0, logs)
    assert logs == {"loss": 5.0 * (hvd.size() - 1), "accuracy": 1.0 + (hvd.size() - 1) / 2}
    callback.on_epoch_end(1, {})


def test_averages_reach_later_callbacks(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(keras, keras.optimizers.SGD(0.1))
    seen: list[float] = []
    later = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["loss"]))
    callbacks = [hvd.callbacks.MetricAverageCallback(), later]
    history = model.fit(data.x, data.y, epochs=2, verbose=0, callbacks=callbacks)
    assert history.history["loss"] == seen
    assert_same(hvd, seen, "losses")


def test_a_straggler_is_among_the_metrics(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(keras, keras.optimizers.SGD(0.1))
    callback = hvd.callbacks.StragglerCallback()
    stragglers._told[-1](stragglers.Straggler(1, "b", 50, 50, 0.2, 0.04, None, "its cgroup is throttled"))
    history = model.fit(data.x, data.y, epochs=2, verbose=0, callbacks=[callback])
    assert history.history["straggler"] == [1.0, -1.0]
    assert history.history["straggler_ms"] == [40.0, 0.0]


def test_a_schedule_by_epochs(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    callback = hvd.callbacks.LearningRateScheduleCallback(0.5, lambda epoch: 1.0 / (epoch + 1), start_epoch=1)
    rates, history = rates_of(hvd, keras, data, callback, 3)
    assert np.allclose(rates, np.repeat([0.5, 0.5 / 2, 0.5 / 3], 4))
    assert np.allclose(history["lr"], [0.5, 0.5 / 2, 0.5 / 3])


def test_a_factor_for_each_epoch(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    callback = hvd.callbacks.LearningRateScheduleCallback(0.25, 0.1, start_epoch=1, end_epoch=3)
    rates, _ = rates_of(hvd, keras, data, callback, 4)
    assert np.allclose(rates, np.repeat([0.5, 0.25, 0.025, 0.025], 4))


def test_a_schedule_by_batches(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    callback = hvd.callbacks.LearningRateScheduleCallback(1.0, lambda epoch: 1.0 + epoch, staircase=False)
    rates, _ = rates_of(hvd, keras, data, callback, 2)
    assert np.allclose(rates, 1.0 + np.arange(8) / 4)


def test_a_subclass_sets_the_rate_in_its_own_way(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    """By Horovod's name for that: a model with several optimizers has as many rates."""

    class Halved(hvd.callbacks.LearningRateScheduleCallback):
        def _adjust_learning_rate(self, epoch: float) -> None:
            super()._adjust_learning_rate(epoch)
            self.model.optimizer.learning_rate = self.initial_lr / 2

    assert np.allclose(rates_of(hvd, keras, data, Halved(0.5, 1.0), 1)[0], 0.25)


@pytest.mark.parametrize("steps", [None, 4])
def test_warmup(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, steps: int | None, capsys: Any) -> None:
    callback = hvd.callbacks.LearningRateWarmupCallback(0.8, warmup_epochs=2, steps_per_epoch=steps, verbose=1)
    rates, _ = rates_of(hvd, keras, data, callback, 3)
    ends = 0.8 / hvd.size() * ((np.arange(8) + 1) / 4 * (hvd.size() - 1) / 2 + 1)
    assert np.allclose(rates, np.concatenate([ends, [0.8] * 4]))
    assert np.isclose(ends[-1], 0.8)
    said = "Epoch 2: finished gradual learning rate warmup to 0.8." in capsys.readouterr().out
    assert said == (hvd.rank() == 0)


def test_arguments_of_schedules(hvd: ModuleType, keras: ModuleType) -> None:
    with pytest.raises(ValueError, match="`initial_lr` is required"):
        hvd.callbacks.LearningRateScheduleCallback(None, 0.1)
    callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, staircase=False)
    callback.set_model(compiled(keras, keras.optimizers.SGD(0.1)))
    callback.set_params({"samples": 64, "batch_size": 16})
    callback.on_train_begin()
    assert callback.steps_per_epoch == 4
    callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, staircase=False)
    callback.set_params({})
    with pytest.raises(ValueError, match="specify the steps_per_epoch parameter"):
        callback.on_train_begin()


def test_momentum_follows_the_rate_for_a_batch(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    seen: list[float] = []

    class Recorder(keras.callbacks.Callback):
        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            seen.append(float(self.model.optimizer.momentum))

    model = compiled(keras, keras.optimizers.SGD(0.5, momentum=0.4), run_eagerly=True)
    callback = hvd.callbacks.LearningRateScheduleCallback(1.0, 1.0)
    model.fit(data.x, data.y, batch_size=16, verbose=0, callbacks=[callback, Recorder()])
    assert np.allclose(seen, [0.8, 0.4])


@pytest.mark.skipif(BACKEND == "torch", reason="no step is compiled there")
def test_momentum_in_a_compiled_step_stays(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = compiled(keras, keras.optimizers.SGD(0.5, momentum=0.4))
    callback = hvd.callbacks.LearningRateScheduleCallback(1.0, 1.0)
    with pytest.warns(UserWarning, match="momentum_correction has no effect"):
        model.fit(data.x, data.y, verbose=0, callbacks=[callback])
    assert model.optimizer.momentum == 0.4


def test_best_model_checkpoint(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, tmp_path: Path) -> None:
    model = compiled(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    checkpoint = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    with pytest.raises(ValueError, match="set its attribute `filepath`"):
        model.fit(data.x, data.y, verbose=0, callbacks=[checkpoint])
    checkpoint.filepath = str(tmp_path / ("best.h5" if LEGACY else "best.keras"))
    model.fit(data.x, data.y, verbose=0, callbacks=[checkpoint])
    assert keras.models.load_model(checkpoint.filepath).get_weights()
