"""Trains on a cluster, one of whose nodes is lost: lost.py elastic|trainer ADDRESS FOLDER; prints what it came to.

Workers write a line for each step: the step, and how many they are.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray

COMMIT_EVERY = 5  # steps
STEPS_AFTER = 4  # which are trained without the lost node


def tell(step: int, size: int) -> None:
    """Append a line to this process's file."""
    with Path(os.environ["TELL_FOLDER"], str(os.getpid())).open("a") as file:
        file.write(f"{step} {size}\n")


def train() -> tuple[int, int]:
    """Step with three workers, then with two; commits are less frequent than steps."""
    from horovod.common.basics import HorovodBasics
    from horovod.common.elastic import ObjectState, run_fn
    from horovod.common.objects import allgather_object, broadcast_object

    basics = HorovodBasics()
    basics.init()

    def reset() -> None:
        basics.shutdown()
        basics.init()

    def loop(state: Any) -> None:
        while basics.size() != 2 or state.after < STEPS_AFTER:
            assert allgather_object(state.step) == [state.step] * basics.size()
            state.step += 1
            state.after += basics.size() == 2
            tell(state.step, basics.size())
            if state.step % COMMIT_EVERY == 0:
                state.commit()
            time.sleep(0.02)

    run_fn(loop, reset)(state := ObjectState(broadcast_object, basics.rank, step=0, after=0))
    return basics.rank(), state.step


def elastic(_: Path) -> Any:
    """Train with the executor."""
    from horovod.ray import ElasticRayExecutor

    executor = ElasticRayExecutor(
        ElasticRayExecutor.create_settings(min_num_proc=2, timeout_s=120),
        env_vars={"TELL_FOLDER": os.environ["TELL_FOLDER"]},
    )
    executor.start()
    return executor.run(train)


def train_with_checkpoints(config: dict[str, Any]) -> None:
    """Step from the last checkpoint on, until some have been made after a loss."""
    from horovod.common.basics import HorovodBasics
    from horovod.common.objects import allgather_object

    os.environ["TELL_FOLDER"] = config["told"]
    HorovodBasics().init()
    begins = step = 0
    kept = ray.train.get_checkpoint()
    if kept is not None:
        with kept.as_directory() as folder:
            begins = step = int(Path(folder, "step").read_text())
    while not begins or step < begins + STEPS_AFTER:
        assert allgather_object(step) == [step] * 2
        step += 1
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            checkpoint = ray.train.Checkpoint.from_directory(folder) if HorovodBasics().rank() == 0 else None
            ray.train.report({"step": step, "began": begins}, checkpoint=checkpoint)
        tell(step, 2)


def trainer(folder: Path) -> Any:
    """Train with Ray Train's trainer."""
    import ray.train
    from horovod.ray.train import HorovodTrainer

    result = HorovodTrainer(
        train_with_checkpoints,
        train_loop_config={"told": os.environ["TELL_FOLDER"]},
        scaling_config=ray.train.ScalingConfig(num_workers=2, placement_strategy="SPREAD"),
        run_config=ray.train.RunConfig(
            storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=1)
        ),
    ).fit()
    return result.metrics


if __name__ == "__main__":
    kind, address, place = sys.argv[1:]
    ray.init(address=address, _node_ip_address=address.partition(":")[0], log_to_driver=False)
    came_to = {"elastic": elastic, "trainer": trainer}[kind](Path(place))
    print("came to", json.dumps(came_to))
