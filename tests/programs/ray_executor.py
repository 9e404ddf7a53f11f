"""As the scripts on Ray: an executor's workers hold objects, train, and answer one by one or in the background."""

from __future__ import annotations

import ray
from horovod.ray import RayExecutor


class Worker:
    def __init__(self, rate: float) -> None:
        self.rate, self.steps = rate, 0

    def train(self, steps: int) -> float:
        import horovod.torch as hvd
        import torch

        hvd.init()
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 1.0 + hvd.rank())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), self.rate), model.named_parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.tensor([[2.0 * hvd.rank()]])).sum().backward()
            optimizer.step()
        self.steps += steps
        return round(model.weight.item(), 3)


def place(base: int) -> list[int]:
    import horovod.torch as hvd

    hvd.init()
    return [base + hvd.rank(), hvd.size(), hvd.local_size()]


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
settings = RayExecutor.create_settings(timeout_s=60, placement_group_timeout_s=60)
executor = RayExecutor(settings, num_workers=2, use_gpu=False)
executor.start(executable_cls=Worker, executable_args=[0.25])
print("trained", executor.execute(lambda worker: worker.train(2)))
print("one", executor.execute_single(lambda worker: worker.steps))
print("places", executor.run(place, args=[10]))
print("remote", ray.get(executor.run_remote(place, kwargs={"base": 20})))
executor.shutdown()
ray.shutdown()
