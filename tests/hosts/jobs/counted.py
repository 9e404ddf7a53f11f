"""Collectives, each between two looks at the bytes that a host's interface has sent: ``BYTES NAMES…``."""

import sys
from pathlib import Path

import numpy as np
from checks import hvd, require, tell

SENT = Path("/sys/class/net/wire0/statistics/tx_bytes")


def run(name: str, size: int) -> None:
    """Run the collective on `size` bytes: the tensor, or for an allgather its whole result."""
    elements = size // 4
    rank, ranks = hvd.rank(), hvd.size()
    if name == "allreduce":
        total = hvd.allreduce(np.full(elements, rank, np.float32))
        require(bool((total == sum(range(ranks))).all()), "allreduce")
    elif name == "broadcast":
        got = hvd.broadcast(np.full(elements, rank, np.float32), 0)
        require(bool((got == 0).all()), "broadcast")
    elif name == "allgather":
        whole = hvd.allgather(np.full(elements // ranks, rank, np.float32))
        require(whole[:: elements // ranks].tolist() == list(range(ranks)), "allgather")
    else:
        part = hvd.reducescatter(np.full(elements, rank, np.float32))
        require(bool((part == sum(range(ranks))).all()), "reducescatter")


def main() -> None:
    """Run each once to connect, then count a second run."""
    size, names = int(sys.argv[1]), sys.argv[2:]
    hvd.init()
    for name in names:
        run(name, size)
        hvd.barrier()
        before = int(SENT.read_text(encoding="ascii"))
        hvd.barrier()
        run(name, size)
        hvd.barrier()
        after = int(SENT.read_text(encoding="ascii"))
        hvd.barrier()
        if hvd.local_rank() == 0:
            tell(f"{name} {after - before}")
    hvd.shutdown()


main()
