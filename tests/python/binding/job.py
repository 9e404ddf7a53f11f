"""What the binding to NumPy arrays does, in every rank of a job in which there is no other framework."""

from __future__ import annotations

import sys

sys.modules["torch"] = None  # importing it is an error

import arrays as hvd  # noqa: E402
import numpy as np  # noqa: E402
from horovod.common.basics import Average  # noqa: E402
from horovod.common.process_sets import add_process_set  # noqa: E402

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()

handles = [hvd.allreduce_async(np.full((3, 2), rank + 1.0, dtype)) for dtype in (np.float32, np.int64, np.float16)]
for handle in handles:
    assert np.all(hvd.synchronize(handle) == size * (size + 1) / 2)
    assert hvd.synchronize(handle) is None  # waited for already
transposed = np.arange(6.0).reshape(2, 3).T
assert np.array_equal(hvd.synchronize(hvd.allreduce_async(transposed, "t", Average)), transposed)
assert hvd.broadcast(np.array([rank, 7]), size - 1).tolist() == [size - 1, 7]

gathered = hvd.allgather(np.full((rank + 1, 2), rank % 2 == 0))
assert gathered.dtype == bool
assert gathered[:, 1].tolist() == [r % 2 == 0 for r in range(size) for _ in range(r + 1)]
received, counts = hvd.alltoall(np.full(sum(range(1, size + 1)), rank), list(range(1, size + 1)))
assert counts == [rank + 1] * size
assert received.tolist() == [r for r in range(size) for _ in range(rank + 1)]

if size > 1:
    evens = add_process_set(range(0, size, 2))
    if evens.included():
        assert hvd.synchronize(hvd.allreduce_async(np.ones(4), process_set=evens)).tolist() == [evens.size()] * 4
hvd.barrier()

late = hvd.allreduce_async(np.ones(1), "late")
hvd.barrier()  # nobody shuts down before all have started it
hvd.shutdown()
assert hvd.synchronize(late) is None  # a shutdown drops all handles
print(f"rank {rank} of {size} is done")
