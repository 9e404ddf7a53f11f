"""The ops, eager, in ``tf.function`` and in sessions."""

from __future__ import annotations

from collections.abc import Callable

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

Run = Callable[[Callable], Callable]

REDUCIBLE = [tf.uint8, tf.int8, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64]
MOVABLE = [*REDUCIBLE, tf.uint16, tf.int16, tf.bool]


def rows_of(rank: int, dtype: tf.DType, rows: int, width: int = 3) -> tf.Tensor:
    """Return rows that tell which rank they are from."""
    return tf.cast(tf.reshape(tf.range(rows * width), (rows, width)) + rank, dtype)


def equal(found: tf.Tensor, expected: tf.Tensor) -> bool:
    """Compare values, shapes and dtypes."""
    expected = tf.convert_to_tensor(expected)
    return found.dtype == expected.dtype and np.array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=lambda dtype: dtype.name)
def test_allreduce_sums_every_dtype(run: Run, dtype: tf.DType) -> None:
    expected = tf.add_n([tf.cast(rows_of(r, tf.int32, 2), tf.int64) for r in range(hvd.size())])
    found = run(lambda x: hvd.allreduce(x, op=hvd.Sum))(rows_of(hvd.rank(), dtype, 2))
    assert equal(found, tf.cast(expected, dtype))


def test_allreduce_averages_unless_told(run: Run) -> None:
    x = tf.fill([4], float(hvd.rank()))
    assert equal(run(hvd.allreduce)(x), tf.fill([4], (hvd.size() - 1) / 2))
    with pytest.warns(DeprecationWarning):
        assert equal(hvd.allreduce(x, average=False), tf.fill([4], float(sum(range(hvd.size())))))
    with pytest.raises(ValueError, match="supersedes average"):
        hvd.allreduce(x, average=True, op=hvd.Sum)


@pytest.mark.parametrize(
    ("op", "expected"),
    [(hvd.Min, lambda n: 1), (hvd.Max, lambda n: n), (hvd.Product, lambda n: np.prod(range(1, n + 1)))],
)
def test_other_reductions(run: Run, op: int, expected: Callable[[int], int]) -> None:
    found = run(lambda x: hvd.allreduce(x, op=op))(tf.constant([float(hvd.rank() + 1)]))
    assert equal(found, tf.constant([float(expected(hvd.size()))]))


def test_reduce_gives_the_root_alone_the_result(run: Run) -> None:
    root = hvd.size() - 1
    mine = rows_of(hvd.rank(), tf.float32, 2)
    total = tf.add_n([rows_of(r, tf.float32, 2) for r in range(hvd.size())])
    reduced, kept = run(lambda x: (hvd.reduce(x, root, op=hvd.Sum), tf.identity(x)))(mine)
    assert equal(reduced, total if hvd.rank() == root else mine)
    assert equal(kept, mine)


def test_factors_apply_before_and_after() -> None:
    found = hvd.allreduce(tf.ones([3]), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    assert equal(found, tf.fill([3], 1.5 * hvd.size()))


def test_a_variable_and_numbers_are_taken_too() -> None:
    assert equal(hvd.allreduce(tf.Variable([2.0]), op=hvd.Sum), tf.constant([2.0 * hvd.size()]))
    assert equal(hvd.allreduce(3.0, op=hvd.Sum), tf.constant(3.0 * hvd.size()))


def test_a_group_may_have_several_dtypes(run: Run) -> None:
    tensors = [tf.ones([2]), tf.ones([3], tf.float64), tf.ones([1], tf.int32)]
    found = run(lambda *given: hvd.grouped_allreduce(list(given), op=hvd.Sum))(*tensors)
    assert all(equal(result, tensor * hvd.size()) for result, tensor in zip(found, tensors))
    assert hvd.grouped_allreduce([]) == []


def test_what_is_needed_later_is_not_overwritten() -> None:
    @tf.function
    def used_twice(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        once, twice = x + 1, x + 2
        total = hvd.grouped_allreduce([once, twice, twice], op=hvd.Sum)
        with tf.control_dependencies(total):
            return (*total, hvd.broadcast(x + 3, root_rank=0), twice * 1)

    rank, ranks = hvd.rank(), range(hvd.size())
    once, twice, again, broadcast, kept = (float(t[0]) for t in used_twice(tf.fill([1 << 16], float(rank))))
    assert (once, twice, again) == (sum(r + 1 for r in ranks), *[sum(r + 2 for r in ranks)] * 2)
    assert (broadcast, kept) == (3, rank + 2)


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
def test_compression_keeps_the_dtype(compression: type) -> None:
    found = hvd.allreduce(tf.ones([8]), op=hvd.Sum, compression=compression)
    assert equal(found, tf.fill([8], float(hvd.size())))
    assert hvd.allreduce(tf.ones([8], tf.int32), op=hvd.Sum, compression=compression).dtype == tf.int32


@pytest.mark.parametrize("dtype", MOVABLE, ids=lambda dtype: dtype.name)
def test_allgather_of_uneven_rows(run: Run, dtype: tf.DType) -> None:
    parts = [rows_of(r, dtype, 2 * r + 1) for r in range(hvd.size())]
    assert equal(run(hvd.allgather)(parts[hvd.rank()]), tf.concat(parts, 0))


def test_allgather_where_some_have_nothing_and_in_a_group() -> None:
    parts = [rows_of(r, tf.float32, r % 2) for r in range(hvd.size())]
    others = [rows_of(r, tf.int64, 1 + r) for r in range(hvd.size())]
    first, second = hvd.grouped_allgather([parts[hvd.rank()], others[hvd.rank()]])
    assert equal(first, tf.concat(parts, 0))
    assert equal(second, tf.concat(others, 0))


@pytest.mark.parametrize("dtype", MOVABLE, ids=lambda dtype: dtype.name)
def test_broadcast(run: Run, dtype: tf.DType) -> None:
    root = hvd.size() - 1
    found = run(lambda x: hvd.broadcast(x, root))(rows_of(hvd.rank(), dtype, 4))
    assert equal(found, rows_of(root, dtype, 4))


def test_broadcast_into_variables() -> None:
    variables = [tf.Variable([float(hvd.rank()), 1.0]), tf.Variable(hvd.rank() + 5)]
    hvd.broadcast_(variables, 0)
    assert [variable.numpy().tolist() for variable in variables] == [[0.0, 1.0], 5]


def test_alltoall(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    x = tf.concat([tf.fill([r + 1], 10 * rank + r) for r in range(size)], 0)
    found, received = run(hvd.alltoall)(x, splits=list(range(1, size + 1)))
    assert equal(found, tf.concat([tf.fill([rank + 1], 10 * r + rank) for r in range(size)], 0))
    assert equal(received, tf.fill([size], rank + 1))
    assert equal(hvd.alltoall(tf.fill([size, 2], rank)), tf.stack([tf.fill([2], r) for r in range(size)]))


def test_reducescatter(run: Run) -> None:
    size, rank = hvd.size(), hvd.rank()
    x = rows_of(rank, tf.float32, 2 * size)
    total = tf.add_n([rows_of(r, tf.float32, 2 * size) for r in range(size)])
    assert equal(run(lambda t: hvd.reducescatter(t, op=hvd.Sum))(x), total[2 * rank : 2 * rank + 2])
    average, _ = hvd.grouped_reducescatter([x, x])
    assert np.allclose(average, total[2 * rank : 2 * rank + 2] / size)
    with pytest.raises(NotImplementedError):
        hvd.reducescatter(x, op=hvd.Min)


def test_slices_are_gathered() -> None:
    size, rank = hvd.size(), hvd.rank()
    slices = tf.IndexedSlices(tf.fill([2, 3], float(rank)), tf.constant([rank, 7]), tf.constant([9, 3]))
    found = hvd.allreduce(slices)
    assert equal(found.values, tf.concat([tf.fill([2, 3], r / size) for r in range(size)], 0))
    assert found.indices.numpy().tolist() == [index for r in range(size) for index in (r, 7)]
    assert found.dense_shape.numpy().tolist() == [9, 3]
    dense, sparse = hvd.grouped_allreduce([tf.ones([2]), slices], op=hvd.Sum)
    assert equal(dense, tf.fill([2], float(size)))
    assert sparse.values.shape == (2 * size, 3)
    with pytest.raises(NotImplementedError):
        hvd.allreduce(slices, op=hvd.Max)
    with pytest.raises(NotImplementedError):
        hvd.allreduce(slices, prescale_factor=2.0)


# --- graphs ---


def test_shapes_are_known_while_tracing() -> None:
    shapes = {}

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def trace(x: tf.Tensor) -> tf.Tensor:
        shapes["gathered"] = hvd.allgather(x).shape.as_list()
        shapes["reduced"] = hvd.allreduce(x).shape.as_list()
        shapes["rows"] = hvd.allgather(x[:, 0]).shape.as_list()
        return x

    trace.get_concrete_function()
    assert shapes == {"gathered": [None, 3], "reduced": [None, 3], "rows": [None]}


def test_ranks_may_trace_in_different_orders() -> None:
    names = [f"order.{i}" for i in range(40)]
    mine = names if hvd.rank() == 0 else names[::-1]

    @tf.function
    def reduce_all(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: hvd.allreduce(x + float(name[6:]), name=name.replace(".", "_"), op=hvd.Sum) for name in mine}

    found = reduce_all(tf.constant(1.0))
    assert all(found[name].numpy() == hvd.size() * (1.0 + int(name[6:])) for name in names)


def test_a_session() -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None])
        total = hvd.allreduce(x, op=hvd.Sum)
        numbers = [hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()]
        included = hvd.process_set_included_op()
        with tf.compat.v1.Session() as session:
            found = session.run(total, {x: [1.0, float(hvd.rank())]})
            assert found.tolist() == [hvd.size(), sum(range(hvd.size()))]
            expected = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]
            assert session.run(numbers) == expected
            assert session.run(included) == 1
        assert total.op.name == "HorovodAllreduce_Placeholder_0"


def test_in_a_data_set() -> None:
    data = tf.data.Dataset.range(4).map(lambda x: hvd.allreduce(x, op=hvd.Sum, name="in_data"))
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False  # several elements at a time would share a name
    data = data.with_options(options)
    assert [int(x) for x in data] == [x * hvd.size() for x in range(4)]


# --- process sets, joining, errors ---


def test_a_set_that_is_not_registered() -> None:
    unknown = hvd.ProcessSet([0])
    unknown.process_set_id = 99
    rows = tf.ones([hvd.size()])
    for call in (
        lambda: hvd.allreduce(rows, process_set=unknown),
        lambda: hvd.grouped_allreduce([rows], process_set=unknown),
        lambda: hvd.allgather(rows, process_set=unknown),
        lambda: hvd.broadcast(rows, 0, process_set=unknown),
        lambda: hvd.alltoall(rows, process_set=unknown),
        lambda: hvd.reducescatter(rows, process_set=unknown),
    ):
        for function in (call, tf.function(call)):
            with pytest.raises(ValueError, match="does not exist, or has not been registered"):
                function()


def test_a_process_set() -> None:
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    some = hvd.add_process_set([0, 1] if hvd.size() > 2 else [0])
    try:
        if some.included():
            assert equal(hvd.allreduce(tf.ones([2]), op=hvd.Sum, process_set=some), tf.fill([2], float(some.size())))
            assert hvd.size_op(some.process_set_id).numpy() == some.size()
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not a member"):
                hvd.allreduce(tf.ones([2]), process_set=some)
        assert hvd.process_set_included_op(some.process_set_id).numpy() == int(some.included())
        hvd.allreduce(tf.ones([1]), name="all_again")
    finally:
        assert hvd.remove_process_set(some)


def test_who_joins_counts_as_zeros() -> None:
    for _ in range(1 + hvd.rank()):
        last = hvd.allreduce(tf.ones([2]), op=hvd.Sum, name="uneven")
    assert last.numpy()[0] == hvd.size() - hvd.rank()
    assert hvd.join().numpy() == hvd.size() - 1


def test_ranks_that_disagree_are_told_and_go_on() -> None:
    if hvd.size() == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(tf.errors.FailedPreconditionError, match="Mismatched ALLREDUCE tensor shapes"):
        hvd.allreduce(tf.ones([2 + hvd.rank()]), name="bad_shape")
    with pytest.raises(tf.errors.FailedPreconditionError, match="Mismatched data types"):
        hvd.allreduce(tf.cast(tf.ones([2]), tf.float32 if hvd.rank() else tf.float64), name="bad_dtype")
    assert hvd.allreduce(tf.ones([2]), op=hvd.Sum).numpy()[0] == hvd.size()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="root rank"):
        hvd.broadcast(tf.ones([1]), hvd.size())
    with pytest.raises(TypeError, match="a rank's number"):
        hvd.broadcast(tf.ones([1]), "0")
    with pytest.raises(TypeError, match="list of tensors"):
        hvd.grouped_allgather(tf.ones([1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="splits"):
        hvd.alltoall(tf.ones([2]), splits=[1] * (hvd.size() + 1))


def test_a_function_for_xla_is_told_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="call the collective outside of them"):
        tf.function(hvd.allreduce, jit_compile=True)(tf.ones([2]))

    @tf.function(jit_compile=True)
    def doubled(x: tf.Tensor) -> tf.Tensor:
        return 2 * x

    around = tf.function(lambda x: doubled(hvd.allreduce(doubled(x), op=hvd.Sum)))
    assert around(tf.ones([2])).numpy().tolist() == [4.0 * hvd.size()] * 2
