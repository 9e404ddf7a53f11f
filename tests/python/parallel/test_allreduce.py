from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import FLOATS, INTEGERS, REDUCIBLE, close, inputs

SHAPES = [(), (1,), (17,), (5, 7), (2, 3, 4), (0,), (3, 0, 2)]


def expected_of(values: list[torch.Tensor], op: int) -> torch.Tensor:
    exact = torch.stack([v.double() for v in values])
    if op == hvd.Min:
        result = exact.amin(0)
    elif op == hvd.Max:
        result = exact.amax(0)
    elif op == hvd.Product:
        result = exact.prod(0)
    else:
        result = exact.sum(0)
    if op == hvd.Average:
        result = result / len(values)
    return result.to(values[0].dtype)  # towards zero for integers


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product])
def test_every_dtype_op_and_shape(dtype: torch.dtype, op: int) -> None:
    for shape in SHAPES:
        values = inputs(shape, dtype, -2, 3)
        mine = values[hvd.rank()].clone()
        expected = expected_of(values, op)
        assert close(hvd.allreduce(mine, op=op), expected)
        assert torch.equal(mine, values[hvd.rank()])
        assert hvd.allreduce_(mine, op=op) is mine
        assert close(mine, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_large(dtype: torch.dtype) -> None:
    values = inputs((300_001,), dtype)
    assert close(hvd.allreduce(values[hvd.rank()], op=hvd.Sum), expected_of(values, hvd.Sum))


def test_average_is_the_default_and_average_flag_is_deprecated() -> None:
    mine = torch.full((3,), float(hvd.rank()))
    mean = (hvd.size() - 1) / 2
    assert torch.allclose(hvd.allreduce(mine), torch.full((3,), mean))
    with pytest.warns(DeprecationWarning):
        assert torch.allclose(hvd.allreduce(mine, average=False), torch.full((3,), mean * hvd.size()))
    with pytest.raises(ValueError, match="The op parameter supersedes average. Please provide only one of them."):
        hvd.allreduce(mine, average=True, op=hvd.Sum)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_prescale_and_postscale(dtype: torch.dtype) -> None:
    values = inputs((33,), dtype)
    result = hvd.allreduce(values[hvd.rank()], op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    expected = (torch.stack([v.double() for v in values]).sum(0) * 1.5).to(dtype)
    assert close(result, expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_average_of_integers_truncates_towards_zero(dtype: torch.dtype) -> None:
    value = 3 if hvd.rank() == 0 else 0
    sign = -1 if dtype.is_signed else 1
    result = hvd.allreduce(torch.full((4,), sign * value, dtype=dtype), op=hvd.Average)
    assert result.tolist() == [sign * (3 // hvd.size())] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str)
def test_fp16_compression_keeps_the_dtype(dtype: torch.dtype) -> None:
    values = inputs((50,), dtype)
    result = hvd.allreduce(values[hvd.rank()], op=hvd.Sum, compression=hvd.Compression.fp16)
    assert result.dtype == dtype
    assert torch.allclose(result.double(), torch.stack([v.double() for v in values]).sum(0), rtol=2e-2, atol=2e-2)


def test_user_compressor() -> None:
    class Halved:
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, float]:
            return tensor / 2, 2.0

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: float) -> torch.Tensor:
            return tensor * ctx

    assert torch.allclose(hvd.allreduce(torch.ones(4), compression=Halved), torch.ones(4))


def test_bool_is_reduced_to_any_or_all() -> None:
    values = inputs((65,), torch.int32, 0, 3)
    mine = values[hvd.rank()] > 0
    stacked = torch.stack([v > 0 for v in values])
    for op, expected in ((hvd.Sum, stacked.any(0)), (hvd.Max, stacked.any(0)), (hvd.Min, stacked.all(0))):
        assert close(hvd.allreduce(mine, op=op), expected)


def test_average_and_factors_of_bool_are_refused_on_all_ranks() -> None:
    mine = torch.ones(4, dtype=torch.bool)
    for number, call in enumerate(
        (
            lambda name: hvd.allreduce(mine, name=name),
            lambda name: hvd.allreduce_(mine, name=name, op=hvd.Average),
            lambda name: hvd.allreduce(mine, name=name, op=hvd.Sum, prescale_factor=0.5),
            lambda name: hvd.allreduce(mine, name=name, op=hvd.Max, postscale_factor=2.0),
            lambda name: hvd.synchronize(hvd.allreduce_async(mine, name=name)),
            lambda name: hvd.grouped_allreduce([mine, mine.clone()], name=name),
            lambda name: hvd.reducescatter(mine, name=name),
        )
    ):
        with pytest.raises(ValueError, match=rf"bool tensor '.*\.truth\.{number}.*'.* Use op=hvd\.Sum"):
            call(f"truth.{number}")
    assert mine.all()
    assert hvd.allreduce(mine, name="truth.0", op=hvd.Sum).all()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_negative_views(requires_grad: bool) -> None:
    rank, size = hvd.rank(), hvd.size()
    memory = torch.arange(5.0) + rank
    total = -(torch.arange(5.0) * size + size * (size - 1) / 2)

    def view() -> torch.Tensor:
        return torch._neg_view(memory.clone()).requires_grad_(requires_grad)

    assert close(hvd.allreduce(view(), op=hvd.Sum).detach(), total)
    assert close(hvd.grouped_allreduce([view()], op=hvd.Sum)[0].detach(), total)
    assert close(hvd.allgather(view()).detach(), torch.cat([-(torch.arange(5.0) + r) for r in range(size)]))
    assert close(hvd.broadcast(view(), 0).detach(), -torch.arange(5.0))
    for call in (
        lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum),
        lambda tensor: hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)),
        lambda tensor: hvd.grouped_allreduce_([tensor], op=hvd.Sum)[0],
    ):
        tensor = view()
        assert call(tensor) is tensor
        assert close(tensor.detach(), total)
    tensor = view()
    hvd.broadcast_(tensor, 0)
    assert close(tensor.detach(), -torch.arange(5.0))


@pytest.mark.parametrize("in_place", [False, True])
def test_grouped(in_place: bool) -> None:
    shapes = [(4,), (2, 3), (), (100, 7)]
    values = [inputs(shape, torch.float32) for shape in shapes]
    mine = [v[hvd.rank()].clone() for v in values]
    call = hvd.grouped_allreduce_ if in_place else hvd.grouped_allreduce
    results = call(mine, op=hvd.Sum, name="group")
    assert isinstance(results, tuple if in_place else list)
    for tensor, result, v in zip(mine, results, values):
        assert close(result, expected_of(v, hvd.Sum))
        assert (result is tensor) == in_place


def test_grouped_of_several_dtypes() -> None:
    values = [inputs((9,), dtype) for dtype in (torch.float32, torch.int64, torch.float16)]
    results = hvd.grouped_allreduce([v[hvd.rank()] for v in values], op=hvd.Max)
    assert all(close(result, expected_of(v, hvd.Max)) for result, v in zip(results, values))


def test_non_contiguous_is_refused() -> None:
    with pytest.raises(ValueError, match="Tensor is required to be contiguous."):
        hvd.allreduce(torch.ones(4, 4).t())


def test_unsupported_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Tensor type .* is not supported."):
        hvd.allreduce(torch.ones(4, dtype=torch.complex64))


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
def test_sparse(op: int) -> None:
    rank, size = hvd.rank(), hvd.size()
    tensor = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (size + 1,))
    result = hvd.synchronize(hvd.sparse_allreduce_async(tensor, "sparse", op)).to_dense()
    expected = torch.tensor([float(size)] + [2.0] * size)
    assert torch.allclose(result, expected / (size if op == hvd.Average else 1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float16, torch.float32, torch.float64])
def test_factors_and_averages_round_once(dtype: torch.dtype) -> None:
    if hvd.size() > 3:
        pytest.skip("sums of more than three are rounded on the way")
    size = hvd.size()
    wide = {torch.float16: torch.float32, torch.int32: torch.float64, torch.int64: torch.float64}.get(dtype, dtype)
    tensor = torch.randint(-100, 100, (17, 17)).to(dtype)
    for factor in torch.rand(5, dtype=torch.float64).tolist():
        exact = torch.tensor(factor, dtype=torch.float64).to(wide)
        before = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=factor)
        assert torch.equal(before, (exact * tensor.to(wide)).to(dtype) * size)
        after = hvd.allreduce(tensor, op=hvd.Sum, postscale_factor=factor)
        assert torch.equal(after, (exact * (tensor * size).to(wide)).to(dtype))
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Average), tensor)
