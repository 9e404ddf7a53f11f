"""Every collective on the world and on sets that span hosts, checked; small and large, of several dtypes, fused."""

import os

import numpy as np
from checks import hvd, require, tell

SIZES = (1, 1000, (8 << 20) // 4)  # elements; the last is 8 MiB of float32
DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")


def values(count: int, rank: int, dtype: str = "float32") -> np.ndarray:
    """Return small integers that depend on place and rank: sums are exact in every dtype."""
    return ((np.arange(count) % 5) + rank + 1).astype(dtype)


def check_allreduce(count: int, dtype: str, ranks: list, process_set: hvd.ProcessSet) -> None:
    """Sum over the ranks of a set."""
    total = hvd.allreduce(values(count, hvd.rank(), dtype), process_set=process_set)
    expected = sum(values(count, rank, "int64") for rank in ranks).astype(dtype)
    require(np.array_equal(total, expected), f"allreduce of {count} {dtype} over {ranks}")


def check_gathering(count: int, dtype: str, ranks: list, process_set: hvd.ProcessSet) -> None:
    """Allgather of different lengths, broadcast from the last, alltoall."""
    place = ranks.index(hvd.rank())
    gathered = hvd.allgather(values(count + place, hvd.rank(), dtype), process_set=process_set)
    expected = np.concatenate([values(count + i, rank, dtype) for i, rank in enumerate(ranks)])
    require(np.array_equal(gathered, expected), f"allgather of {count} {dtype} over {ranks}")
    sent = hvd.broadcast(values(count, hvd.rank(), dtype), ranks[-1], process_set=process_set)
    require(np.array_equal(sent, values(count, ranks[-1], dtype)), f"broadcast of {count} {dtype} over {ranks}")
    mine = np.concatenate([values(count, hvd.rank() * 4 + i, dtype) for i in range(len(ranks))])
    received, splits = hvd.alltoall(mine, [count] * len(ranks), process_set=process_set)
    expected = np.concatenate([values(count, rank * 4 + place, dtype) for rank in ranks])
    require(np.array_equal(received, expected), f"alltoall of {count} {dtype} over {ranks}")
    require(list(splits) == [count] * len(ranks), f"splits of alltoall over {ranks}")


def check_reducescatter(count: int) -> None:
    """Sum, of which every rank gets its part."""
    part = hvd.reducescatter(values(count * hvd.size(), hvd.rank()))
    total = sum(values(count * hvd.size(), rank) for rank in range(hvd.size()))
    require(np.array_equal(part, total[hvd.rank() * count : (hvd.rank() + 1) * count]), f"reducescatter of {count}")


def check_many(count: int) -> None:
    """Many tensors in flight at once: they are fused, in whatever order the engine likes."""
    handles = [
        hvd.allreduce_async(values(i * 37 + 1, hvd.rank()), f"many.{i}")
        for i in (range(count) if hvd.rank() % 2 == 0 else reversed(range(count)))
    ]
    for handle in handles:
        total = hvd.synchronize(handle)
        expected = sum(values(total.size, rank) for rank in range(hvd.size()))
        require(np.array_equal(total, expected), f"one of many, {total.size} elements")


def main() -> None:
    """Run all checks."""
    last = int(os.environ.get("HOROVOD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"]) - 1
    spanning = hvd.ProcessSet([0, last])
    middle = hvd.ProcessSet(list(range(1, last)) if last > 2 else [0])
    hvd.init(process_sets=[spanning, middle])
    world = list(range(hvd.size()))
    for count in SIZES:
        for dtype in DTYPES if count < 10000 else ("float32", "float16"):
            check_allreduce(count, dtype, world, hvd.global_process_set)
        check_gathering(count if count < 10000 else count // 8, "float32", world, hvd.global_process_set)
        for each in (spanning, middle):
            if each.included():
                check_allreduce(count, "float32", each.ranks, each)
                check_gathering(min(count, 100000), "int64", each.ranks, each)
    check_reducescatter(1000)
    check_many(100)
    tell(f"fine {hvd.rank()}")
    hvd.shutdown()


main()
