"""Packs the same buckets as gpu_bandwidth does with PyTorch's own ``torch._foreach_copy_``; run by tests/gpu/run.sh.

Reads lines of ``MODEL ELEMENTS...`` (``gpu_bandwidth --tensors``) and prints lines of ``name value unit``, medians of
several rounds, to be read beside those of gpu_bandwidth. Without CUDA in this PyTorch it copies on the CPU, to check
this file and nothing else.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

ROUNDS, REPEATS = 15, 10

on_gpu = torch.cuda.is_available()
device = torch.device("cuda" if on_gpu else "cpu")


def finish() -> None:
    """Wait for what the card has to do."""
    if on_gpu:
        torch.cuda.synchronize()


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call, when several are put on the stream one behind the other."""
    rounds = []
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        for _ in range(REPEATS):
            call()
        finish()
        rounds.append((time.perf_counter() - start) / REPEATS)
    return statistics.median(rounds[2:])


def measure(model: str, sizes: list[int]) -> None:
    """Print how fast the model's tensors get into one buffer, and back."""
    tensors = [torch.ones(size, device=device) for size in sizes]
    buffer = torch.zeros(sum(sizes), device=device)
    places = list(buffer.split(sizes))
    moved = 2 * 4 * sum(sizes)
    packed = seconds(lambda: torch._foreach_copy_(places, tensors))
    if not bool((buffer == 1).all()):
        raise SystemExit(f"{model}: the buffer does not hold the tensors")
    unpacked = seconds(lambda: torch._foreach_copy_(tensors, places))
    print(f"{model}.foreach_copy.pack {moved / packed / 1e9:.1f} GB/s")
    print(f"{model}.foreach_copy.unpack {moved / unpacked / 1e9:.1f} GB/s", flush=True)


def main() -> int:
    """Measure every model of the standard input."""
    print(f"# torch {torch.__version__} on {torch.cuda.get_device_name() if on_gpu else 'THE CPU: no CUDA in it'}")
    for line in sys.stdin:
        model, *sizes = line.split()
        measure(model, [int(size) for size in sizes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
