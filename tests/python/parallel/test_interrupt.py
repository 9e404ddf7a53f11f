"""Ctrl-C while a rank waits for others that do not come."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import horovod.torch as hvd
import pytest
import torch

pytestmark = pytest.mark.skipif("int(os.environ.get('HOROVOD_SIZE', '2')) < 2", reason="one rank never waits")


@contextlib.contextmanager
def ctrl_c_again_and_again() -> Iterator[None]:
    """Send SIGINT to this process until a KeyboardInterrupt comes out of the block."""
    came = threading.Event()
    # A shell's background jobs are started with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def send() -> None:
        while not came.wait(0.2):
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        try:
            sender.start()
            yield
        finally:
            came.set()
    sender.join()
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_wait_can_be_taken_up_again() -> None:
    mine = torch.full((5,), float(hvd.rank()))
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(mine, name="waited.twice", op=hvd.Sum)
        with ctrl_c_again_and_again():
            hvd.synchronize(handle)
        hvd.barrier()
        total = hvd.synchronize(handle)
    else:
        hvd.barrier()  # rank 0 comes here after its interrupt
        total = hvd.allreduce(mine, name="waited.twice", op=hvd.Sum)
    assert total.tolist() == [sum(range(hvd.size()))] * 5


def test_tensors_of_an_interrupted_call_live_until_the_others_came() -> None:
    if hvd.rank() == 0:
        with ctrl_c_again_and_again():
            hvd.allreduce(torch.ones(1 << 16), name="never.seen", op=hvd.Sum)
        hvd.barrier()
    else:
        hvd.barrier()
        total = hvd.allreduce(torch.ones(1 << 16), name="never.seen", op=hvd.Sum)
        assert (total == hvd.size()).all()
    hvd.barrier()
