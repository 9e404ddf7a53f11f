"""Sums over all ranks, short and long, of a job that imports no framework."""

import numpy as np
from checks import hvd, require, tell

hvd.init()
expected = hvd.size() * (hvd.size() + 1) / 2
for count in (1, 1 << 20):
    total = hvd.allreduce(np.full(count, hvd.rank() + 1, np.float32))
    require(bool((total == expected).all()), f"a sum of {count}")
tell(f"fine {hvd.rank()}")
hvd.shutdown()
