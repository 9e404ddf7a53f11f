"""Collectives on MXNet's arrays."""

from __future__ import annotations

from typing import Any

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
import pytest
from horovod.common.exceptions import HorovodInternalError

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
SCATTERED = ("float32", "int64")


def ranks() -> range:
    return range(hvd.size())


@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce_of_every_dtype(dtype: str) -> None:
    own = mx.nd.full((3, 2), hvd.rank() + 1, dtype=dtype)
    total = sum(rank + 1 for rank in ranks())
    summed = hvd.allreduce(own, op=hvd.Sum)
    assert (summed.dtype, summed.shape) == (np.dtype(dtype), (3, 2))
    assert (summed.asnumpy() == total).all()
    assert (own.asnumpy() == hvd.rank() + 1).all()
    assert hvd.allreduce_(own, op=hvd.Sum) is own
    assert (own.asnumpy() == total).all()


def test_reductions_and_factors() -> None:
    own = mx.nd.array([hvd.rank() + 1.0, -hvd.rank()])
    largest, smallest = hvd.allreduce(own, op=hvd.Max), hvd.allreduce(own, op=hvd.Min)
    assert largest.asnumpy().tolist() == [hvd.size(), 0.0]
    assert smallest.asnumpy().tolist() == [1.0, 1.0 - hvd.size()]
    assert np.allclose(hvd.allreduce(own).asnumpy(), [(hvd.size() + 1) / 2, (1 - hvd.size()) / 2])
    assert np.allclose(hvd.allreduce(own, average=False, prescale_factor=2.0, postscale_factor=0.5).asnumpy()[0],
                       hvd.size() * (hvd.size() + 1) / 2)  # fmt: skip
    assert hvd.allreduce(mx.nd.array([hvd.rank() + 2.0]), op=hvd.Product).asscalar() == np.prod(
        [r + 2 for r in ranks()]
    )
    with pytest.raises(AssertionError, match="Adasum"):
        hvd.allreduce(own, op=hvd.Adasum)


def test_reduce_gives_the_root_alone_the_result() -> None:
    root, own = hvd.size() - 1, mx.nd.full((3, 2), hvd.rank() + 1)
    reduced = hvd.reduce(own, root, op=hvd.Sum).asnumpy()
    assert (reduced == (sum(rank + 1 for rank in ranks()) if hvd.rank() == root else hvd.rank() + 1)).all()
    assert (own.asnumpy() == hvd.rank() + 1).all()


def test_ranks_may_push_in_different_orders() -> None:
    order = list(range(20))
    pushed = {}
    for number in order if hvd.rank() % 2 == 0 else reversed(order):
        pushed[number] = hvd.allreduce_(mx.nd.full((5,), number), op=hvd.Sum, name=f"order.{number}", priority=-number)
    assert all((pushed[number].asnumpy() == number * hvd.size()).all() for number in order)


def test_an_operation_waits_for_what_its_input_is_computed_from() -> None:
    value = mx.nd.full((200, 200), 1.0 / 200)
    for _ in range(10):
        value = mx.nd.dot(value, mx.nd.ones((200, 200)))
    summed = hvd.allreduce(value, op=hvd.Sum)
    del value  # the operation holds what it needs
    assert np.allclose((summed * 2).asnumpy(), 2 * hvd.size() * 200.0**9, rtol=1e-4)


def test_groups() -> None:
    arrays = [mx.nd.full((i + 1,), hvd.rank() + i) for i in range(5)]
    expected = [sum(rank + i for rank in ranks()) for i in range(5)]
    results = hvd.grouped_allreduce(arrays, op=hvd.Sum)
    assert [r.asnumpy().tolist() for r in results] == [[float(e)] * (i + 1) for i, e in enumerate(expected)]
    assert hvd.grouped_allreduce_(arrays, op=hvd.Sum)[0] is arrays[0]
    assert [a.asnumpy()[0] for a in arrays] == expected
    with pytest.raises(ValueError, match="at least one array"):
        hvd.grouped_allreduce([])


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_broadcast_and_allgather(dtype: str) -> None:
    root = hvd.size() - 1
    own = mx.nd.array([hvd.rank() == root, 1, 0]).astype(dtype)
    assert hvd.broadcast(own, root).asnumpy().tolist() == mx.nd.array([1, 1, 0]).astype(dtype).asnumpy().tolist()
    assert own.asnumpy()[0] == (hvd.rank() == root)
    gathered = hvd.allgather(mx.nd.ones((hvd.rank() + 1, 2)).astype(dtype))
    assert (gathered.dtype, gathered.shape) == (np.dtype(dtype), (sum(rank + 1 for rank in ranks()), 2))
    assert gathered.asnumpy().all()
    first, second = hvd.grouped_allgather([own, mx.nd.zeros((2,)).astype(dtype)])
    assert (first.shape, second.shape) == ((3 * hvd.size(),), (2 * hvd.size(),))


@pytest.mark.parametrize(
    "splits",
    [lambda: mx.nd.ones([hvd.size()]), lambda: [1.5] * hvd.size(), lambda: [2] * hvd.size(), lambda: [1] * 99],
    ids=["floats", "fractions", "too many rows", "too many ranks"],
)
def test_wrong_splits_are_an_error_of_mxnets(splits: Any) -> None:
    for error in (mx.base.MXNetError, ValueError):
        with pytest.raises(error, match="split"):
            hvd.alltoall(mx.nd.ones([hvd.size()]), splits())
    with pytest.raises(TypeError, match="NDArray"):
        hvd.alltoall([1.0])
    if hvd.size() > 1:
        with pytest.raises(mx.base.MXNetError, match="alltoall"):
            hvd.alltoall(mx.nd.ones([hvd.size() + 1]))


def test_alltoall() -> None:
    even = hvd.alltoall(mx.nd.array([10 * hvd.rank() + rank for rank in ranks()]))
    assert even.asnumpy().tolist() == [10 * rank + hvd.rank() for rank in ranks()]
    splits = [rank + 1 for rank in ranks()]
    received, counts = hvd.alltoall(mx.nd.full((sum(splits), 2), hvd.rank()), mx.nd.array(splits, dtype="int32"))
    assert counts.asnumpy().tolist() == [hvd.rank() + 1] * hvd.size()
    assert received.asnumpy()[:, 0].tolist() == [rank for rank in ranks() for _ in range(hvd.rank() + 1)]


@pytest.mark.parametrize("dtype", SCATTERED)
def test_reducescatter(dtype: str) -> None:
    rows = 2 * hvd.size() + 1  # the first rank keeps one more
    whole = mx.nd.array(np.arange(rows * 2).reshape(rows, 2), dtype=dtype)
    begin = 2 * hvd.rank() + (hvd.rank() > 0)
    end = begin + 2 + (hvd.rank() == 0)
    assert (hvd.reducescatter(whole, op=hvd.Sum).asnumpy() == whole.asnumpy()[begin:end] * hvd.size()).all()
    pair = hvd.grouped_reducescatter([whole, whole * 2], op=hvd.Sum)
    assert (pair[1].asnumpy() == 2 * pair[0].asnumpy()).all()
    with pytest.raises(ValueError, match="scalar"):
        hvd.reducescatter(mx.np.array(1.0))


def test_process_sets() -> None:
    if hvd.size() == 1:
        pytest.skip("the only set there can be is there")
    first = hvd.add_process_set([0])
    if hvd.rank() == 0:
        assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum, process_set=first).asnumpy().tolist() == [1.0, 1.0]
    assert hvd.remove_process_set(first)


def test_what_a_process_set_was_asked_for_is_done_before_it_is_removed() -> None:
    """Though MXNet begins it later: its input takes time."""
    first = hvd.add_process_set([0])
    if hvd.rank() == 0:
        late = mx.nd.ones((1500, 1500))
        for _ in range(5):
            late = mx.nd.dot(late, late) / 1500
        total = hvd.allreduce(late, op=hvd.Sum, process_set=first)
    assert hvd.remove_process_set(first)
    if hvd.rank() == 0:
        assert total[0, 0].asscalar() == 1.0


def test_errors() -> None:
    if hvd.size() > 1:
        with pytest.raises(mx.base.MXNetError, match="ismatched"):
            hvd.allreduce(mx.nd.ones((hvd.rank() + 1,)), name="bad").asnumpy()
    assert hvd.allreduce(mx.nd.ones((1,)), op=hvd.Sum).asscalar() == hvd.size()  # it goes on
    with pytest.raises(TypeError, match="NDArray"):
        hvd.allreduce([1.0])
    with pytest.raises(ValueError, match="dense"):
        hvd.allreduce(mx.nd.zeros((2, 2)).tostype("csr"))


def test_objects() -> None:
    assert hvd.broadcast_object({"of": hvd.rank()}, root_rank=0) == {"of": 0}
    assert hvd.allgather_object(hvd.rank()) == list(ranks())


def test_before_the_start() -> None:
    hvd.shutdown()
    for function in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises((ValueError, HorovodInternalError), match="has not been initialized"):
            function(mx.nd.ones((2,)))
    hvd.init(process_sets="dynamic")
