"""Gradients of the collectives, and mapping over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import pytest

Run = Callable[[Callable], Callable]


def gradient(run: Run, function: Callable[[Any], Any], x: Any) -> np.ndarray:
    """Return the gradient of the sum of what a function gives."""
    return np.asarray(run(jax.grad(lambda x: function(x).sum()))(x))


def test_of_allreduce(run: Run) -> None:
    x = jnp.asarray([1.0, 2.0, 3.0])
    assert gradient(run, lambda x: hvd.allreduce(x, op=hvd.Sum), x).tolist() == [hvd.size()] * 3
    assert gradient(run, hvd.allreduce, x).tolist() == [1.0] * 3
    found = gradient(run, lambda x: hvd.grouped_allreduce([x, x * 2, jnp.ones(1, jnp.int32)], op=hvd.Sum)[1], x)
    assert found.tolist() == [2.0 * hvd.size()] * 3


def test_of_allgather(run: Run) -> None:
    rows = [r + 1 for r in range(hvd.size())]
    weights = jnp.arange(2.0 * sum(rows)).reshape(-1, 2)
    begin = sum(rows[: hvd.rank()])
    found = gradient(run, lambda x: hvd.allgather(x, rows=rows) * weights, jnp.ones([hvd.rank() + 1, 2]))
    assert np.allclose(found, weights[begin : begin + hvd.rank() + 1])
    found = gradient(run, lambda x: hvd.allgather(x) * jnp.arange(hvd.size()), jnp.ones(1))
    assert found.tolist() == [hvd.rank()]
    if hvd.size() > 2:
        with pytest.raises(ValueError, match="give them as its argument"):
            jax.grad(lambda x: hvd.allgather(x).sum())(jnp.ones(hvd.rank() * hvd.rank() + 1))


def test_of_broadcast(run: Run) -> None:
    found = gradient(run, lambda x: hvd.broadcast(x, 0) * float(hvd.rank() + 1), jnp.ones(2))
    average = sum(range(1, hvd.size() + 1)) / hvd.size()
    assert found.tolist() == [average if hvd.rank() == 0 else 0.0] * 2


def test_of_alltoall(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    found = gradient(run, lambda x: hvd.alltoall(x) * float(rank), jnp.ones(2 * size))
    assert found.tolist() == [float(r) for r in range(size) for _ in range(2)]
    splits, received = list(range(1, size + 1)), [rank + 1] * size
    uneven = gradient(
        run, lambda x: hvd.alltoall(x, splits, None, received_splits=received)[0] * rank, jnp.ones(sum(splits))
    )
    assert uneven.tolist() == [float(r) for r in range(size) for _ in range(r + 1)]


def test_of_reducescatter(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    found = gradient(run, lambda x: hvd.reducescatter(x, op=hvd.Sum) * float(rank + 1), jnp.ones((2 * size, 1)))
    assert found[:, 0].tolist() == [float(size * (r + 1)) for r in range(size) for _ in range(2)]
    found = gradient(run, lambda x: hvd.reducescatter(x) * float(rank + 1), jnp.ones(2 * size))
    assert found.tolist() == [float(r + 1) for r in range(size) for _ in range(2)]


def test_of_a_barrier(run: Run) -> None:
    if run is jax.jit and jax.default_backend() != "cpu":
        pytest.skip("functions for GPUs have no barrier")
    assert gradient(run, lambda x: hvd.barrier(after=x * 3), jnp.ones(2)).tolist() == [3.0, 3.0]


def test_of_higher_orders_and_forward(run: Run) -> None:
    cube = lambda x: hvd.allreduce(x, op=hvd.Sum) ** 3  # noqa: E731
    x, n = jnp.asarray(2.0), hvd.size()
    second = run(jax.grad(jax.grad(cube)))(x)  # every rank's own derivatives, each of them summed
    assert second == pytest.approx(6 * (2.0 * n) * n * n)
    value, tangent = run(lambda x: jax.jvp(cube, (x,), (jnp.asarray(1.0),)))(x)
    assert [value, tangent] == [pytest.approx((2 * n) ** 3), pytest.approx(3 * (2 * n) ** 2 * n)]


def test_through_loops_and_checkpoints() -> None:
    @jax.jit
    def loss(x: Any) -> Any:
        step = jax.checkpoint(lambda x, _: (hvd.allreduce(jnp.sin(x)), None))
        return jax.lax.scan(step, x, None, length=3)[0].sum()

    def alone(x: Any) -> Any:
        return jnp.sin(jnp.sin(jnp.sin(x))).sum()

    x = jnp.asarray([0.3, 0.7])
    assert np.allclose(jax.grad(loss)(x), jax.grad(alone)(x))


# --- mapping ---


def test_elementwise_ones_take_any_axis(run: Run) -> None:
    x = jnp.arange(6.0).reshape(2, 3) + hvd.rank()
    total = sum(np.arange(6.0).reshape(2, 3) + r for r in range(hvd.size()))
    for axis in (0, 1):
        both = jax.vmap(lambda x: hvd.grouped_allreduce([x, jnp.ones(1)], op=hvd.Sum), axis, [axis, None])
        mapped, fixed = run(both)(x)
        assert np.array_equal(mapped, total)
        assert fixed.tolist() == [hvd.size()]
    sent = run(jax.vmap(lambda x: hvd.broadcast(x, 0)))(x)
    assert np.array_equal(sent, np.arange(6.0).reshape(2, 3))


def test_those_that_move_rows(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    x = jnp.arange(4.0 * size).reshape(2, 2 * size) + 100 * rank
    everyone = [np.arange(4.0 * size).reshape(2, 2 * size) + 100 * r for r in range(size)]
    own = slice(2 * rank, 2 * rank + 2)
    assert np.array_equal(run(jax.vmap(hvd.allgather))(x), np.concatenate(everyone, 1))
    assert np.array_equal(run(jax.vmap(lambda x: hvd.reducescatter(x, op=hvd.Sum)))(x), sum(everyone)[:, own])
    exchanged = np.concatenate([each[:, own] for each in everyone], 1)
    assert np.array_equal(run(jax.vmap(hvd.alltoall, 1, 1))(x.T), exchanged.T)
    per_row = run(jax.vmap(jax.grad(lambda x: (hvd.allgather(x) ** 2).sum())))(x)
    assert np.allclose(per_row, 2 * x)


def test_adasum_is_refused() -> None:
    if hvd.size() & (hvd.size() - 1) == 0:
        with pytest.raises(NotImplementedError, match="Adasum can't be mapped over"):
            jax.vmap(lambda x: hvd.allreduce(x, op=hvd.Adasum))(jnp.ones((2, 2)))
