"""What the other ranks see when one goes away."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import Launch

# Rank 0 outlives the launcher's polite request, so that it can tell what it saw. Without a framework, which takes
# longer to import than all that is tested here.
SURVIVOR = """
import os, signal, sys
from horovod.common import life_cycle as hvd, objects
from horovod.common.exceptions import HorovodInternalError
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hvd.init()
try:
    objects.allgather_object("warm-up")
    if hvd.rank() == hvd.size() - 1:
        {leave}
    for step in range(10000):
        objects.allgather_object(step)
except HorovodInternalError as error:
    with open(os.path.join(sys.argv[1], str(hvd.rank())), "w") as file:
        file.write(str(error))
"""


@pytest.mark.parametrize("transport", [[], ["--gloo"]], ids=["default", "gloo"])
@pytest.mark.parametrize("leave", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"], ids=["killed", "exited"])
def test_a_rank_that_dies_ends_the_others_with_an_error(
    horovodrun: Launch, tmp_path: Path, transport: list[str], leave: str
) -> None:
    script = tmp_path / "survivor.py"
    script.write_text(textwrap.dedent(SURVIVOR).format(leave=leave))
    done = horovodrun(
        *transport, "--termination-grace-seconds", "60", "-np", "3", sys.executable, str(script), str(tmp_path)
    )
    assert done.returncode == (137 if "SIGKILL" in leave else 3)
    for rank in (0, 1):
        assert (tmp_path / str(rank)).exists(), done.stderr
        assert (tmp_path / str(rank)).read_text()


def test_what_a_survivor_saw_is_told_once_for_all(horovodrun: Launch, tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, torch
        import horovod.torch as hvd
        hvd.init()
        hvd.allreduce(torch.ones(4), name="warm-up")
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(4), name="never")
        """)
    )
    done = horovodrun("-np", "3", sys.executable, str(script))
    assert done.returncode == 137
    summary = done.stderr.partition("Horovod detected that one or more processes")[2]
    assert "Process name: 1\nExit code: 137\nEnded by: SIGKILL\n" in summary
    assert re.search(r"\nCause: rank [02] met horovod.common.exceptions.HorovodInternalError: ", summary)
    assert "plain.py:8)\nThe process at fault left no traceback.\n" in summary
    assert "\n2 other ranks ended for this cause.\n" in summary
    assert "<stderr>:Traceback" not in done.stderr


def test_a_rank_that_shuts_down_ends_the_others_operations(horovodrun: Launch, tmp_path: Path) -> None:
    script = tmp_path / "survivor.py"
    script.write_text(textwrap.dedent(SURVIVOR).format(leave="hvd.shutdown(); sys.exit(0)"))
    done = horovodrun("-np", "2", sys.executable, str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0").read_text().startswith("Horovod has been shut down.")


# The victim dies in the middle of a backward pass, with reductions under way.
TRAINING = """
import os, signal, sys, torch
import horovod.torch as hvd
import torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
kind, victim, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
layers = [torch.nn.Linear(16, 16) for _ in range(6)]
model = torch.nn.Sequential(*layers)
if kind == "ddp":
    dist.init_process_group("roda")
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    hvd.init()
    options = {"sharded": {"sharded": True}, "groups": {"groups": 2}, "adasum": {"op": hvd.Adasum}}.get(kind, {})
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)
step = 0


def die(gradient):
    if hvd.rank() == victim and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)


layers[3].weight.register_hook(die)
try:
    for step in range(10000):
        optimizer.zero_grad()
        model(torch.ones(2, 16)).sum().backward()
        optimizer.step()
except RuntimeError as error:
    with open(os.path.join(folder, str(hvd.rank())), "w") as file:
        file.write(str(error))
    if kind == "ddp":
        dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("kind", "size", "victim"),
    [("groups", 3, 2), ("sharded", 2, 0), ("adasum", 2, 1), ("ddp", 3, 0)],
)
def test_a_rank_that_dies_in_a_training_step(
    horovodrun: Launch, tmp_path: Path, kind: str, size: int, victim: int
) -> None:
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    arguments = [sys.executable, str(script), kind, str(victim), str(tmp_path)]
    done = horovodrun("--termination-grace-seconds", "60", "-np", str(size), *arguments)
    assert done.returncode == 137
    for rank in set(range(size)) - {victim}:
        assert f"Rank {victim} (localhost) died" in (tmp_path / str(rank)).read_text(), done.stderr
