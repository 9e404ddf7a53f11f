"""Optimizers and gluon's trainer: what ranks train on parts of the data equals one process with all of it."""

from __future__ import annotations

from typing import Any

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
import pytest

BATCH = 4


def data() -> tuple[Any, Any]:
    generator = np.random.RandomState(3)
    x = generator.randn(BATCH * hvd.size(), 3).astype("float32")
    return mx.nd.array(x), mx.nd.array(x.sum(1, keepdims=True))


def own_rows() -> slice:
    return slice(BATCH * hvd.rank(), BATCH * (hvd.rank() + 1))


def make_net(seed: int, in_units: int = 0) -> Any:
    mx.random.seed(seed)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            mx.gluon.nn.Dense(5, activation="tanh", in_units=in_units),
            mx.gluon.nn.Dense(1, in_units=5 if in_units else 0),
        )
    net.initialize(mx.init.Xavier())
    return net


def train(net: Any, trainer: Any, rows: slice, steps: int = 3) -> list[Any]:
    x, y = data()
    loss_of = mx.gluon.loss.L2Loss()
    for _ in range(steps):
        with mx.autograd.record():
            loss = loss_of(net(x[rows]), y[rows])
        loss.backward()
        trainer.step(rows.stop - rows.start)
    return [parameter.data().asnumpy() for _, parameter in sorted(net.collect_params().items())]


def test_ranks_outside_the_process_set_step_alone() -> None:
    if hvd.size() == 1:
        pytest.skip("nobody is outside")
    others = hvd.add_process_set(list(range(hvd.size() - 1)))
    try:
        optimizer = hvd.DistributedOptimizer(mx.optimizer.Test(learning_rate=1.0), process_set=others)
        weight, gradient = mx.nd.zeros([2]), mx.nd.full([2], hvd.rank() + 1)
        optimizer.update(0, weight, gradient, optimizer.create_state(0, weight))
        assert weight.asnumpy().tolist() == [hvd.size() / 2 if others.included() else hvd.size()] * 2
        net = make_net(hvd.rank(), in_units=3)
        trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, process_set=others)
        assert np.isfinite(train(net, trainer, own_rows())[0]).all()
    finally:
        hvd.allreduce(mx.nd.ones([1]), name="all_again").wait_to_read()
        assert hvd.remove_process_set(others)


def trained_alone() -> list[Any]:
    net = make_net(0, in_units=3)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=None)
    return train(net, trainer, slice(0, BATCH * hvd.size()))


@pytest.mark.parametrize(
    "options",
    [{}, {"num_groups": 2}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}],
    ids=str,
)
def test_trainer(options: dict[str, Any]) -> None:
    net = make_net(hvd.rank(), in_units=3)
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    parameters = net.collect_params()
    trainer = hvd.DistributedTrainer(parameters, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **options)
    trained = train(net, trainer, own_rows())
    tolerance = 2e-2 if "compression" in options else 1e-5
    assert all(np.allclose(a, b, atol=tolerance) for a, b in zip(trained, trained_alone()))


def test_two_trainers_without_prefixes_reduce_at_the_same_time() -> None:
    nets = [mx.gluon.nn.HybridSequential() for _ in range(2)]
    for net in nets:
        for _ in range(6):
            net.add(mx.gluon.nn.Dense(64, in_units=64, use_bias=False))
        net.initialize(mx.init.Constant(0.01))
    trainers = [hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0}) for net in nets]
    for _ in range(10):
        with mx.autograd.record():
            weights = [[p.data() for p in net.collect_params().values()] for net in nets]
            losses = [sum(w.sum() for w in each) * (hvd.rank() + 1) * (i + 1) for i, each in enumerate(weights)]
        mx.autograd.backward(losses)
        for trainer in trainers:
            trainer.step(1)
    for i, net in enumerate(nets):
        for parameter in net.collect_params().values():
            assert np.allclose(parameter.data().asnumpy(), 0.01 - 10 * (i + 1) * (hvd.size() + 1) / 2)


def test_another_order_on_another_rank_is_an_error() -> None:
    optimizers = [hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0)) for _ in range(2)]
    if hvd.rank() == 1:
        optimizers.reverse()
    weight, state = mx.nd.ones(3), optimizers[0].create_state(0, mx.nd.ones(3))
    optimizers[0].update(0, weight, mx.nd.ones(3), state)
    with pytest.raises(RuntimeError, match="in the same order on all ranks"):
        optimizers[1].update(0, weight, mx.nd.ones(3), state)


def test_parameters_that_are_initialised_later() -> None:
    net = make_net(hvd.rank())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    net(data()[0])
    everybody = hvd.allgather_object([p.data().asnumpy().tolist() for _, p in sorted(net.collect_params().items())])
    assert all(others == everybody[0] for others in everybody)


def test_plain_arrays_and_what_is_no_dict() -> None:
    arrays = {"a": mx.nd.full((2,), hvd.rank()), "b": mx.nd.full((3,), -hvd.rank())}
    hvd.broadcast_parameters(arrays, root_rank=hvd.size() - 1, prefix="plain.")
    assert arrays["a"].asnumpy().tolist() == [hvd.size() - 1] * 2
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="takes a dict"):
            hvd.broadcast_parameters([mx.nd.ones((1,))])
    with pytest.raises(TypeError, match="wraps an mx.optimizer.Optimizer, and got 'sgd'"):
        hvd.DistributedOptimizer("sgd")


@pytest.mark.parametrize("num_groups", [0, 1])
def test_optimizer(num_groups: int) -> None:
    wrapped = mx.optimizer.create("sgd", learning_rate=0.5)
    optimizer = hvd.DistributedOptimizer(wrapped, num_groups=num_groups)
    assert isinstance(optimizer, mx.optimizer.Optimizer)
    optimizer.set_learning_rate(0.25)
    assert optimizer.learning_rate == wrapped.learning_rate == 0.25
    weights, gradients = [mx.nd.ones((2,)) for _ in range(2)], [mx.nd.full((2,), hvd.rank()) for _ in range(2)]
    states = [optimizer.create_state_multi_precision(i, weight) for i, weight in enumerate(weights)]
    if num_groups:
        optimizer.update([0, 1], weights, gradients, states)
    else:
        for i in range(2):
            optimizer.update_multi_precision(i, weights[i], gradients[i], states[i])
    expected = 1 - 0.25 * sum(range(hvd.size())) / hvd.size()
    assert all(np.allclose(weight.asnumpy(), expected) for weight in weights)


def test_trainer_takes_the_optimizer_that_is_wrapped() -> None:
    net = make_net(0, in_units=3)
    with pytest.warns(UserWarning, match="averages by itself"):
        trainer = hvd.DistributedTrainer(net.collect_params(), hvd.DistributedOptimizer(mx.optimizer.SGD()))
    assert type(trainer._optimizer) is mx.optimizer.SGD
