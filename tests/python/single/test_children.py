"""What a rank starts is no rank: what ``hvd.init()`` does there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import PYTHON, Launch
from horovod.common import rank_process

HELPER = """
import os
from horovod.common import life_cycle as hvd, objects
hvd.init()
numbers = hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank()
print(*numbers, len(objects.allgather_object("here")))
"""

RANK = """
import json, multiprocessing, os, subprocess, sys
from horovod.common import life_cycle as hvd, objects

def run(command, **changes):
    env = {**os.environ, **changes}
    env = {name: value for name, value in env.items() if value is not None}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

def say_why(texts):
    try:
        hvd.init()
    except ValueError as error:
        texts.put(str(error))

if __name__ == "__main__":
    helper = [sys.executable, "-c", %r]
    others = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
    hvd.init()
    launched = [name for name in os.environ if name.startswith("HOROVOD_")]
    found = {
        "plain": run(helper),
        "by the shell": run(["sh", "-c", '"$@"; exit $?', "sh", *helper]),
        "torch's variables": run(helper, **dict.fromkeys(launched)),
        "alone": run(helper, HOROVOD_SIZE="1"),
        "alone by other numbers": run(helper, HOROVOD_SIZE="1", HOROVOD_RANK="5", HOROVOD_CROSS_RANK="7"),
        "without variables": run(helper, **dict.fromkeys([*launched, *others])),
        "a job": run([*sys.argv[1:], "-np", "2", *helper]),
    }
    spawn = multiprocessing.get_context("spawn")
    texts = spawn.SimpleQueue()
    process = spawn.Process(target=say_why, args=(texts,))
    process.start()
    process.join()
    found["refused in a spawned process"] = texts.get()
    process = spawn.Process(target=print)  # does not call init
    process.start()
    process.join()
    found["spawned"] = process.exitcode
    found["after that"] = objects.allgather_object(hvd.rank())
    print("found", json.dumps(found))
    hvd.shutdown()
"""


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]], ids=["static", "elastic"])
def test_what_a_rank_starts(horovodrun: Launch, tmp_path: Path, elastic: list[str]) -> None:
    (tmp_path / "rank.py").write_text(RANK % HELPER)
    launcher = [PYTHON, "-m", "horovod.runner.launch"]
    done = horovodrun("-np", "2", *elastic, PYTHON, str(tmp_path / "rank.py"), *launcher)
    assert done.returncode == 0, done.stderr
    told = dict(re.findall(r"^\[(.)\]<stdout>:found (.*)$", done.stdout, re.MULTILINE))
    assert sorted(told) == ["0", "1"]
    for rank, text in told.items():
        found = json.loads(text)
        refused = rf"ValueError: This process was started by rank {rank} \(process \d+\) of a running job, and is no "
        for case in ("plain", "by the shell", "torch's variables"):
            assert re.match(refused, found[case]), (case, found)
        for case in ("alone", "alone by other numbers", "without variables"):
            assert found[case] == "0 1 0 1 0 1", (case, found)
        assert sorted(found["a job"].splitlines()) == ["[0]<stdout>:0 2 0 2 0 2", "[1]<stdout>:1 2 1 2 0 2"]
        assert found["spawned"] == 0
        assert "set HOROVOD_SIZE=1" in found["refused in a spawned process"]
        assert "__main__" not in found["refused in a spawned process"]  # that is not run again
        assert found["after that"] == [0, 1]


def test_a_helper_that_comes_before_its_rank_or_after_its_job_is_not_held_for_one(horovodrun: Launch) -> None:
    code = "import os, sys; from horovod.common import life_cycle as hvd, rank_process; " \
        "hvd.init(); hvd.shutdown(); print(rank_process.started_by(), '_RODA_RANK' in os.environ)"  # fmt: skip
    done = horovodrun("-np", "2", PYTHON, "-c", code)
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:None False", "[1]<stdout>:None False"], done.stderr


def test_one_process_of_any_job_may_be_alone() -> None:
    variables = {"HOROVOD_SIZE": "1", "HOROVOD_RANK": "3", "HOROVOD_LOCAL_RANK": "3", "HOROVOD_LOCAL_SIZE": "4",
                 "HOROVOD_GLOO_RENDEZVOUS_ADDR": "203.0.113.9", "HOROVOD_GLOO_RENDEZVOUS_PORT": "1", "RANK": "2",
                 "WORLD_SIZE": "3", "MASTER_ADDR": "203.0.113.9"}  # fmt: skip
    done = subprocess.run(
        [PYTHON, "-c", HELPER], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0 1 0 1 0 1\n", done.stderr


OF_A_RANK = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "2000"}


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({}, True),
        ({"RANK": "0"}, False),
        ({"MASTER_PORT": "3000"}, False),
        ({"TORCHELASTIC_RUN_ID": "other"}, False),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, False),
        ({"HOROVOD_SIZE": "1"}, False),
    ],
)
def test_whoever_gives_a_child_a_place_of_its_own_may(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], is_refused: bool
) -> None:
    for name in [name for name in os.environ if name.startswith(("HOROVOD_", "SLURM_", "OMPI_", "PMI"))]:
        monkeypatch.delenv(name)
    for name, value in OF_A_RANK.items():
        monkeypatch.setenv(name, value)
    code = f"""
import os
from horovod.common import rank_process
os.environ.update({changes!r})
rank_process.refuse_child()
"""
    monkeypatch.setenv("_RODA_RANK", "")
    rank_process.mark(1, 2)
    rank_process.refuse_child()  # the rank itself
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode != 0) == is_refused, done.stderr


def test_another_program_in_the_process_of_a_rank_joins_again(horovodrun: Launch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import os, sys
from horovod.common import life_cycle as hvd, objects
hvd.init()
if len(sys.argv) == 1:
    hvd.shutdown()
    os.execv(sys.executable, [sys.executable, __file__, "again"])
print(objects.allgather_object(hvd.rank()))
""")
    done = horovodrun("-np", "2", PYTHON, str(program))
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:[0, 1]", "[1]<stdout>:[0, 1]"], done.stderr


def test_another_program_in_the_process_of_a_rank_is_the_rank(horovodrun: Launch) -> None:
    code = "import os, sys; from horovod.common import rank_process as r; r.mark(1, 2); " \
        "os.execv(sys.executable, [sys.executable, '-c', 'from horovod.common import rank_process as r; " \
        "r.refuse_child(); print(r.started_by())'])"  # fmt: skip
    assert horovodrun("-np", "1", PYTHON, "-c", code).stdout == "[0]<stdout>:None\n"
