"""Programs as Horovod's users write them: each runs as it is, and prints what is listed here.

A name begins with what the program needs. Lines that all ranks print alike begin with ``*``, which stands for the rank.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
NEEDS = {"run": "torch", "spark": "pyspark", "keras": "tensorflow"}
TWO_HOSTS = "-np 4 -H localhost:2,127.0.0.1:2"
# How each program is launched, or "" for those that launch jobs themselves, and what it prints, in any order.
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "torch_imagenet.py --epochs 2": (
        "-np 2",
        ["epoch 1 lr 0.200 better True", "epoch 2 lr 0.200 better True", "rank * resumed 0 same True"],
    ),
    "torch_imagenet.py --epochs 3": ("-np 2", ["epoch 3 lr 0.200 better True", "rank * resumed 2 same True"]),
    "torch_synthetic_benchmark.py --use-adasum --fp16-allreduce": (
        "-np 2",
        ["Total on 2 device(s): from 2 ranks, more than none True", "lr 0.01, horovod"],
    ),
    "torch_timeline.py": (
        "-np 2",
        [
            f"timeline {i}: events True of ['allreduce.traced{i}'], ['NEGOTIATE_ALLREDUCE', 'ALLREDUCE', 'CYCLE_START']"
            for i in (1, 2)
        ],
    ),
    "torch_mpi_ops.py": (
        "-np 3",
        [
            "* in place True [1.0, 2.0, 3.0]",
            "* group [6, 6]",
            "* min max product [1, 3, 6]",
            "* uneven [0, 1, 1, 2, 2, 2]",
            "* broadcast 2",
            "0 alltoall [0, 10, 20] [1, 1, 1]",
            "1 alltoall [1, 2, 11, 12, 21, 22] [2, 2, 2]",
            "2 alltoall [3, 4, 5, 13, 14, 15, 23, 24, 25] [3, 3, 3]",
            *(f"{i} equal parts [[{i}, {10 + i}, {20 + i}], [1, 1, 1]]" for i in range(3)),
            *(f"{i} part [{6 * i}, {6 * i + 3}]" for i in range(3)),
            "* sparse [1.0, 1.0, 1.0, 6.0]",
            "* objects {'root': 1} ['a', 'bb', 'aaa']",
            "* last 2",
        ],
    ),
    "torch_process_sets.py": (
        TWO_HOSTS,
        [
            *(f"{i} of 4: host {i // 2} of 2, {i % 2} of 2 in its row" for i in range(4)),
            *(f"{i} weight {(0.5, -1.5)[i // 2]}" for i in range(4)),
            *(f"{i} gathered {[i % 2, i % 2 + 2]}" for i in range(4)),
            "* refused: ValueError",
            "* removed [True, True] None",
        ],
    ),
    "torch_sync_batch_norm.py": ("-np 2", ["* output True", "* running True", "* agree True"]),
    "torch_adasum.py": (
        "-np 2",
        ["* equal [2.0, 0.0]", "* orthogonal [2.0, 4.0]", "* weight [[0.25, 0.25]] lr [0.125]"],
    ),
    "torch_elastic.py .": (
        "-np 2 --min-np 1 -H localhost:2",
        [
            "epoch 0: 40 of 48 by 1, resets [1]",  # the other 8 were done by the rank that died
            "epoch 1: 48 of 48 by 1, resets [1]",
            "done, weights agree True",
        ],
    ),
    "torch_data.py": (
        "-np 2",
        [
            "* of 3 batches, sparse True: [-2.0, -4.0, -4.0, -2.0, 0.0]",
            *(f"{i} of {3 + i} batches, sparse False: [-2.0, -4.0, -4.0, -3.0, -1.0]" for i in range(2)),
        ],
    ),
    "run_function.py": ("", ["values [(0, [4.0, 4.0]), (1, [4.0, 4.0])] [(0, [1.0, 1.0]), (1, [1.0, 1.0])]"]),
    "lightning_strategy.py": (
        "-np 2",
        ["* of 2 in 8 steps, all twice True", "0 same True True", "1 same True False"],
    ),
    "tensorflow_v1_hooks.py": ("-np 2", ["* same True near True", "saved step 20"]),
    "tensorflow_benchmarks.py": (
        "-np 2",
        [
            "* broadcast [1.0, 1.0, 1.0]",
            "* kernel ['-0.45', '-0.45', '-0.45'] rate 0.05",
            "* sums ['-0.9', '-0.9', '-0.9'] ['4', '6']",
            *(f"{i} slices [0, 1] of {i} 2" for i in range(2)),
            "* model ['O', 'H']",
        ],
    ),
    "tensorflow2_tape.py": ("-np 2", ["* same True better True", "saved True"]),
    "keras_callbacks.py": (
        "-np 2",
        [
            "* rates [0.015, 0.02, 0.002] better True",
            "* averaged True",
            "inference True True",
            "wrapped Adam horovod",
        ],
    ),
    "mxnet_gluon.py": ("-np 2", ["* same True accuracy True"]),
    "ray_executor.py": (
        "",
        [
            "trained [0.5, 0.5]",
            "one 2",
            "places [[10, 2, 2], [11, 2, 2]]",
            "remote [[20, 2, 2], [21, 2, 2]]",
        ],
    ),
    "spark_estimator.py": ("", ["gathered [[5, 6], [5, 6]]", "rows 64 near True", "better True False"]),
}


# Importing a framework is what costs, so these run one after another in the ranks of one job, each as `__main__`.
TOGETHER = [
    [name for name in PROGRAMS if name.startswith(("torch_", "lightning_")) and PROGRAMS[name][0] == "-np 2"],
    ["tensorflow2_tape.py", "keras_callbacks.py"],
]
JOBS = [*TOGETHER, *([name] for name in PROGRAMS if not any(name in job for job in TOGETHER))]
IN_TURN = """
import runpy, sys
for command in sys.argv[1:]:
    sys.argv = command.split()
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_what_programs_print(job: list[str], tmp_path: Path) -> None:
    for name in job:
        needed = name.partition("_")[0].rstrip("2")
        if find_spec(NEEDS.get(needed, needed)) is None:
            pytest.skip(f"{needed} is not installed")
    options = PROGRAMS[job[0]][0]
    python = [sys.executable, "-W", "ignore"]
    launcher = [*python, "-m", "horovod.runner.launch", *options.split()] if options else []
    variables = {
        **os.environ, "HOROVOD_TIMELINE": "DYNAMIC", "HOROVOD_DYNAMIC_PROCESS_SETS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYSPARK_PYTHON": sys.executable, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60",
    }  # fmt: skip
    commands = [f"{FOLDER / name}" for name in job]
    program = ["-c", IN_TURN, *commands] if len(job) > 1 else commands[0].split()
    done = subprocess.run(
        [*launcher, *python, *program], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    ranks = range(int(options.split()[1]) if options else 1)
    prints = [line for name in job for line in PROGRAMS[name][1]]
    expected = [line.replace("*", str(i), 1) for line in prints for i in (ranks if "*" in line else ranks[:1])]
    printed = [line.partition("<stdout>:")[2] if options else line for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(filter(None, printed)) == sorted(expected), done.stdout + done.stderr
