"""What workers of these tests do. No framework: the engine's objects are enough."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import ray

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers don't find these tests

NUMBERS = ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE")


def gather(value: Any) -> list[Any]:
    """Start the engine unless it runs, and gather a value of each rank."""
    from horovod.common.basics import HorovodBasics
    from horovod.common.objects import allgather_object

    HorovodBasics().init()
    return allgather_object(value)


def describe() -> dict[str, Any]:
    """Say who a worker is, and who all are."""
    from horovod.common.basics import HorovodBasics

    ranks = gather((HorovodBasics().rank(), os.getpid()) if HorovodBasics().is_initialized() else os.getpid())
    return {
        "rank": HorovodBasics().rank(),
        "all": ranks,
        "pid": os.getpid(),
        "node": ray.get_runtime_context().get_node_id(),
        "numbers": [int(os.environ[name]) for name in NUMBERS],
        "torch": [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")],
        "group": ray.util.get_current_placement_group(),
        "environment": dict(os.environ),
    }


def fail_on(rank: int, error: Exception | None) -> list[Any]:
    """Gather on all ranks but one, which fails: by an error, or by its process's end."""
    from horovod.common.basics import HorovodBasics

    gather(0)
    if HorovodBasics().rank() == rank:
        if error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise error
    return gather(1)


def log_steps(count: int) -> None:
    """Tell the driver about some steps."""
    from horovod.ray import ray_logger

    for step in range(count):
        ray_logger.log({"step": step, "rank": int(os.environ["HOROVOD_RANK"])})


class Counter:
    """An object that workers make."""

    def __init__(self, start: int, step: int = 1) -> None:
        self.value, self.step = start, step

    def count(self) -> int:
        """Count, and return what all have."""
        self.value += self.step
        return sum(gather(self.value))


class EndsAtOnce:
    """Its making ends rank 1."""

    def __init__(self) -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            os._exit(3)


def run_in_group(num_workers: int, seconds: float) -> list[Any]:
    """Run a job in a task that is in a placement group."""
    from horovod.ray import RayExecutor

    executor = RayExecutor(RayExecutor.create_settings(timeout_s=seconds), num_workers=num_workers)
    try:
        executor.start()
        return [(each["group"].id.hex(), each["all"]) for each in executor.run(describe)]
    finally:
        executor.shutdown()


def train() -> tuple[int, int, int, int]:
    """Count steps until two workers have become three, and two again; tell each step, with the number of workers."""
    from horovod.common.basics import HorovodBasics
    from horovod.common.elastic import ObjectState, run_fn
    from horovod.common.objects import broadcast_object
    from horovod.ray import ray_logger

    basics = HorovodBasics()
    basics.init()

    def reset() -> None:
        basics.shutdown()
        basics.init()

    def loop(state: Any) -> None:
        while state.sizes != [2, 3, 2] and state.step < 3000:
            assert sum(gather(state.step)) == state.step * basics.size()
            state.step += 1
            if state.sizes[-1:] != [basics.size()]:
                state.sizes = [*state.sizes, basics.size()]
            state.commit()
            if basics.rank() == 0:
                ray_logger.log({"size": basics.size(), "pid": os.getpid()})
            time.sleep(0.02)

    state = ObjectState(broadcast_object, basics.rank, step=0, sizes=[])
    run_fn(loop, reset)(state)
    return basics.rank(), basics.size(), state.step, os.getpid()
