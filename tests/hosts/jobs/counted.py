"""Collectives, each between two looks at what a host has sent, and sent again: ``BYTES NAMES…``."""

import sys
from pathlib import Path

import numpy as np
from checks import hvd, require, tell

WIRE = Path("/sys/class/net/wire0")
SNMP = Path("/proc/net/snmp")  # of this host's network alone, as the interface is


def sent() -> tuple[int, int]:
    """Bytes that the interface has sent, and how many of them at most were TCP's repetitions."""
    titles, values = (line.split() for line in SNMP.read_text(encoding="ascii").splitlines() if line.startswith("Tcp:"))
    repeated = int(values[titles.index("RetransSegs")]) * int((WIRE / "mtu").read_text(encoding="ascii"))
    return int((WIRE / "statistics/tx_bytes").read_text(encoding="ascii")), repeated


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
        before = sent()
        hvd.barrier()
        run(name, size)
        hvd.barrier()
        after = sent()
        hvd.barrier()
        if hvd.local_rank() == 0:
            tell(f"{name} {after[0] - before[0]} {after[1] - before[1]}")
    hvd.shutdown()


main()
