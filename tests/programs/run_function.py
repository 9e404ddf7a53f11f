"""`horovod.run` of functions and classes of `__main__`, with values, by name of Gloo; two jobs at a time."""

from __future__ import annotations

import concurrent.futures

import horovod
import numpy as np


class Trainer:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, steps: int, *, offset: int = 0) -> tuple[int, list[float]]:
        import horovod.torch as hvd
        import torch

        hvd.init()
        total = torch.tensor(float(offset))
        for _ in range(steps):
            total += hvd.allreduce(torch.tensor(self.rate * hvd.rank()), op=hvd.Sum)
        return hvd.rank(), np.full(2, total.item()).tolist()


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor() as pool:
        one = pool.submit(horovod.run, Trainer(0.5), args=(2,), kwargs={"offset": 3}, np=2, use_gloo=True)
        other = pool.submit(horovod.run, Trainer(1.0), args=(1,), num_proc=2, hosts="localhost:2")
        print("values", one.result(), other.result())
