"""A program may end with operations that MXNet has yet to begin."""

from __future__ import annotations

import os
import subprocess
import sys

import horovod.mxnet as hvd
import pytest

PROGRAM = """
import horovod.mxnet as hvd, mxnet as mx
hvd.init()
arrays = [mx.nd.ones(2) for _ in range(300)]
for i, array in enumerate(arrays):
    hvd.allreduce_(array, name=str(i))
"""


@pytest.mark.parametrize("end", ["", "hvd.shutdown()"])
def test_the_last_steps_are_done(end: str) -> None:
    if hvd.rank() > 0:
        pytest.skip("rank 0 runs a job of its own")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "_RODA_"))}
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", "2"]
    done = subprocess.run(
        [*launcher, sys.executable, "-c", PROGRAM + end],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
