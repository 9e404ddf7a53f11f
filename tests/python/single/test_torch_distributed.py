"""How a program that uses the backend roda may be started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch.distributed as dist
from horovod.runner.common.util.secret import hand_over

PROGRAM = """
import sys
import torch
import torch.distributed as dist

dist.init_process_group("roda")  # known without: torch has called the entry point
import horovod.torch as hvd

rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (hvd.rank(), hvd.size()), (rank, size)
assert hvd.local_size() == size
for round in range(2):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
    model(torch.full((1, 3), float(rank))).sum().backward()
    assert model.module.weight.grad.tolist() == [[(size - 1) / 2] * 3]
    dist.barrier()
    dist.destroy_process_group()
    if round == 0:
        exec(f"dist.init_process_group('roda', {sys.argv[1]})")
if rank == 0:
    print("size", size)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def bare_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("HOROVOD_")} | {"OMP_NUM_THREADS": "1"}


def test_torchrun(program: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", program, ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=bare_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "size 2" in done.stdout


def test_horovodrun(program: str, horovodrun: Callable[..., object]) -> None:
    done = horovodrun("-np", "2", sys.executable, program, "init_method='roda://'", env=bare_environment())
    assert done.returncode == 0, done.stderr
    assert "size 2" in done.stdout
    assert "TCPStore" not in done.stderr  # nobody complains that the first rank took the store away


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="Open MPI's mpirun is not installed")
def test_mpirun(program: str) -> None:
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun.openmpi", "-np", "2", "--oversubscribe", sys.executable, program, ""]
    environment = bare_environment() | allowed
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "size 2" in done.stdout


BESIDE = """
import sys
import torch
import torch.distributed as dist

for round in range(2):  # the second default group has a store of its own
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/{round}", rank=RANK, world_size=2)
    refused = ""
    try:
        dist.new_group([0], backend="roda")
    except ValueError as error:
        refused = str(error)
    everybody = dist.new_group(backend="roda")
    alone = dist.new_group([0], backend="roda")
    for group in (everybody, None, *[alone] * (RANK == 0)):
        ones = torch.ones(3)
        dist.all_reduce(ones, group=group)
        assert ones.tolist() == [1.0 if group is alone else 2.0] * 3, ones
    dist.barrier(everybody)
    dist.destroy_process_group()
    if RANK == 0:
        print("refused", "of all ranks, once before" in refused)
"""


def test_groups_beside_a_default_group_of_gloo(tmp_path: Path) -> None:
    program = tmp_path / "beside.py"
    program.write_text('import os; RANK = int(os.environ["RANK"])' + BESIDE)
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(program), str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, env=bare_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "True"] * 2


LEAVING = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("roda")
rank, ones = dist.get_rank(), torch.ones(1)
two = dist.new_group([0, 1])
dist.all_reduce(ones, async_op=True)  # rank 2 waits for its end by itself
if rank < 2:
    from horovod.torch.distributed import _farewell

    while 2 not in _farewell.leaving:
        time.sleep(0.01)
    work = dist.isend(ones, 1) if rank == 0 else dist.irecv(ones, 0)
    work.wait()
    dist.all_reduce(ones, group=two)
    assert ones.item() == 6, ones
    try:
        dist.all_reduce(ones)
    except RuntimeError as error:
        print(f"{'rank 2 reached the end of its program' in str(error)}\\n", end="")  # in one piece
"""


def test_a_rank_whose_program_ends_leaves_others_their_operations(tmp_path: Path) -> None:
    program = tmp_path / "leaving.py"
    program.write_text(LEAVING)
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", str(program)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, env=bare_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]


AGAIN = """
import os, sys
import torch
import torch.distributed as dist

me, folder = int(os.environ["RANK"]), sys.argv[1]
# (rank of process 0, of process 1, ranks): as it is, swapped, each alone, both again, and once more
for number, (ranks, size) in enumerate([((0, 1), 2), ((1, 0), 2), ((0, 0), 1), ((0, 1), 2), ((0, 1), 2)]):
    name = f"{folder}/{number}" + (f".{me}" if size == 1 else "")
    dist.init_process_group("roda", init_method=f"file://{name}", rank=ranks[me], world_size=size)
    for _ in range(2 + (number == 4)):
        tensor = torch.tensor([float(me + 1)])
        dist.all_reduce(tensor)
        assert (dist.get_rank(), tensor.item()) == (ranks[me], 3 if size == 2 else me + 1)
    dist.barrier()
    if number == 3 and me == 0:  # the group's third call is left under way, and no match for the next group's
        dist.all_reduce(torch.full((1,), 100.0), async_op=True)
    dist.destroy_process_group()
print("done")
"""


def test_a_second_secret_has_a_descriptor_of_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_SECRET_FD", "")
    monkeypatch.delenv("HOROVOD_SECRET_FILE", raising=False)
    numbers = []
    for secret in (b"1" * 32, b"2" * 32, b"3" * 32):
        hand_over(secret)
        numbers.append(int(os.environ["HOROVOD_SECRET_FD"]))
        assert os.read(numbers[-1], 64) == secret
        os.close(numbers[-1])  # as an engine does
    assert len(set(numbers)) == 3


def test_the_same_processes_start_again_with_other_numbers(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "again.py")]
    command.append(str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=bare_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2


ALONE = """
import torch
import torch.distributed as dist

dist.init_process_group("roda")
assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
ones = torch.ones(2)
dist.all_reduce(ones)
assert ones.tolist() == [1, 1]
dist.destroy_process_group()
try:
    dist.init_process_group("gloo")  # nobody asked us
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("before", ["", "import horovod.torch\n"])
def test_a_process_that_no_launcher_started_is_a_job_of_one(before: str) -> None:
    numbers = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environment = {name: value for name, value in bare_environment().items() if name not in numbers}
    command = [sys.executable, "-c", before + ALONE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "RANK expected, but not set" in done.stdout
    half = {**environment, "WORLD_SIZE": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=half, check=False)
    assert "RANK expected, but not set" in done.stderr


LIGHTNING = """
import horovod.torch.lightning
import lightning
import torch
from torch.utils.data import DataLoader

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(2, 1)

    def training_step(self, batch, _):
        return self.line(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(accelerator="cpu", strategy="horovod", max_epochs=1, **quiet)
trainer.fit(Line(), DataLoader(torch.ones(4, 2), 2))
print("steps", trainer.global_step, "ranks", trainer.world_size)
"""


@pytest.mark.skipif(find_spec("lightning") is None, reason="Lightning is not installed")
def test_lightnings_strategy_in_such_a_process() -> None:
    command = [sys.executable, "-c", LIGHTNING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=bare_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "steps 2 ranks 1" in done.stdout


def test_numbers_that_contradict_the_launcher(horovodrun: Callable[..., object]) -> None:
    code = (
        "import os, torch.distributed as dist, horovod.torch as hvd\n"
        "os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')\n"
        "try:\n"
        "    dist.init_process_group('roda')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = horovodrun("-np", "2", sys.executable, "-c", code, env=bare_environment())
    assert "torch.distributed says that this is rank 0 of 1, but the job's launcher says rank 1 of 2" in done.stdout


def test_the_backend_is_registered_once() -> None:
    import horovod.torch as hvd

    hvd.distributed.register()
    assert dist.Backend("roda") == "roda"


IN_GLOOS_PLACE = """
from datetime import timedelta
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group([0, 1], backend="cpu:gloo")
for each in (dist.group.WORLD, group):
    assert (type(each).__name__, dist.get_backend(each), each.name()) == ("RodaProcessGroup", "gloo", "gloo")
dist.monitored_barrier(timeout=timedelta(seconds=60))  # of groups named gloo alone
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
model(torch.full((1, 3), float(dist.get_rank()))).sum().backward()
assert model.module.weight.grad.tolist() == [[0.5] * 3]
dist.destroy_process_group()
print("done")
"""


def test_groups_that_ask_for_gloo(tmp_path: Path) -> None:
    (tmp_path / "by_variable.py").write_text(IN_GLOOS_PLACE)
    (tmp_path / "by_call.py").write_text(
        "from horovod.torch import distributed\ndistributed.replace_gloo()\n" + IN_GLOOS_PLACE
    )
    for name, more in (("by_variable.py", {"RODA_REPLACE_GLOO": "1"}), ("by_call.py", {})):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / name)]
        environment = bare_environment() | more
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("done") == 2
        assert done.stderr.count("groups of the backend gloo are roda's") == 1
        assert "RODA_REPLACE_GLOO" not in done.stderr  # a setting that is known
