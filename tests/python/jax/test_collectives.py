"""The collectives, outside and inside of compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from horovod.common.exceptions import HorovodInternalError

Run = Callable[[Callable], Callable]

try:
    from jax.errors import JaxRuntimeError
except ImportError:  # before 0.4.36
    from jaxlib.xla_extension import XlaRuntimeError as JaxRuntimeError

REDUCIBLE = ["uint8", "int8", "uint16", "int16", "int32", "float16", "bfloat16", "float32"]
REDUCIBLE_WIDE = ["int64", "float64"]
MOVABLE = [*REDUCIBLE, "bool", "uint32", "complex64", "float8_e4m3fn", "float8_e5m2"]
MOVABLE_WIDE = [*REDUCIBLE_WIDE, "uint64"]

needs_two = pytest.mark.usefixtures("two_ranks")


def rows_of(rank: int, dtype: str, rows: int, width: int = 3) -> np.ndarray:
    """Return rows that tell which rank they are from."""
    return (np.arange(rows * width).reshape(rows, width) + rank).astype(jnp.dtype(dtype))


def equal(found: Any, expected: Any) -> bool:
    """Compare values, shapes and dtypes."""
    expected = np.asarray(expected)
    return found.dtype == expected.dtype and np.array_equal(np.asarray(found), expected)


def wide() -> Any:
    """Turn 64 bits on."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


def check_sums(run: Run, dtypes: list[str]) -> None:
    """Reduce one array of each dtype: one by one, and as a group of them all."""
    mine = [rows_of(hvd.rank(), dtype, 2) for dtype in dtypes]
    sums = [sum(rows_of(r, "int64", 2) for r in range(hvd.size())).astype(array.dtype) for array in mine]
    separate = run(lambda arrays: [hvd.allreduce(array, op=hvd.Sum) for array in arrays])(mine)
    together = run(lambda arrays: hvd.grouped_allreduce(arrays, op=hvd.Sum))(mine)
    assert all(equal(found, expected) for found, expected in zip(separate, sums))
    assert all(equal(found, expected) for found, expected in zip(together, sums))


def test_allreduce_sums_every_dtype(run: Run) -> None:
    check_sums(run, REDUCIBLE)
    with wide():
        check_sums(run, REDUCIBLE_WIDE)


def test_allreduce_averages_unless_told(run: Run) -> None:
    x = jnp.full(4, float(hvd.rank()))
    assert equal(run(hvd.allreduce)(x), np.full(4, (hvd.size() - 1) / 2, np.float32))
    with pytest.warns(DeprecationWarning):
        assert equal(hvd.allreduce(x, average=False), np.full(4, sum(range(hvd.size())), np.float32))
    with pytest.raises(ValueError, match="supersedes average"):
        hvd.allreduce(x, average=True, op=hvd.Sum)


@pytest.mark.parametrize("rows", [2, 1 << 14])  # in a copy, and beside the array
def test_reduce_gives_the_root_alone_the_result(run: Run, rows: int) -> None:
    root = hvd.size() - 1
    mine = jnp.asarray(rows_of(hvd.rank(), "float32", rows))
    found = run(lambda x: hvd.reduce(x, root, op=hvd.Sum))(mine)
    total = sum(rows_of(r, "float32", rows) for r in range(hvd.size()))
    assert equal(found, total if hvd.rank() == root else mine)
    with pytest.raises(NotImplementedError, match="no gradient"):
        jax.grad(lambda x: hvd.reduce(x, root).sum())(mine)


def test_other_reductions(run: Run) -> None:
    x, numbers = jnp.asarray([hvd.rank() + 1.0]), range(1, hvd.size() + 1)
    for op, expected in ((hvd.Min, 1), (hvd.Max, hvd.size()), (hvd.Product, np.prod(numbers))):
        assert equal(run(lambda x, op=op: hvd.allreduce(x, op=op))(x), np.asarray([expected], np.float32))
    truth = run(lambda x: hvd.allreduce(x, op=hvd.Max))(jnp.asarray([hvd.rank() == 0, False]))
    assert truth.tolist() == [True, False]


def test_adasum(run: Run) -> None:
    x = jnp.asarray([1.0, 2.0])
    if hvd.size() & (hvd.size() - 1):
        with pytest.raises(NotImplementedError, match="power-of-2"):
            hvd.allreduce(x, op=hvd.Adasum)
        return
    assert np.allclose(run(lambda x: hvd.allreduce(x, op=hvd.Adasum))(x), x)  # of equal ones it is the average


def test_factors_and_compression(run: Run) -> None:
    found = run(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0))(jnp.ones(3))
    assert equal(found, np.full(3, 1.5 * hvd.size(), np.float32))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        tree = {"a": jnp.ones(8), "b": jnp.ones(8, jnp.int32)}
        found = run(lambda tree, by=compression: hvd.allreduce(tree, op=hvd.Sum, compression=by))(tree)
        assert equal(found["a"], np.full(8, hvd.size(), np.float32))
        assert equal(found["b"], np.full(8, hvd.size(), np.int32))


def test_trees_travel_as_one_group(run: Run) -> None:
    tree = {"a": (jnp.ones(2), jnp.asarray(3.0)), "b": [jnp.ones((0, 2)), None]}
    found = run(lambda tree: hvd.allreduce(tree, op=hvd.Sum))(tree)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(tree)
    assert found["a"][0].tolist() == [hvd.size()] * 2
    assert found["a"][1] == 3 * hvd.size()
    assert found["b"][0].shape == (0, 2)
    assert hvd.allreduce({}) == {}
    assert hvd.grouped_allreduce([]) == []


def check_moves(run: Run, dtypes: list[str]) -> None:
    """Gather, broadcast and exchange a group of one array of each dtype."""
    size, rank, root = hvd.size(), hvd.rank(), hvd.size() - 1
    mine = [rows_of(rank, dtype, size) for dtype in dtypes]

    def move(arrays: list[Any]) -> tuple[Any, ...]:
        return hvd.grouped_allgather(arrays), hvd.broadcast(arrays, root), [hvd.alltoall(array) for array in arrays]

    for dtype, gathered, sent, exchanged in zip(dtypes, *run(move)(mine)):
        assert equal(gathered, np.concatenate([rows_of(r, dtype, size) for r in range(size)])), dtype
        assert equal(sent, rows_of(root, dtype, size)), dtype
        assert equal(exchanged, np.stack([rows_of(r, dtype, size)[rank] for r in range(size)])), dtype


def test_moves_of_every_dtype(run: Run) -> None:
    check_moves(run, MOVABLE)
    with wide():
        check_moves(run, MOVABLE_WIDE)


def test_allgather_of_uneven_rows(run: Run) -> None:
    rows = [2 * r for r in range(hvd.size())]
    parts = [rows_of(r, "bfloat16", rows[r]) for r in range(hvd.size())]
    found = run(lambda x: hvd.allgather(x, rows=rows))(parts[hvd.rank()])
    assert equal(found, np.concatenate(parts))
    assert equal(hvd.allgather(parts[hvd.rank()]), np.concatenate(parts))
    assert run(hvd.allgather)(jnp.asarray(hvd.rank())).tolist() == list(range(hvd.size()))


def test_alltoall_with_splits(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    x = np.concatenate([np.full(r + 1, 10 * rank + r) for r in range(size)])
    splits, received = list(range(1, size + 1)), [rank + 1] * size
    expected = np.concatenate([np.full(rank + 1, 10 * r + rank, np.int32) for r in range(size)])
    found, counts = run(lambda x: hvd.alltoall(x, splits, received_splits=received))(jnp.asarray(x))
    assert equal(found, expected)
    assert counts.tolist() == received
    found, counts = hvd.alltoall(jnp.asarray(x), jnp.asarray(splits))
    assert equal(found, expected)
    assert counts.tolist() == received
    with pytest.raises(ValueError, match="received_splits"):
        jax.jit(lambda x: hvd.alltoall(x, splits))(jnp.asarray(x))


def test_reducescatter(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    total = sum(rows_of(r, "float32", 2 * size + 1) for r in range(size))
    begin = 2 * rank + min(rank, 1)
    mine = total[begin : begin + 2 + (rank == 0)]
    x = rows_of(rank, "float32", 2 * size + 1)
    assert equal(run(lambda x: hvd.reducescatter(x, op=hvd.Sum))(x), mine)
    averages = run(lambda x: hvd.grouped_reducescatter([x, x]))(x)
    assert all(np.allclose(average, mine / size) for average in averages)
    with pytest.raises(NotImplementedError):
        hvd.reducescatter(x, op=hvd.Min)
    with pytest.raises(ValueError, match="have rows"):
        hvd.reducescatter(jnp.asarray(1.0))


def test_a_barrier(run: Run) -> None:
    assert hvd.barrier() is None
    if run is jax.jit and jax.default_backend() != "cpu":
        pytest.skip("functions for GPUs have no barrier")
    found = run(lambda x: hvd.barrier(after={"x": x * 2, "y": x > 0}))(jnp.ones(3))
    assert found["x"].tolist() == [2.0] * 3
    assert found["y"].tolist() == [True] * 3


# --- compiled functions ---


def test_calls_are_neither_merged_nor_moved_out_of_loops() -> None:
    calls: list[int] = []

    def counted(x: Any) -> Any:
        jax.debug.callback(lambda: calls.append(1))
        return hvd.allreduce(x, op=hvd.Sum, name="same")

    def loop(x: Any) -> Any:
        def step(carry: Any, _: None) -> tuple[Any, Any]:
            return carry + 1, hvd.allreduce(x, op=hvd.Sum, name="invariant")

        return counted(x) + counted(x), jax.lax.scan(step, 0, None, length=5)[1]

    text = jax.jit(loop).lower(jnp.ones(2)).compile().as_text()
    assert text.count('custom_call_target="roda_collective"') == 3
    assert "custom_call_has_side_effect=true" in text
    twice, each = jax.jit(loop)(jnp.ones(2))
    assert twice.tolist() == [2.0 * hvd.size()] * 2
    assert each.tolist() == [[float(hvd.size())] * 2] * 5
    jax.effects_barrier()
    assert len(calls) == 2


def test_what_is_needed_later_is_not_overwritten() -> None:
    @jax.jit
    def used_twice(x: jax.Array) -> tuple[jax.Array, ...]:
        once, twice = x + 1, x + 2
        total = hvd.allreduce([once, twice, twice], op=hvd.Sum, name="used.sum")
        return (*total, hvd.broadcast(x + 3, root_rank=0, name="used.broadcast"), twice + 0 * total[1], x)

    rank, ranks = hvd.rank(), range(hvd.size())
    given = jnp.full(1 << 16, float(rank))
    once, twice, again, broadcast, kept, same = (float(array[0]) for array in used_twice(given))
    assert (once, twice, again) == (sum(r + 1 for r in ranks), *[sum(r + 2 for r in ranks)] * 2)
    assert (broadcast, kept, same, float(given[0])) == (3, rank + 2, rank, rank)


@pytest.mark.parametrize("width", [0, 4, 70_000])
def test_arguments_of_eager_calls_keep_their_values(width: int) -> None:
    given = jnp.full(width, hvd.rank() + 1.0)
    total = hvd.allreduce(given, op=hvd.Sum)
    assert hvd.broadcast(given, root_rank=0).tolist() == [1.0] * width
    assert total.tolist() == [sum(r + 1.0 for r in range(hvd.size()))] * width
    assert given.tolist() == [hvd.rank() + 1.0] * width


@pytest.mark.parametrize("width", [4, 70_000])
def test_loops_and_branches(width: int) -> None:
    def step(x: Any, i: Any) -> tuple[Any, Any]:
        doubled, more = hvd.allreduce(x + x), hvd.allreduce(x + i)
        x = jax.lax.cond(i % 2 == 0, lambda x: hvd.allreduce(x), lambda x: x, doubled + more - 2 * x)
        return x, more[0]

    @jax.jit
    def loop(x: Any) -> Any:
        x, each = jax.lax.scan(step, hvd.allreduce(x, op=hvd.Sum), jnp.arange(6.0))
        return jax.lax.while_loop(lambda x: x[0] < 100, lambda x: hvd.allreduce(x * 2), x), each

    x, each = loop(jnp.ones(width))
    values = [float(hvd.size())]
    for i in range(6):
        values.append(values[-1] + i)
    assert each.tolist() == values[1:]
    last = values[-1]
    while last < 100:
        last *= 2
    assert np.array_equal(np.asarray(x), np.full(width, last, np.float32))


@needs_two
@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="0.4 runs one call after the other")
@pytest.mark.parametrize("width", [4, 70_000])
def test_two_calls_may_come_in_different_orders(width: int) -> None:
    names = ["one", "two"] if hvd.rank() == 0 else ["two", "one"]

    @jax.jit
    def both(x: Any) -> dict[str, Any]:
        return {name: hvd.allreduce(x * len(name), name=f"order.{name}") for name in names}

    found = both(jnp.ones(width))  # a small one is waited for, but only for a moment
    assert all(found[name][0] == 3.0 for name in names)


def test_calls_of_one_function_run_one_after_the_other() -> None:
    evaluate = jax.jit(lambda x: hvd.allreduce(x @ x.T, op=hvd.Sum)[0, 0])
    batches = [jnp.full((64, 64), float(i)) for i in range(20)]
    assert [float(y) for y in [evaluate(x) for x in batches]] == [64.0 * i * i * hvd.size() for i in range(20)]


# --- process sets, joining, errors ---


@needs_two
def test_a_process_set(run: Run) -> None:
    some = hvd.add_process_set([0, 1] if hvd.size() > 2 else [0])
    reduce = run(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=some))
    try:
        if some.included():
            assert equal(reduce(jnp.ones(2)), np.full(2, some.size(), np.float32))
            gathered = run(lambda x: hvd.allgather(x, process_set=some))(jnp.ones(1))
            assert gathered.shape == (some.size(),)
        else:
            with pytest.raises((JaxRuntimeError, ValueError), match="not a member"):
                jax.block_until_ready(reduce(jnp.ones(2)))
        hvd.allreduce(jnp.ones(1), name="all_again")
    finally:
        assert hvd.remove_process_set(some)


def test_who_joins_counts_as_zeros(run: Run) -> None:
    reduce = run(lambda x: hvd.allreduce(x, op=hvd.Sum, name="uneven"))
    for _ in range(1 + hvd.rank()):
        last = jax.block_until_ready(reduce(jnp.ones(2)))
    assert last[0] == hvd.size() - hvd.rank()
    assert hvd.join() == hvd.size() - 1


@needs_two
def test_ranks_that_disagree_are_told_and_go_on(run: Run) -> None:
    reduce = run(lambda x: hvd.allreduce(x, name="bad"))
    with pytest.raises(JaxRuntimeError, match="Mismatched ALLREDUCE tensor shapes"):
        jax.block_until_ready(reduce(jnp.ones(2 + hvd.rank())))
    with pytest.raises(JaxRuntimeError, match="Mismatched data types"):
        jax.block_until_ready(reduce(jnp.ones(2, jnp.float32 if hvd.rank() else jnp.float16)))
    assert reduce(jnp.ones(2)).tolist() == [1.0, 1.0]


@needs_two
def test_a_function_that_ran_before_tells_the_text_too() -> None:
    total = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum if hvd.rank() else hvd.Max, name="op"))
    for _ in range(2):  # the second is JAX's fast path, whose errors are ValueErrors in some versions
        with pytest.raises((JaxRuntimeError, ValueError), match="Mismatched"):
            jax.block_until_ready(total(jnp.ones(2)))


@needs_two
def test_what_eager_calls_raise_is_horovods_too() -> None:
    with pytest.raises(HorovodInternalError, match="Mismatched"):
        hvd.allreduce(jnp.ones(2 + hvd.rank()), name="bad")


@needs_two
def test_rows_that_the_program_was_not_traced_for() -> None:
    gather = jax.jit(lambda x: hvd.allgather(x, name="rows"))  # which one rank alone traces twice
    with pytest.raises(JaxRuntimeError, match="the program was traced for .*argument rows of allgather"):
        jax.block_until_ready(gather(jnp.ones(1 + (hvd.rank() == 0))))
    assert gather(jnp.ones(1)).shape == (hvd.size(),)


def test_wrong_arguments_are_named(run: Run) -> None:
    with pytest.raises((JaxRuntimeError, ValueError), match="root rank"):
        jax.block_until_ready(run(lambda x: hvd.broadcast(x, hvd.size()))(jnp.ones(1)))
    with pytest.raises(TypeError, match="a rank's number"):
        hvd.broadcast(jnp.ones(1), "0")
    with pytest.raises(TypeError, match="list of arrays"):
        hvd.grouped_allgather(jnp.ones(1))
    with pytest.raises(TypeError, match="uint32 can be gathered and broadcast, but not reduced"):
        run(hvd.allreduce)(jnp.ones(1, jnp.uint32))
    with pytest.raises(TypeError, match="int4 are not supported"):
        run(lambda x: hvd.broadcast(x.astype(jnp.int4), 0))(jnp.ones(2))
    with pytest.raises((JaxRuntimeError, ValueError), match="splits"):
        splits = [1] * (hvd.size() + 1)
        jax.block_until_ready(run(lambda x: hvd.alltoall(x, splits, received_splits=splits)[0])(jnp.ones(2)))
