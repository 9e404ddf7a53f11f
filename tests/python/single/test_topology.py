"""``roda-info --topology``: this machine, files, and the shapes that are installed; and jobs that read a file."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Launch

SHAPES = ["dgx-h100", "dual-socket-cpu", "laptop", "vm-2-cores", "workstation-4gpu"]


def roda_info(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("roda-info") or str(Path(sys.executable).parent / "roda-info")
    return subprocess.run(
        [program, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_this_machine_as_a_tree_and_as_json() -> None:
    tree = roda_info("--topology")
    assert tree.returncode == 0, tree.stderr
    assert "1 rank on 1 host" in tree.stdout
    value = json.loads(roda_info("--topology", "--json").stdout)["topology"]
    assert value["roda_topology"] == 1
    (machine,) = value["machines"].values()
    assert machine["cpus"]
    assert value["hosts"][0]["ranks"] == "0"


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(roda_info("--topology", "--json").stdout)
    here = roda_info("--topology").stdout.split("Topology\n")[1]
    assert roda_info("--topology", str(path)).stdout.strip() == here.strip()
    assert roda_info("--topology-file", str(path)).stdout.strip() == here.strip()
    assert roda_info("--topology", RODA_TOPOLOGY_FILE=str(path)).stdout.split("Topology\n")[1] == here


@pytest.mark.parametrize("name", SHAPES)
def test_installed_shapes_are_found_by_name(name: str) -> None:
    tree = roda_info("--topology", name)
    assert tree.returncode == 0, tree.stderr
    assert f"machine {name}:" in tree.stdout
    assert "source: " in tree.stdout
    value = json.loads(roda_info("--topology", name, "--json").stdout)
    assert list(value["machines"]) == [name]


def test_explain_lays_ranks_out_on_hosts() -> None:
    one = roda_info("--explain", "allreduce", "64MiB", "--topology", "dgx-h100")
    assert "over 8 ranks of one host" in one.stdout, one.stdout + one.stderr
    assert roda_info("--explain", "allreduce", "64MiB", RODA_TOPOLOGY_FILE="dgx-h100").stdout == one.stdout
    several = roda_info("--explain", "allreduce", "64MiB", "--topology", "dgx-h100", "--np", "32", "--json")
    value = json.loads(several.stdout)
    assert value["ranks"] == 32
    assert value["candidates"]


def test_alone_half_a_screen_says_what_counts() -> None:
    told = roda_info(HOROVOD_CYCLE_TIME="2", _HOROVOD_SECRET_KEY="c2VjcmV0")
    lines = told.stdout.splitlines()
    assert told.returncode == 0, told.stderr
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120
    assert [line for line in lines if line.startswith("usable") and "shm" in line and "tcp" in line]
    assert "HOROVOD_CYCLE_TIME=2" in told.stdout
    assert "c2VjcmV0" not in told.stdout


def test_explain_says_first_what_runs_and_then_the_quickest() -> None:
    verdict, *rows = roda_info("--explain", "allreduce", "64M", "--np", "8").stdout.splitlines()
    told = re.fullmatch(r"allreduce of 64 MiB over 8 ranks of one host: (\S+) runs, (.+) predicted", verdict)
    assert told, verdict
    assert rows[0].split()[:4] == [">", told[1], *told[2].split()]
    fates = [next((fate for fate in ("runs: ", "in reserve: ", "not usable: ") if fate in row), "") for row in rows]
    assert [fate for fate, _ in itertools.groupby(fates)] == ["runs: ", "in reserve: ", "not usable: ", ""]
    slower = [int(more) for more in re.findall(r"\+ (\d+) %  in reserve", "\n".join(rows))]
    assert len(slower) > 3
    assert slower == sorted(slower)


@pytest.mark.parametrize("between", ["ucx", "mpi"])
def test_explain_plans_for_the_gpus_of_a_described_cluster(between: str) -> None:
    known = json.loads(roda_info("--json").stdout)["plugins"]["plugins"]
    if not {"nccl", between} <= {plugin["name"] for plugin in known}:
        pytest.skip(f"nccl or {between} is not built")
    arguments = ("--explain", "allreduce", "64MiB", "--topology", "dgx-h100", "--np", "16")
    plan = json.loads(roda_info(*arguments, "--json", HOROVOD_GPU_OPERATIONS=f"nccl+{between}").stdout)
    assert [(stage["transport"], stage["where"]) for stage in plan["stages"]] == [
        ("nccl", "on each host"), (between, "across hosts"), ("nccl", "on each host"),
    ]  # fmt: skip
    words = roda_info(*arguments).stdout
    is_here = any(plugin["name"] == "nccl" and plugin["usable"] for plugin in known)
    assert ("taken to be usable there, though not on this machine: nccl" in words) != is_here


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    missing = roda_info("--topology", "no-such-shape")
    assert missing.returncode == 1
    assert "roda-info: no topology no-such-shape: neither a file nor a name; there are dgx-h100, " in missing.stderr
    path = tmp_path / "bad.json"
    path.write_text('{"roda_topology": 1, "machines": {"m": {"cpus": "x"}}}')
    for arguments in (["--topology", str(path)], ["--explain", "allreduce", "1", "--topology", str(path)]):
        bad = roda_info(*arguments)
        assert bad.returncode == 1
        assert "/machines/m/cpus must be a list of numbers" in bad.stderr
    hosts = json.dumps([{"name": "a", "machine": "m", "ranks": "0-3"}])
    path.write_text('{"roda_topology": 1, "machines": {"m": {"cpus": "0"}}, "hosts": ' + hosts + "}")
    bad = roda_info("--explain", "allreduce", "1", "--topology", str(path), "--np", "5")
    assert "places 4 ranks on 1 host; it can't be laid out for 5 ranks" in bad.stderr


def test_a_job_refuses_a_file_that_contradicts_it(horovodrun: Launch, tmp_path: Path) -> None:
    path = tmp_path / "eight.json"
    hosts = json.dumps([{"name": "node0", "machine": "m", "ranks": "0-7"}])
    path.write_text('{"roda_topology": 1, "machines": {"m": {"cpus": "0"}}, "hosts": ' + hosts + "}")
    done = horovodrun(
        "-np",
        "2",
        sys.executable,
        "-c",
        "from horovod.common.life_cycle import init; init()",
        env=os.environ | {"RODA_TOPOLOGY_FILE": str(path)},
    )
    assert done.returncode != 0
    assert "host 0 (node0) has 8 ranks (0-7) in the file" in done.stdout + done.stderr
