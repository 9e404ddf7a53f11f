"""Ray Train's trainer: metrics and checkpoints are reported, and a worker that dies has all start from the last one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import work
from ray.cluster_utils import Cluster

pytest.importorskip("pyarrow", reason="Ray Train needs pyarrow")

import ray.train  # noqa: E402
from horovod.ray.train import HorovodConfig, HorovodTrainer  # noqa: E402

STEPS = 4

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers don't find these tests


def train(config: dict[str, Any]) -> None:
    """Add up over the ranks, from the last checkpoint on; rank 1 dies once."""
    kept, total = ray.train.get_checkpoint(), 0
    if kept is not None:
        with kept.as_directory() as folder:
            total = int(Path(folder, "total").read_text())
    marker = Path(config["folder"], "has died")
    for step in range(total // 2, STEPS):
        who = work.describe()
        total += len(who["all"])
        if step == 2 and who["rank"] == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "total").write_text(str(total))
            checkpoint = ray.train.Checkpoint.from_directory(folder) if who["rank"] == 0 else None
            metrics = {"total": total, "resumed": kept is not None, "ranks": len(who["all"]), "nodes": who["numbers"]}
            ray.train.report(metrics, checkpoint=checkpoint)


def test_a_worker_dies_and_training_goes_on_from_the_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    trainer = HorovodTrainer(
        train,
        train_loop_config={"folder": str(tmp_path)},
        horovod_config=HorovodConfig(timeout_s=60),
        scaling_config=ray.train.ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
        run_config=ray.train.RunConfig(
            storage_path=str(tmp_path / "runs"), failure_config=ray.train.FailureConfig(max_failures=1)
        ),
    )
    result = trainer.fit()
    assert (tmp_path / "has died").exists()
    assert result.metrics == {"total": 2 * STEPS, "resumed": True, "ranks": 2, "nodes": [0, 1, 0, 2]}
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "total").read_text() == str(2 * STEPS)


def fail(_: dict[str, Any]) -> None:
    work.gather(0)
    raise ValueError("no such data")


def test_what_a_worker_raises_names_it(cluster: Cluster, tmp_path: Path) -> None:
    trainer = HorovodTrainer(
        fail,
        train_loop_config={},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=str(tmp_path)),
    )
    with pytest.raises(ray.train.WorkerGroupError, match="no such data"):
        trainer.fit()
