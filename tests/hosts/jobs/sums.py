"""Sums over all ranks, short and long, of a job that imports no framework."""

import sys
from pathlib import Path

import numpy as np
from checks import require, tell

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "binding"))
import arrays as hvd  # noqa: E402

hvd.init()
expected = hvd.size() * (hvd.size() + 1) / 2
for count in (1, 1 << 20):
    total = hvd.synchronize(hvd.allreduce_async(np.full(count, hvd.rank() + 1, np.float32)))
    require(bool((total == expected).all()), f"a sum of {count}")
tell(f"fine {hvd.rank()}")
hvd.shutdown()
