"""Gradients of the ops, tapes, optimizers of sessions, batch normalisation."""

from __future__ import annotations

from collections.abc import Callable

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from horovod.tensorflow import util

Run = Callable[[Callable], Callable]


def gradient(run: Run, function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> np.ndarray:
    """Return the gradient of the sum of what a function gives."""

    def differentiate(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    return run(differentiate)(x).numpy()


def test_of_allreduce(run: Run) -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    assert gradient(run, lambda x: hvd.allreduce(x, op=hvd.Sum), x).tolist() == [hvd.size()] * 3
    assert gradient(run, hvd.allreduce, x).tolist() == [1.0] * 3
    found = gradient(run, lambda x: hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)[1], x)
    assert found.tolist() == [2.0 * hvd.size()] * 3


def test_of_allgather(run: Run) -> None:
    x = tf.ones([hvd.rank() + 1, 2])
    rows = sum(range(1, hvd.size() + 1))
    weights = tf.reshape(tf.range(2.0 * rows), [rows, 2])
    begin = sum(range(1, hvd.rank() + 1))
    found = gradient(run, lambda x: hvd.allgather(x) * weights, x)
    assert np.allclose(found, weights[begin : begin + hvd.rank() + 1])


def test_of_broadcast(run: Run) -> None:
    found = gradient(run, lambda x: hvd.broadcast(x, 0) * float(hvd.rank() + 1), tf.ones([2]))
    average = sum(range(1, hvd.size() + 1)) / hvd.size()
    assert found.tolist() == [average if hvd.rank() == 0 else 0.0] * 2


def test_of_alltoall(run: Run) -> None:
    size = hvd.size()
    found = gradient(run, lambda x: hvd.alltoall(x, splits=[2] * size)[0] * float(hvd.rank()), tf.ones([2 * size]))
    assert found.tolist() == [float(r) for r in range(size) for _ in range(2)]


def test_of_reducescatter(run: Run) -> None:
    x = tf.ones([2 * hvd.size(), 1])
    found = gradient(run, lambda x: hvd.reducescatter(x, op=hvd.Sum) * float(hvd.rank() + 1), x)
    assert found[:, 0].tolist() == [float(hvd.size() * (r + 1)) for r in range(hvd.size()) for _ in range(2)]


# --- tapes ---


def train(tape: tf.GradientTape, variables: list[tf.Variable]) -> tf.Tensor:
    """Return a loss whose gradients differ between ranks."""
    with tape:
        return (hvd.rank() + 1) * tf.add_n([tf.reduce_sum(variable * variable) for variable in variables])


def expected_of(variable: tf.Variable) -> np.ndarray:
    """Return the averaged gradient of :func:`train`."""
    return 2 * variable.numpy() * (hvd.size() + 1) / 2


def variables() -> list[tf.Variable]:
    return [tf.Variable([1.0, 2.0], name="a"), tf.Variable([[3.0]], name="b"), tf.Variable(4.0, name="c")]


def test_a_tape_averages() -> None:
    mine = variables()
    for kwargs in ({}, {"num_groups": 2}, {"groups": [mine[:2]]}, {"gradient_predivide_factor": 2.0}):
        tape = tf.GradientTape()
        loss = train(tape, mine)
        distributed = hvd.DistributedGradientTape(tape, **kwargs)
        assert isinstance(distributed, tf.GradientTape)
        for variable, found in zip(mine, distributed.gradient(loss, mine)):
            assert np.allclose(found, expected_of(variable)), kwargs


def test_a_tape_in_a_function_keeps_structures_and_none() -> None:
    mine, unused = variables(), tf.Variable(1.0, name="unused")

    @tf.function
    def step() -> dict[str, object]:
        tape = tf.GradientTape()
        loss = train(tape, mine)
        sources = {"a": mine[0], "rest": [mine[1], mine[2]], "unused": unused}
        found = hvd.DistributedGradientTape(tape).gradient(loss, sources)
        assert found["unused"] is None
        return {"a": found["a"], "rest": found["rest"]}

    found = step()
    assert np.allclose(found["a"], expected_of(mine[0]))
    assert all(np.allclose(part, expected_of(variable)) for part, variable in zip(found["rest"], mine[1:]))


def test_a_tape_used_as_its_own_context() -> None:
    mine = variables()
    tape = hvd.DistributedGradientTape(tf.GradientTape(persistent=True))
    loss = train(tape, mine)
    for generic in (False, True):
        found = tape.gradient(loss, mine, use_generic_names=generic)
        assert all(np.allclose(part, expected_of(variable)) for part, variable in zip(found, mine))


def test_local_sources_stay_local() -> None:
    mine = variables()
    for scale, divisor in ((True, hvd.size()), (False, 1)):
        tape = tf.GradientTape(persistent=True)
        loss = train(tape, mine)
        distributed = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
        distributed.register_local_source(mine[0])
        found = distributed.gradient(loss, mine)
        assert np.allclose(found[0], 2 * mine[0].numpy() * (hvd.rank() + 1) / divisor)
        assert np.allclose(found[1], expected_of(mine[1]))
        local, others = distributed.get_local_and_global_gradients(loss, mine)
        assert [len(local), len(others)] == [1, 2]


def test_local_layers() -> None:
    layers = [tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)]
    x = tf.ones([4, 3])
    with tf.GradientTape() as tape:
        loss = (hvd.rank() + 1) * tf.reduce_sum(layers[1](layers[0](x)))
    for layer in layers:
        for weight in layer.weights:
            weight.assign(tf.ones_like(weight))
    weights = [*layers[0].trainable_weights, *layers[1].trainable_weights]
    with tf.GradientTape() as tape:
        loss = (hvd.rank() + 1) * tf.reduce_sum(layers[1](layers[0](x)))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers[0], scale_local_gradients=False)
    found = tape.gradient(loss, weights)
    assert np.allclose(found[0], 4.0 * (hvd.rank() + 1))
    assert np.allclose(found[3], 4.0 * (hvd.size() + 1) / 2)
    with pytest.raises(ValueError, match="All local layers must be of tf.keras.layers.Layer type"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers="dense")


def test_slices_of_an_embedding() -> None:
    table = tf.Variable(tf.ones([5, 2]))
    for dense in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), 4]))
        [found] = hvd.DistributedGradientTape(tape, sparse_as_dense=dense).gradient(loss, [table])
        assert isinstance(found, tf.IndexedSlices) is not dense
        total = tf.convert_to_tensor(found).numpy()
        assert np.allclose(total[4], 1.0)
        assert np.allclose(total[hvd.rank()], 1.0 / hvd.size())


def test_wrong_arguments_of_tapes() -> None:
    for kwargs, text in (
        ({"groups": "a"}, "groups should be"),
        ({"num_groups": -1}, "num_groups"),
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "gradient_predivide_factor"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.DistributedGradientTape(tf.GradientTape(), **kwargs)


# --- sessions ---


def test_an_optimizer_in_a_session() -> None:
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("weight", initializer=tf.constant([1.0, 2.0]) * float(hvd.rank() + 1))
        loss = float(hvd.rank() + 1) * tf.reduce_sum(weight * weight)
        plain = tf.compat.v1.train.MomentumOptimizer(0.5, 0.9)
        optimizer = hvd.DistributedOptimizer(plain)
        step = optimizer.minimize(loss)
        hook = hvd.BroadcastGlobalVariablesHook(0)
        with tf.compat.v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            assert session.run(weight).tolist() == [1.0, 2.0]
            session.run(step)
            found = session.run(weight)
    factor = 1 - 0.5 * 2 * (hvd.size() + 1) / 2
    assert np.allclose(found, [factor, 2 * factor])
    assert plain.get_slot_names() == optimizer.get_slot_names() == ["momentum"]


@pytest.mark.parametrize("averages", [False, True])
def test_an_optimizer_of_several_passes_in_a_session(averages: bool) -> None:
    passes, rate = 3, 0.1
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        weight = tf.compat.v1.get_variable("weight", initializer=tf.constant([1.0, 2.0]))
        unused = tf.compat.v1.get_variable("unused", initializer=tf.constant(5.0))
        factor = tf.compat.v1.placeholder(tf.float32, [])
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.MomentumOptimizer(rate, 0.0),
            backward_passes_per_step=passes,
            average_aggregated_gradients=averages,
        )
        train = optimizer.minimize(factor * tf.reduce_sum(weight), global_step=step, var_list=[weight, unused])
        with tf.compat.v1.train.SingularMonitoredSession() as session:
            found = []
            for number in range(2 * passes):
                session.run(train, {factor: float(number + hvd.rank())})
                found.append(session.run(weight)[0])
            assert session.run([step, unused]) == [2 * passes, 5.0]
    sums = [sum(number + (hvd.size() - 1) / 2 for number in span) for span in (range(3), range(3, 6))]
    first = 1 - rate * sums[0] / (passes if averages else 1)
    second = first - rate * sums[1] / (passes if averages else 1)
    assert np.allclose(found, [1, 1, first, first, first, second], atol=1e-5)


@pytest.mark.parametrize("passes", [1, 2])
def test_adasum_in_a_session(passes: int) -> None:
    if hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two of ranks")
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("weight", initializer=tf.ones([hvd.size()]))
        own = tf.one_hot(hvd.rank(), hvd.size())  # orthogonal to others', which Adasum adds up
        plain = tf.compat.v1.train.GradientDescentOptimizer(0.25)
        optimizer = hvd.DistributedOptimizer(plain, op=hvd.Adasum, backward_passes_per_step=passes)
        assert optimizer.get_name() == "DistributedDeltaGradientDescentOptimizer"
        train = optimizer.minimize(tf.reduce_sum(weight * own))
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())  # all that programs initialise
            for step in range(1, 5):
                session.run(train)
                found = session.run(weight)
                expected = np.where(np.arange(hvd.size()) == hvd.rank(), 1 - step / 4, 1 - (step - step % passes) / 4)
                assert np.allclose(found, expected, atol=1e-6)


def test_what_sessions_can_not() -> None:
    with tf.Graph().as_default():
        table = tf.compat.v1.get_variable("table", initializer=tf.ones([4, 2]))
        loss = tf.reduce_sum(tf.gather(table, [1]))
        sparse = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1), backward_passes_per_step=2)
        with pytest.raises(ValueError, match="sparse_as_dense"):
            sparse.minimize(loss)
    plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="backward_passes_per_step"):
        hvd.DistributedOptimizer(plain, backward_passes_per_step=2)
    with pytest.raises(RuntimeError, match="eager execution"):
        hvd.broadcast_global_variables(0)
    with pytest.raises(ValueError, match="average_aggregated_gradients"):
        hvd.DistributedOptimizer(plain, op=hvd.Adasum, average_aggregated_gradients=True)


def test_what_others_make_optimizers_of() -> None:
    """Trainers with a loop of their own, and frameworks of compressed gradients, take Horovod's private parts."""
    assert isinstance(hvd.DistributedOptimizer(hvd._LegacyOptimizer(False, "any")), hvd._DistributedOptimizer)
    assert hvd._executing_eagerly()
    reduce = hvd._make_allreduce_grads_fn("Mine", "", "", hvd.Compression.none, False, hvd.Average, 1.0, 0)
    variable = tf.Variable([0.0], name="reduced_by_others")
    mine = tf.constant([float(hvd.rank())])
    mean = (hvd.size() - 1) / 2
    for function in (reduce, tf.function(reduce)):
        for arguments in (([mine, None],), ([mine, None], [variable, variable])):
            dense, nothing = function(*arguments)
            assert dense.numpy() == mean
            assert nothing is None
    assert hvd._allreduce(mine).numpy() == mean * hvd.size()
    assert util.refs_to_vars(util.vars_to_refs([variable, [variable]])) == [variable, [variable]]
    assert util._make_subgraph(lambda: util._executing_eagerly() or mine)().numpy() == hvd.rank()


# --- layers ---


def test_batches_are_normalised_together() -> None:
    everything = np.random.RandomState(1).randn(hvd.size() * 4, 3).astype(np.float32)
    mine = everything[hvd.rank() * 4 : hvd.rank() * 4 + 4]
    layer, plain = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    found = layer(mine, training=True)
    expected = plain(everything, training=True)
    assert np.allclose(found, expected[hvd.rank() * 4 : hvd.rank() * 4 + 4], atol=1e-4)
    assert np.allclose(layer.moving_variance, plain.moving_variance, atol=1e-5)
    with pytest.raises(ValueError, match="does not support fused=True"):
        hvd.SyncBatchNormalization(fused=True)
