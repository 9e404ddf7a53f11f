"""Collectives, each between two looks at the bytes that a host's interface has sent: ``BYTES NAMES…``."""

import sys
from pathlib import Path

import horovod.torch as hvd
import torch
from checks import require, tell

SENT = Path("/sys/class/net/wire0/statistics/tx_bytes")


def run(name: str, size: int) -> None:
    """Run the collective on `size` bytes: the tensor, or for an allgather its whole result."""
    elements = size // 4
    rank, ranks = hvd.rank(), hvd.size()
    if name == "allreduce":
        total = hvd.allreduce(torch.full((elements,), float(rank)), op=hvd.Sum)
        require(bool((total == sum(range(ranks))).all()), "allreduce")
    elif name == "broadcast":
        got = hvd.broadcast(torch.full((elements,), float(rank)), root_rank=0)
        require(bool((got == 0).all()), "broadcast")
    elif name == "allgather":
        whole = hvd.allgather(torch.full((elements // ranks,), float(rank)))
        require(whole[:: elements // ranks].tolist() == list(range(ranks)), "allgather")
    else:
        part = hvd.reducescatter(torch.full((elements,), float(rank)), op=hvd.Sum)
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
