from __future__ import annotations

from collections.abc import Callable

import horovod.torch as hvd
import pytest
import torch
from horovod.runner.common.util.env import get_env_rank_and_size

needs_two = pytest.mark.skipif(get_env_rank_and_size()[1] == 1, reason="needs two ranks")


def odd_one(usual: object, other: object) -> object:
    return other if hvd.rank() == hvd.size() - 1 else usual


MISMATCHES: dict[str, tuple[Callable[[str], object], str]] = {
    "dtype": (
        lambda name: hvd.allreduce(torch.ones(3, dtype=odd_one(torch.float32, torch.float64)), name=name),
        "Mismatched data types",
    ),
    "shape": (
        lambda name: hvd.allreduce(torch.ones(odd_one(3, 4)), name=name),
        "Mismatched ALLREDUCE tensor shapes",
    ),
    "dimensions": (
        lambda name: hvd.allreduce(torch.ones(odd_one((2, 2), (4,))), name=name),
        "Mismatched ALLREDUCE tensor shapes",
    ),
    "operation": (
        lambda name: hvd.allreduce(torch.ones(3), op=odd_one(hvd.Sum, hvd.Max), name=name),
        "Mismatched reduction operation",
    ),
    "factors": (
        lambda name: hvd.allreduce(torch.ones(3), op=hvd.Sum, prescale_factor=odd_one(1.0, 2.0), name=name),
        "Mismatched prescale and/or postscale factors",
    ),
    "root": (
        lambda name: hvd.broadcast(torch.ones(3), odd_one(0, 1), name=name),
        "Mismatched BROADCAST root ranks",
    ),
    "broadcast shape": (
        lambda name: hvd.broadcast(torch.ones(odd_one(3, 2)), 0, name=name),
        "Mismatched BROADCAST tensor shapes",
    ),
    "gather dimensions": (
        lambda name: hvd.allgather(torch.ones(odd_one((2, 2), (2,))), name=name),
        "Mismatched ALLGATHER tensor shapes",
    ),
    "gather width": (
        lambda name: hvd.allgather(torch.ones(2, odd_one(2, 3)), name=name),
        "Mismatched ALLGATHER tensor shapes",
    ),
    "gather of scalars": (lambda name: hvd.allgather(torch.tensor(1.0), name=name), "tried to ALLGATHER a rank-zero"),
    "sum or average": (
        lambda name: hvd.reducescatter(torch.ones(4), op=odd_one(hvd.Sum, hvd.Average), name=name),
        "Mismatched prescale and/or postscale factors",
    ),
    "scatter shape": (
        lambda name: hvd.reducescatter(torch.ones(odd_one(4, 5)), name=name),
        "Mismatched REDUCESCATTER tensor shapes",
    ),
}


@needs_two
@pytest.mark.parametrize("kind", MISMATCHES)
def test_a_mismatch_is_an_error_everywhere_and_the_job_goes_on(kind: str) -> None:
    call, text = MISMATCHES[kind]
    name = f"mismatch.{kind}"
    with pytest.raises(hvd.HorovodInternalError) as caught:
        call(name)
    if kind != "gather of scalars":  # the contract's text names its operation in more than one way
        assert text in str(caught.value)
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum, name=name).tolist() == [hvd.size()] * 2


def test_a_name_in_flight_is_refused_and_the_first_one_completes() -> None:
    if hvd.size() == 1:
        pytest.skip("a lone rank has nobody to wait for")
    if hvd.rank() == 0:
        first = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="twice")
        with pytest.raises(
            ValueError, match="Requested to allreduce, allgather, or broadcast a tensor with the same name"
        ):
            hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="twice")
        hvd.barrier()
    else:
        hvd.barrier()  # only now: rank 0's stays in flight until then
        first = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="twice")
    assert hvd.synchronize(first).tolist() == [hvd.size()] * 3
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum, name="twice").tolist() == [hvd.size()] * 3


def test_unknown_handles() -> None:
    assert hvd.synchronize(10**9) is None
    with pytest.raises(ValueError, match="was not created or has been cleared"):
        hvd.poll(10**9)


@pytest.mark.parametrize("kind", ["meta", "nested", "sparse", "csr"])
def test_tensors_that_have_no_memory_to_work_on(kind: str) -> None:
    tensor = {
        "meta": lambda: torch.ones(3, device="meta"),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "sparse": lambda: torch.ones(3).to_sparse(),
        "csr": lambda: torch.ones(3, 3).to_sparse_csr(),
    }[kind]()
    with pytest.raises(ValueError, match="Tensor type .* is not supported."):
        hvd.allreduce(tensor)


def test_factors_that_are_no_numbers_agree_with_themselves() -> None:
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum, prescale_factor=float("nan")).isnan().all()


def test_tensors_of_a_group_share_a_device_and_there_is_one() -> None:
    with pytest.raises(ValueError):
        hvd.grouped_allreduce([])


NO_TENSORS: dict[str, Callable[[], object]] = {
    "allreduce": lambda: hvd.allreduce([1, 2]),
    "allreduce_": lambda: hvd.allreduce_([1, 2]),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([torch.ones(1), [1, 2]]),
    "allgather": lambda: hvd.allgather([1, 2]),
    "broadcast": lambda: hvd.broadcast([1, 2], 0),
    "alltoall": lambda: hvd.alltoall([1, 2]),
    "reducescatter": lambda: hvd.reducescatter([1, 2]),
}


@pytest.mark.parametrize("call", NO_TENSORS.values(), ids=NO_TENSORS)
def test_what_is_no_tensor_is_told_as_it_was_given(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"Expected a torch.Tensor, got list: \[1, 2\]"):
        call()


def test_a_reduction_that_is_none_is_told_with_those_that_are() -> None:
    with pytest.raises(TypeError, match="op is one of hvd.Average, Sum, .*, not 'sum'"):
        hvd.allreduce(torch.ones(1), op="sum")


def test_a_model_is_no_optimizer() -> None:
    with pytest.raises(TypeError, match=r"wraps a torch.optim.Optimizer, and got Linear"):
        hvd.DistributedOptimizer(torch.nn.Linear(1, 1))


def test_other_wrong_arguments_are_told_as_they_were_given() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match="op is one of hvd.Average, Sum, .*, not 'sum'"):
        hvd.DistributedOptimizer(optimizer, op="sum")
    compressors = "compression is hvd.Compression.none, hvd.Compression.fp16, .*, not 'fp16'"
    with pytest.raises(TypeError, match=compressors):
        hvd.DistributedOptimizer(optimizer, compression="fp16")
    with pytest.raises(TypeError, match=compressors):
        hvd.allreduce(torch.ones(1), compression="fp16")
    for rooted in (hvd.broadcast, hvd.broadcast_async_, hvd.reduce):
        with pytest.raises(TypeError, match="root_rank is a rank's number, not '0'"):
            rooted(torch.ones(1), "0")
    with pytest.raises(TypeError, match=r"process_set is an hvd.ProcessSet, not \[0\]"):
        hvd.allreduce(torch.ones(1), process_set=[0])
    with pytest.raises(TypeError, match=r"takes a torch.optim.Optimizer, and got Linear"):
        hvd.broadcast_optimizer_state(model, 0)
    with pytest.raises(ValueError, match=r"invalid params of type: .*give model.state_dict\(\)"):
        hvd.broadcast_parameters(model, 0)


def test_names_are_where_horovod_has_them() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    assert optimizer._parameter_names == {model.weight: "weight", model.bias: "bias"}
    assert set(optimizer._allreduce_delay.values()) == {1}
    assert optimizer._requires_update == {model.weight, model.bias}
    assert (optimizer.op, optimizer.gradient_predivide_factor, optimizer.sparse_as_dense) == (hvd.Average, 1.0, False)
    assert optimizer.process_set is hvd.global_process_set
    assert optimizer._compression is hvd.Compression.none
    assert optimizer._should_synchronize
    with optimizer.skip_synchronize():
        assert not optimizer._should_synchronize
    assert not optimizer._handles
    model(torch.ones(1, 2)).sum().backward()
    assert set(optimizer._handles) == ({model.weight, model.bias} if hvd.size() > 1 else set())
    optimizer.synchronize()
    assert not optimizer._handles
    assert optimizer._synchronized
    optimizer.set_backward_passes_per_step(3)
    assert optimizer.backward_passes_per_step == 3
    assert set(optimizer._allreduce_delay.values()) == {3}
