"""Optimizers, parameters, objects, the state of elastic jobs, and the example."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from horovod.common.exceptions import HorovodInternalError
from horovod.jax._arrays import JaxRuntimeError


def start() -> dict[str, Any]:
    return {"a": jnp.arange(7.0), "b": {"c": jnp.ones((2, 3)), "d": jnp.asarray(2.0)}}


def gradients_of(rank: int, step: int) -> dict[str, Any]:
    return jax.tree_util.tree_map(lambda x: (x + step) * (rank + 1.0), start())


def trained(optimizer: Any, steps: int, gradients: Callable[[int], Any], run: Callable = jax.jit) -> tuple[Any, Any]:
    """Return parameters and the optimizer's state after some steps."""
    params = start()
    state = optimizer.init(params)

    @run
    def apply(params: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for i in range(steps):
        params, state = apply(params, state, gradients(i))
    return params, state


def mean_gradients(step: int) -> Any:
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    return jax.tree_util.tree_map(lambda x: x * mean, gradients_of(0, step))


def close(a: Any, b: Any) -> bool:
    return all(np.allclose(x, y, atol=1e-5) for x, y in zip(*map(jax.tree_util.tree_leaves, (a, b))))


def test_an_optimizer_averages() -> None:
    plain = optax.adamw(0.1)
    expected, state = trained(plain, 3, mean_gradients)
    for kwargs in ({}, {"gradient_predivide_factor": 2.0}, {"sharded": True}):
        found, found_state = trained(hvd.distributed(plain, **kwargs), 3, lambda i: gradients_of(hvd.rank(), i))
        assert close(found, expected), kwargs
        if not kwargs.get("sharded"):
            assert close(found_state, state)
    assert isinstance(hvd.distributed(plain), type(plain))
    assert hvd.DistributedOptimizer is hvd.distributed


@pytest.mark.parametrize("options", [{}, {"sharded": True}], ids=str)
def test_two_optimizers_in_one_function(options: dict[str, Any]) -> None:
    """They reduce at the same time, and nobody gave them names."""
    optimizers = [hvd.distributed(optax.sgd(1.0), **options) for _ in range(2)]
    params = [[jnp.full((64, 64), float(i)) for i in range(6)] for _ in optimizers]

    @jax.jit
    def step(params: Any, gradient: Any) -> Any:
        found = []
        for number, (optimizer, own) in enumerate(zip(optimizers, params)):
            gradients = [jnp.full((64, 64), gradient * (number + 1)) for _ in own]
            updates, _ = optimizer.update(gradients, optimizer.init(own), own)
            found.append(optax.apply_updates(own, updates))
        return found

    for _ in range(5):
        params = step(params, hvd.rank() + 1.0)
    mean = (hvd.size() + 1) / 2
    for number, own in enumerate(params):
        for i, array in enumerate(own):
            assert np.allclose(array, i - 5 * mean * (number + 1))


def test_another_order_on_another_rank_is_an_error() -> None:
    optimizers = [hvd.distributed(optax.sgd(1.0)) for _ in range(2)]
    if hvd.rank() == 1:
        optimizers.reverse()
    params = jnp.ones(3)
    steps = [jax.jit(lambda g, o=o: o.update(g, o.init(params), params)[0]) for o in optimizers]
    assert np.allclose(steps[0](params), -1.0)
    with pytest.raises(RuntimeError, match="in the same order on all ranks"):
        steps[1](params)


def test_an_optimizer_outside_of_compiled_functions() -> None:
    expected, _ = trained(optax.sgd(0.1), 1, mean_gradients)
    for sharded in (False, True):
        optimizer = hvd.distributed(optax.sgd(0.1), sharded=sharded)
        found, _ = trained(optimizer, 1, lambda i: gradients_of(hvd.rank(), i), lambda step: step)
        assert close(found, expected)


def test_a_sharded_optimizer_keeps_a_part_of_the_state() -> None:
    state = hvd.distributed(optax.adam(0.1), sharded=True).init(start())
    kept = sum(leaf.size for leaf in jax.tree_util.tree_leaves(state[0].mu))
    assert sum(hvd.allgather_object(kept, name="kept")) == 7 + 6 + 1
    assert kept < 14 or hvd.size() == 1


@pytest.mark.parametrize("average", [False, True])
def test_gradients_of_several_passes_are_applied_at_once(average: bool) -> None:
    factor = 1 if average else 2
    expected, _ = trained(optax.sgd(0.1), 1, lambda _: jax.tree_util.tree_map(lambda x: x * factor, mean_gradients(3)))
    arguments = {"backward_passes_per_step": 2, "average_aggregated_gradients": average}
    for sharded in (False, True):
        optimizer = hvd.distributed(optax.sgd(0.1), sharded=sharded, **arguments)
        gradients = lambda _: gradients_of(hvd.rank(), 3)  # noqa: E731
        found, state = trained(optimizer, 3, gradients)
        assert close(found, expected)
        assert state.passes == 1


def test_optimizers_refuse_what_does_not_fit() -> None:
    for kwargs in (
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        {"backward_passes_per_step": 0},
        {"sharded": True, "op": hvd.Adasum},
        {"sharded": True, "compression": hvd.Compression.fp16},
    ):
        with pytest.raises(ValueError, match="gradient_predivide|backward_passes|sharded"):
            hvd.distributed(optax.sgd(0.1), **kwargs)


def test_parameters_are_broadcast() -> None:
    root = hvd.size() - 1
    params = {
        "weights": jnp.full((2, 2), float(hvd.rank()), jnp.bfloat16), "key": jax.random.key(hvd.rank()),
        "old_key": jax.random.PRNGKey(hvd.rank()), "step": hvd.rank(), "none": None,
    }  # fmt: skip
    found = hvd.broadcast_parameters(params, root)
    assert (np.asarray(found["weights"], np.float32) == root).all()
    assert jnp.array_equal(jax.random.key_data(found["key"]), jax.random.key_data(jax.random.key(root)))
    assert jnp.array_equal(found["old_key"], jax.random.PRNGKey(root))
    assert [found["step"], found["none"]] == [root, None]
    assert hvd.broadcast_parameters({}, 0) == {}


def test_objects() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}) == {"rank": 0}
    assert hvd.allgather_object((hvd.rank(),) * hvd.rank(), name="some") == [(r,) * r for r in range(hvd.size())]


# --- elastic jobs ---


def test_elastic_state() -> None:
    state = hvd.elastic.JaxState(params={"w": jnp.full(2, float(hvd.rank()))}, epoch=hvd.rank())
    state.sync()
    assert [state.params["w"].tolist(), state.epoch] == [[0.0, 0.0], 0]
    double = jax.jit(lambda tree: jax.tree_util.tree_map(lambda x: x + 5, tree), donate_argnums=0)
    for _ in range(2):  # what was saved outlives the arrays that are given away
        state.params = double(state.params)
        state.epoch = 3
        assert state.params["w"].tolist() == [5.0, 5.0]
        state.restore()
        assert [state.params["w"].tolist(), state.epoch] == [[0.0, 0.0], 0]
    state.params = double(state.params)
    state.save()
    state.params = double(state.params)
    state.restore()
    assert state.params["w"].tolist() == [5.0, 5.0]


def test_the_engines_errors_are_horovods_in_elastic_jobs() -> None:
    class Ends(Exception):
        """Ends the loop of the elastic job, which would start the engine anew."""

    class State:
        def __getattr__(self, name: str) -> object:
            return lambda *args, **kwargs: None

        def restore(self) -> None:
            raise Ends

    def fails(text: str, kind: type = JaxRuntimeError) -> Callable[[object], None]:
        def train(_: object) -> None:
            raise kind(text)

        return train

    for kind in (JaxRuntimeError, ValueError):
        with pytest.raises((Ends, HorovodInternalError)):
            hvd.elastic.run(fails("ABORTED: Horovod has been shut down. The cause: rank 1 died", kind))(State())
    with pytest.raises(JaxRuntimeError, match="out of memory"):
        hvd.elastic.run(fails("out of memory"))(State())


# --- the example ---


def test_digits() -> None:
    path = Path(__file__).resolve().parents[3] / "examples/jax_digits.py"
    spec = importlib.util.spec_from_file_location("digits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    accuracy = module.main(epochs=4)
    assert accuracy > 0.9
    assert hvd.allgather_object(accuracy, name="accuracies") == [accuracy] * hvd.size()
