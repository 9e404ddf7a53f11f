"""Every collective on the world and on sets that span hosts, checked; small and large, of several dtypes, fused."""

import os

import horovod.torch as hvd
import torch
from checks import require, tell

SIZES = (1, 1000, (8 << 20) // 4)  # elements; the last is 8 MiB of float32
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)


def values(count: int, rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Return small integers that depend on place and rank: sums are exact in every dtype."""
    return ((torch.arange(count) % 5) + rank + 1).to(dtype)


def check_allreduce(count: int, dtype: torch.dtype, ranks: list, process_set: hvd.ProcessSet) -> None:
    """Sum over the ranks of a set."""
    total = hvd.allreduce(values(count, hvd.rank(), dtype), op=hvd.Sum, process_set=process_set)
    expected = sum(values(count, rank, torch.float64) for rank in ranks).to(dtype)
    require(torch.equal(total, expected), f"allreduce of {count} {dtype} over {ranks}")


def check_gathering(count: int, dtype: torch.dtype, ranks: list, process_set: hvd.ProcessSet) -> None:
    """Allgather of different lengths, broadcast from the last, alltoall."""
    place = ranks.index(hvd.rank())
    gathered = hvd.allgather(values(count + place, hvd.rank(), dtype), process_set=process_set)
    expected = torch.cat([values(count + i, rank, dtype) for i, rank in enumerate(ranks)])
    require(torch.equal(gathered, expected), f"allgather of {count} {dtype} over {ranks}")
    sent = hvd.broadcast(values(count, hvd.rank(), dtype), root_rank=ranks[-1], process_set=process_set)
    require(torch.equal(sent, values(count, ranks[-1], dtype)), f"broadcast of {count} {dtype} over {ranks}")
    mine = torch.cat([values(count, hvd.rank() * 4 + i, dtype) for i in range(len(ranks))])
    even = torch.tensor([count] * len(ranks), dtype=torch.int32)
    received, splits = hvd.alltoall(mine, splits=even, process_set=process_set)
    expected = torch.cat([values(count, rank * 4 + place, dtype) for rank in ranks])
    require(torch.equal(received, expected), f"alltoall of {count} {dtype} over {ranks}")
    require(splits.tolist() == [count] * len(ranks), f"splits of alltoall over {ranks}")


def check_reducescatter(count: int) -> None:
    """Sum, of which every rank gets its part."""
    part = hvd.reducescatter(values(count * hvd.size(), hvd.rank(), torch.float32), op=hvd.Sum)
    total = sum(values(count * hvd.size(), rank, torch.float32) for rank in range(hvd.size()))
    require(torch.equal(part, total[hvd.rank() * count : (hvd.rank() + 1) * count]), f"reducescatter of {count}")


def check_many(count: int) -> None:
    """Many tensors in flight at once: they are fused, in whatever order the engine likes."""
    handles = [
        hvd.allreduce_async(values(i * 37 + 1, hvd.rank(), torch.float32), op=hvd.Sum, name=f"many.{i}")
        for i in (range(count) if hvd.rank() % 2 == 0 else reversed(range(count)))
    ]
    for handle in handles:
        total = hvd.synchronize(handle)
        expected = sum(values(total.numel(), rank, torch.float32) for rank in range(hvd.size()))
        require(torch.equal(total, expected), f"one of many, {total.numel()} elements")


def main() -> None:
    """Run all checks."""
    last = int(os.environ.get("HOROVOD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"]) - 1
    spanning = hvd.ProcessSet([0, last])
    middle = hvd.ProcessSet(list(range(1, last)) if last > 2 else [0])
    hvd.init(process_sets=[spanning, middle])
    world = list(range(hvd.size()))
    for count in SIZES:
        for dtype in DTYPES if count < 10000 else (torch.float32, torch.bfloat16):
            check_allreduce(count, dtype, world, hvd.global_process_set)
        check_gathering(count if count < 10000 else count // 8, torch.float32, world, hvd.global_process_set)
        for each in (spanning, middle):
            if each.included():
                check_allreduce(count, torch.float32, each.ranks, each)
                check_gathering(min(count, 100000), torch.int64, each.ranks, each)
    check_reducescatter(1000)
    check_many(100)
    tell(f"fine {hvd.rank()}")
    hvd.shutdown()


main()
