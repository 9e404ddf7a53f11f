"""Optimizers that reduce gradients."""

from __future__ import annotations

import copy
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest
from common import BACKEND, LEGACY, assert_same, gradient, small_model, variable

needs_keras_3 = pytest.mark.skipif(LEGACY, reason="of Keras 3")


def loss_scaled(keras: ModuleType, optimizer: Any, **options: Any) -> Any:
    """Return an optimizer within one that scales the loss."""
    return (keras.mixed_precision if LEGACY else keras.optimizers).LossScaleOptimizer(optimizer, **options)


KINDS = ["new", *["legacy", "scaled"] * LEGACY]


def plain(keras: ModuleType, kind: str, name: str, *arguments: Any) -> Any:
    """Return an optimizer of Keras."""
    optimizer = getattr(keras.optimizers.legacy if kind == "legacy" else keras.optimizers, name)(*arguments)
    return loss_scaled(keras, optimizer) if kind == "scaled" else optimizer


def mean_of_ranks(hvd: ModuleType) -> float:
    """Return the average of rank + 1."""
    return (hvd.size() + 1) / 2


def applied(hvd: ModuleType, keras: ModuleType, optimizer: Any, weight: Any, factor: float = 1.0) -> np.ndarray:
    """Apply gradients of rank + 1 with a rate of one; return by how much the weight fell."""
    before = weight.numpy()
    optimizer.apply_gradients([(gradient(keras, [factor * (hvd.rank() + 1)] * 2), weight)])
    return before - weight.numpy()


def test_gradients_are_averaged(hvd: ModuleType, keras: ModuleType) -> None:
    weight = variable(keras, [1.0, 2.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    assert np.allclose(applied(hvd, keras, optimizer, weight), mean_of_ranks(hvd))


@pytest.mark.skipif(LEGACY or BACKEND != "tensorflow", reason="graphs of Keras 3 on TensorFlow run ops side by side")
def test_two_optimizers_of_variables_with_the_same_names(hvd: ModuleType, keras: ModuleType) -> None:
    import tensorflow as tf

    optimizers = [hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)) for _ in range(2)]
    weights = [[variable(keras, [[0.0] * 64] * 64, f"twin{i}") for i in range(6)] for _ in optimizers]
    for optimizer, own in zip(optimizers, weights):
        optimizer.build(own)

    @tf.function
    def step(gradient: Any) -> None:
        for number, (optimizer, own) in enumerate(zip(optimizers, weights), 1):
            optimizer.apply([tf.fill([64, 64], gradient * number) for _ in own], own)

    for _ in range(5):
        step(tf.constant(hvd.rank() + 1.0))
    for number, own in enumerate(weights, 1):
        for weight in own:
            assert np.allclose(weight.numpy(), -5 * mean_of_ranks(hvd) * number)


@pytest.mark.skipif(LEGACY, reason="Keras 2 is for graphs and eager mode alike named by its variables")
def test_another_order_on_another_rank_is_an_error(hvd: ModuleType, keras: ModuleType) -> None:
    optimizers = [hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)) for _ in range(2)]
    weights = [variable(keras, [1.0, 2.0], "twin") for _ in optimizers]
    first, second = (1, 0) if hvd.rank() == 1 else (0, 1)
    applied(hvd, keras, optimizers[first], weights[first])
    if hvd.size() == 1:
        pytest.skip("a lone rank has one order")
    with pytest.raises(RuntimeError, match="in the same order on all ranks"):
        applied(hvd, keras, optimizers[second], weights[second])


@pytest.mark.skipif(not LEGACY, reason="Keras 3 has no legacy optimizers")
def test_optimizers_from_before_keras_2_11(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    weight = variable(keras, [1.0, 2.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(1.0))
    assert np.allclose(applied(hvd, keras, optimizer, weight), mean_of_ranks(hvd))
    model = small_model(keras)
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.legacy.Adam(0.05)), loss="mse")
    model.fit(data.x, data.y, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert_same(hvd, model.get_weights(), "weights")


def test_sum_predivision_and_compression(hvd: ModuleType, keras: ModuleType) -> None:
    def fall(**options: Any) -> np.ndarray:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
        return applied(hvd, keras, optimizer, variable(keras, [1.0, 2.0]))

    mean = mean_of_ranks(hvd)
    assert np.allclose(fall(op=hvd.Sum), mean * hvd.size())
    assert np.allclose(fall(gradient_predivide_factor=2.0), mean)
    assert np.allclose(fall(compression=hvd.Compression.fp16), mean)
    assert np.allclose(fall(num_groups=1), mean)


def test_missing_gradients_stay_missing(hvd: ModuleType, keras: ModuleType) -> None:
    first, second = variable(keras, [1.0], "first"), variable(keras, [2.0], "second")
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    with pytest.warns(UserWarning) if not LEGACY else pytest.MonkeyPatch.context():
        optimizer.apply_gradients([(None, first), (gradient(keras, [hvd.rank() + 1]), second)])
    assert first.numpy() == 1.0
    assert np.allclose(second.numpy(), 2.0 - mean_of_ranks(hvd))


@pytest.mark.parametrize("steps", ["compiled", "eager", "grouped"])
def test_training_gives_the_same_model_on_all_ranks(
    hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, steps: str
) -> None:
    model = small_model(keras)
    groups = [model.trainable_variables[1:3]] if steps == "grouped" else None
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.05), groups=groups)
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=steps == "eager")
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    history = model.fit(data.x, data.y, batch_size=8, epochs=10, verbose=0, callbacks=[callback])
    assert_same(hvd, model.get_weights(), "weights")
    assert history.history["loss"][-1] < history.history["loss"][0] / 2


def test_the_class_keeps_its_names(hvd: ModuleType, keras: ModuleType) -> None:
    plain = keras.optimizers.Adam(0.25)
    optimizer = hvd.DistributedOptimizer(plain)
    assert isinstance(optimizer, type(plain))
    assert type(optimizer) is not type(plain)
    assert type(optimizer).__name__ == type(plain).__name__
    # Programs look for "horovod" in the type to know that it is distributed, and Keras saves what __class__ says.
    assert type(optimizer).__module__.startswith("horovod")
    assert optimizer.__class__ is type(plain)
    saved = keras.optimizers.serialize(optimizer)
    assert saved["class_name"] == "Adam"
    assert "horovod" not in str(saved)
    assert optimizer._name == "DistributedAdam"
    assert hvd.DistributedOptimizer(keras.optimizers.Adam(), name="mine")._name == "mine"
    assert float(optimizer.learning_rate.numpy()) == 0.25


def test_copies_of_an_optimizer(hvd: ModuleType, keras: ModuleType) -> None:
    """By pickle and copy, as Keras' own can be: of Keras 2 its optimizers from before 2.11."""
    kind = keras.optimizers.legacy.Adam if LEGACY else keras.optimizers.Adam
    optimizer = hvd.DistributedOptimizer(kind(0.25))
    for copied in (cloudpickle.loads(cloudpickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        assert isinstance(copied, kind)
        assert float(copied.get_config()["learning_rate"]) == 0.25


@pytest.mark.skipif(not LEGACY, reason="of Keras 2")
def test_horovod_keras_takes_an_optimizer_of_keras_2(hvd: ModuleType, keras: ModuleType) -> None:
    import horovod.keras as other

    model = small_model(keras)
    local = model.layers[-1]
    optimizer = other.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=[local])
    model.compile(optimizer, "mse")
    before = [weights.copy() for weights in model.get_weights()]
    values = [gradient(keras, np.full(weight.shape, hvd.rank(), np.float32)) for weight in model.trainable_variables]
    optimizer.apply_gradients(list(zip(values, model.trainable_variables)))
    mean = (hvd.size() - 1) / 2
    changes = [float(np.mean(was - is_now)) for was, is_now in zip(before, model.get_weights())]
    of_local = hvd.rank() / hvd.size()
    assert np.allclose(changes, [mean] * (len(changes) - 2) + [of_local] * 2, atol=1e-6)
    assert isinstance(other.DistributedOptimizer(keras.optimizers.Adam()), keras.optimizers.Adam)


def test_local_variables_are_not_reduced(hvd: ModuleType, keras: ModuleType) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    weight = variable(keras, [1.0, 2.0])
    optimizer.register_local_var(weight)
    assert np.allclose(applied(hvd, keras, optimizer, weight), (hvd.rank() + 1) / hvd.size())


def test_a_program_tells_of_local_variables_when_it_reduces(hvd: ModuleType, keras: ModuleType) -> None:
    """As distributed-embeddings does, which replaces a private method, and gives names by places."""
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    weight, reduce, options = variable(keras, [1.0, 2.0]), optimizer._allreduce_grads, {}
    if hvd.__name__ == "horovod.tensorflow.keras":
        options["use_generic_names"] = True

    def reduce_others(grads: Any, variables: Any) -> Any:
        optimizer.register_local_var(weight)
        return reduce(grads, variables, **options)

    optimizer._allreduce = reduce_others
    assert np.allclose(applied(hvd, keras, optimizer, weight), (hvd.rank() + 1) / hvd.size())


@needs_keras_3
def test_accumulated_gradients_are_reduced_once(
    hvd: ModuleType, keras: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, gradient_accumulation_steps=2, clipvalue=100.0))
    reducer, calls = optimizer._reduction.reducer, []
    reduce = reducer.reduce
    monkeypatch.setattr(reducer, "reduce", lambda *given: calls.append(1) or reduce(*given))
    weight = variable(keras, [1.0, 2.0])
    assert np.allclose(applied(hvd, keras, optimizer, weight, 1.0), 0.0)
    assert not calls
    assert np.allclose(applied(hvd, keras, optimizer, weight, 3.0), 2.0 * mean_of_ranks(hvd))
    assert calls == [1]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_several_passes_a_step(hvd: ModuleType, keras: ModuleType, kind: str, average: bool) -> None:
    options = {"backward_passes_per_step": 3, "average_aggregated_gradients": average}
    make = getattr(hvd, "PartialDistributedOptimizer", hvd.DistributedOptimizer)
    optimizer = make(plain(keras, kind, "SGD", 1.0), **options)
    weight = variable(keras, [1.0, 2.0])
    for _ in range(2):
        for _ in range(2):
            assert np.allclose(applied(hvd, keras, optimizer, weight), 0.0)
        assert np.allclose(applied(hvd, keras, optimizer, weight), mean_of_ranks(hvd) * (1 if average else 3))
    assert int(optimizer.iterations) == (6 if LEGACY else 2)  # Keras 2 counts passes, as Horovod's does


@pytest.mark.parametrize("kind", KINDS)
def test_several_passes_a_step_in_training(
    hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, kind: str
) -> None:
    model = small_model(keras)
    if hvd.rank() == 0:
        keras.optimizers.Adam()  # so that rank 0 gives other names to those that come
    if LEGACY:
        optimizer = hvd.DistributedOptimizer(plain(keras, kind, "Adam", 0.05), backward_passes_per_step=2)
    else:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.05, gradient_accumulation_steps=2))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(data.x, data.y, batch_size=8, epochs=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])  # fmt: skip
    assert_same(hvd, model.get_weights(), "weights")
    assert int(optimizer.iterations) == (8 if LEGACY else 4)


@pytest.mark.skipif(BACKEND == "jax", reason="Keras' LossScaleOptimizer takes gradients within fit alone")
def test_an_overflow_on_one_rank_skips_the_step_on_all(hvd: ModuleType, keras: ModuleType) -> None:
    optimizer = hvd.DistributedOptimizer(loss_scaled(keras, keras.optimizers.SGD(1.0), initial_scale=2.0))
    weight = variable(keras, [1.0, 2.0])
    scale = 1.0 if LEGACY else 2.0  # Keras 2 takes it from the gradients before it applies them
    assert np.allclose(applied(hvd, keras, optimizer, weight, scale), mean_of_ranks(hvd))
    overflow = float("inf") if hvd.rank() == hvd.size() - 1 else 1.0
    assert np.allclose(applied(hvd, keras, optimizer, weight, overflow), 0.0)
    assert float((optimizer.loss_scale if LEGACY else optimizer.dynamic_scale).numpy()) == 1.0


def test_a_scale_around_the_distributed_optimizer_is_refused(hvd: ModuleType, keras: ModuleType) -> None:
    model = small_model(keras)
    inner = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    model.compile(optimizer=loss_scaled(keras, inner), loss="mse")
    with pytest.raises(ValueError, match=r"DistributedOptimizer\(LossScaleOptimizer"):
        hvd.callbacks.BroadcastGlobalVariablesCallback(0).set_model(model)


@needs_keras_3
def test_state_is_taken_over(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = small_model(keras)
    plain = keras.optimizers.Adam(0.05)
    model.compile(optimizer=plain, loss="mse")
    model.fit(data.x, data.y, verbose=0)
    optimizer = hvd.DistributedOptimizer(plain)
    assert len(optimizer.variables) == len(plain.variables) > 2
    for ours, theirs in zip(optimizer.variables, plain.variables):
        assert np.array_equal(ours.numpy(), theirs.numpy())


def test_wrong_arguments(hvd: ModuleType, keras: ModuleType) -> None:
    def refuse(text: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=text):
            hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)

    refuse("op currently only supports Average and Sum", op=2)
    refuse("gradient_predivide_factor not supported with op != Average", op=hvd.Sum, gradient_predivide_factor=2.0)
    if BACKEND == "tensorflow":
        refuse("groups should be a non-negative integer", groups="all")
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)))
    with pytest.raises(TypeError, match="wraps an optimizer of Keras, and got 'sgd'"):
        hvd.DistributedOptimizer("sgd")


def test_process_sets(hvd: ModuleType, keras: ModuleType) -> None:
    if hvd.size() == 1:
        pytest.skip("one rank is the global set")
    members = hvd.add_process_set([0])
    try:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=members)
        assert np.allclose(applied(hvd, keras, optimizer, variable(keras, [1.0, 2.0])), hvd.rank() + 1)
    finally:
        hvd.remove_process_set(members)


def test_unscaled_local_gradients(hvd: ModuleType, keras: ModuleType) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), scale_local_gradients=False)
    weight = variable(keras, [1.0, 2.0])
    optimizer.register_local_var(weight)
    assert np.allclose(applied(hvd, keras, optimizer, weight), hvd.rank() + 1)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="it is about TensorFlow")
def test_by_way_of_horovod_tensorflow(hvd: ModuleType, keras: ModuleType) -> None:
    import horovod.tensorflow

    options = {"op": hvd.Sum, "gradient_predivide_factor": 1.0}
    optimizer = horovod.tensorflow.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    fall = applied(hvd, keras, optimizer, variable(keras, [1.0, 2.0]))
    assert np.allclose(fall, mean_of_ranks(hvd) * hvd.size())


@pytest.mark.skipif(BACKEND != "tensorflow", reason="elsewhere gradients of embeddings are dense")
@pytest.mark.parametrize("sparse_as_dense", [False, True])
def test_embeddings(hvd: ModuleType, keras: ModuleType, sparse_as_dense: bool) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Embedding(5, 3)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5), sparse_as_dense=sparse_as_dense)
    model.compile(optimizer=optimizer, loss="mse")
    x, y = np.array([[0, hvd.rank() % 5]]), np.zeros((1, 2, 3), "float32")
    model.fit(x, y, verbose=0, epochs=2, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert_same(hvd, model.get_weights(), "embedding")


def test_local_layers(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace) -> None:
    model = small_model(keras)
    local = model.layers[-1]
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=local)
    model.compile(optimizer=optimizer, loss="mse")
    start = [weight.numpy() for weight in local.weights]
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=local.weights[1:])
    callback.register_local_var(local.weights[0])
    model.fit(data.x, data.y, batch_size=8, verbose=0, callbacks=[callback])
    assert_same(hvd, model.layers[0].get_weights(), "first layer")
    kernel = np.asarray(hvd.allgather(local.get_weights()[0], name="kernels")).reshape(hvd.size(), -1)
    assert all(not np.allclose(kernel[0], other) for other in kernel[1:])
    assert not np.array_equal(start[0], local.get_weights()[0])


def test_what_is_no_layer(hvd: ModuleType, keras: ModuleType) -> None:
    with pytest.raises(ValueError, match="All local layers must be of tf.keras.layers.Layer type."):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=["dense"])
    with pytest.raises(ValueError, match="build the model first"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=keras.layers.Dense(1))


@pytest.mark.skipif(BACKEND != "jax", reason="elsewhere Keras comes by `apply`, in passes that update alone")
class TestOfJax:
    """What is in the step that JAX compiles."""

    def test_accumulated_gradients_are_reduced_once(
        self, hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import jax

        model = small_model(keras)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
        reducer, calls = optimizer._reduction.reducer, []
        reduce = reducer.reduce

        def counted(*given: Any) -> Any:
            jax.debug.callback(lambda: calls.append(1))
            return reduce(*given)

        monkeypatch.setattr(reducer, "reduce", counted)
        model.compile(optimizer=optimizer, loss="mse")
        hvd.elastic.KerasState(model).sync()
        model.fit(data.x, data.y, batch_size=8, verbose=0)
        assert_same(hvd, model.get_weights(), "accumulated")
        jax.effects_barrier()
        assert len(calls) == 2  # of four batches

    def test_an_overflow_on_one_rank_skips_the_step_on_all(
        self, hvd: ModuleType, keras: ModuleType, data: SimpleNamespace
    ) -> None:
        model = small_model(keras)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))
        model.compile(optimizer=optimizer, loss="mse")
        hvd.elastic.KerasState(model).sync()
        scale = float(optimizer.dynamic_scale.numpy())
        if hvd.rank() == hvd.size() - 1:
            data.y[8:16] = np.inf
        model.fit(data.x, data.y, batch_size=8, shuffle=False, verbose=0)
        assert_same(hvd, model.get_weights(), "scaled")
        assert (int(optimizer.iterations), float(optimizer.dynamic_scale.numpy())) == (3, scale / 2)
