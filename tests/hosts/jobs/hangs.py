"""The last rank stays away from what the others wait for."""

import os
import time

import horovod.torch as hvd
import torch
from checks import tell

hvd.init()
hvd.allreduce(torch.ones(1), name="before")
tell(f"process {os.getpid()} of rank {hvd.rank()}")
if hvd.rank() == hvd.size() - 1:
    time.sleep(100)
hvd.allreduce(torch.ones(1), name="hangs")
