"""Allreduces without end. Every rank tells that it is under way, and the error that ends it."""

import os
import signal
import sys

import numpy as np
from checks import hvd, tell
from horovod.common.exceptions import HorovodInternalError

# The launcher's polite request must not keep a rank from telling what it saw.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
victim = int(sys.argv[1]) if len(sys.argv) > 1 else -1
hvd.init()
data = np.ones(1 << 20, np.float32)
try:
    for step in range(1 << 30):
        hvd.allreduce(data, name=f"step.{step % 4}")
        if step == 5:
            tell(f"under way {hvd.rank()}")
            if hvd.rank() == victim:
                os.kill(os.getpid(), signal.SIGKILL)
except HorovodInternalError as error:
    tell(f"error {hvd.rank()}: {error}".replace("\n", " "))
