"""The last rank stays away from what the others wait for."""

import os
import time

import numpy as np
from checks import hvd, tell

hvd.init()
hvd.allreduce(np.ones(1), name="before")
tell(f"process {os.getpid()} of rank {hvd.rank()}")
if hvd.rank() == hvd.size() - 1:
    time.sleep(100)
hvd.allreduce(np.ones(1), name="hangs")
