"""Collectives of horovod.torch on tensors of the card, of all kinds and forms; run by tests/gpu/run.sh in every rank.

Results are compared with what they must be, exactly. Without CUDA in this PyTorch the same runs on the CPU, to check
this file and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import horovod.torch as hvd
import torch
from torch import nn

REDUCED = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64,
]  # fmt: skip
MOVED = [*REDUCED, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]
on_gpu = torch.cuda.is_available()
device = torch.device("cuda" if on_gpu else "cpu")


def values(rank: int, dtype: torch.dtype, rows: int = 3) -> torch.Tensor:
    """Return a rank's tensor of some rows, of numbers that every dtype has."""
    return ((torch.arange(rows * 4, device=device).reshape(rows, 4) + rank) % 3).to(torch.float32).to(dtype)


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Raise AssertionError where tensors differ in anything."""
    assert (found.dtype, found.shape, found.device.type) == (expected.dtype, expected.shape, device.type)
    assert torch.equal(found.to(torch.float64), expected.to(torch.float64)), f"{found} is not {expected}"


def check_dtypes() -> None:
    """Reduce, gather and move every dtype."""
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCED:
        total = sum(values(r, torch.float64) for r in range(size)).to(dtype)
        same(hvd.allreduce(values(rank, dtype), op=hvd.Sum), total)
        for found in hvd.grouped_allreduce([values(rank, dtype)] * 3, op=hvd.Sum):
            same(found, total)
        whole = sum(values(r, torch.float64, 2 * size) for r in range(size)).to(dtype)
        same(hvd.reducescatter(values(rank, dtype, 2 * size), op=hvd.Sum), whole[2 * rank : 2 * rank + 2])
    for dtype in MOVED:
        same(hvd.allgather(values(rank, dtype, rank + 1)), torch.cat([values(r, dtype, r + 1) for r in range(size)]))
        same(hvd.broadcast(values(rank, dtype), size - 1), values(size - 1, dtype))
        same(
            hvd.alltoall(values(rank, dtype, size)),
            torch.cat([values(r, dtype, size)[rank : rank + 1] for r in range(size)]),
        )
    truth = torch.tensor([rank == 0, False, True], device=device)
    same(hvd.allreduce(truth, op=hvd.Max), torch.tensor([True, False, True], device=device))


def check_shapes() -> None:
    """Work on no elements, on one, on views, and refuse what has gaps."""
    rank, size = hvd.rank(), hvd.size()
    same(hvd.allreduce(torch.empty(0, 5, device=device)), torch.empty(0, 5, device=device))
    same(hvd.allgather(torch.empty(0, 5, device=device)), torch.empty(0, 5, device=device))
    same(hvd.allgather(torch.full((rank, 2), 1.0, device=device)), torch.ones(size * (size - 1) // 2, 2, device=device))
    same(hvd.allreduce(torch.tensor(float(rank), device=device), op=hvd.Max), torch.tensor(size - 1.0, device=device))
    odd = torch.arange(9.0, device=device)[1:8]  # which begins at no multiple of 16 bytes
    same(hvd.allreduce(odd, op=hvd.Sum), torch.arange(9.0, device=device)[1:8] * size)
    gaps = torch.ones(4, 6, device=device)[:, ::2]
    text = ""
    try:
        hvd.allreduce(gaps)
    except ValueError as error:
        text = str(error)
    assert "contiguous" in text
    same(hvd.allreduce(gaps.contiguous()), torch.ones(4, 3, device=device))


def check_forms() -> None:
    """Reduce sparse tensors, inside process sets, on a stream of the program's, and from memory that is used again."""
    rank, size = hvd.rank(), hvd.size()
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,), device=device, check_invariants=True)
    wait = hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Sum)
    same(wait().to_dense(), torch.tensor([1.0] * size + [2.0 * size], device=device))
    for each, alone in enumerate([hvd.add_process_set([r]) for r in range(size) if size > 1]):
        if each == rank:
            same(hvd.allreduce(values(rank, torch.float32), op=hvd.Sum, process_set=alone), values(rank, torch.float32))
    if not on_gpu:
        return
    expected = torch.full((1 << 20,), float(size), device=device)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            same(hvd.allreduce(torch.zeros(1 << 20, device=device) + 1, op=hvd.Sum), expected)


def check_compiled() -> None:
    """Train a model that torch.compile has made, beside one that it has not."""

    def train(compile_it: Callable[[nn.Module], Any]) -> list[torch.Tensor]:
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(network.parameters(), lr=0.1), named_parameters=network.named_parameters()
        )
        run = compile_it(network)
        data = torch.full((8, 16), float(hvd.rank() + 1), device=device)
        for _ in range(10):
            optimizer.zero_grad()
            run(data).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in network.parameters()]

    for plain, compiled in zip(train(lambda network: network), train(torch.compile)):
        assert torch.allclose(plain, compiled, rtol=1e-3, atol=1e-4), f"{plain} is not {compiled}"
        same(hvd.broadcast(compiled, 0), compiled)


def main() -> int:
    """Run all checks; each says its end."""
    torch.backends.cuda.matmul.allow_tf32 = False
    hvd.init(process_sets="dynamic")
    if on_gpu:
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    checks = [check_dtypes, check_shapes, check_forms]
    if "--compile" in sys.argv:
        checks.append(check_compiled)
    for check in checks:
        check()
        if hvd.rank() == 0:
            print(f"tensors.{check.__name__.removeprefix('check_')}: as they must be", flush=True)
    hvd.barrier()  # a rank that ends here ends what others have under way
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
