"""Jobs of launchers that only tell each process its numbers, and where rank 0 is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import JOBS, Runner
from network import Network
from test_jobs import expected

PORT = str(20_000 + os.getpid() % 10_000)
JOB = [sys.executable, str(JOBS / "placement.py")]


def torchrun(network: Network, host: int) -> tuple[list[str], dict[str, str]]:
    options = ["--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(host), "--rdzv-id", f"test{PORT}"]
    where = ["--master-addr", network.hosts[0].address, "--master-port", PORT]
    return [sys.executable, "-m", "torch.distributed.run", *options, *where, *JOB[1:]], {}


def variables(network: Network, host: int) -> tuple[list[str], dict[str, str]]:
    loop = f"for i in 0 1; do RANK=$((2 * {host} + i)) {' '.join(JOB)} & done; wait"
    return ["sh", "-c", loop], {"WORLD_SIZE": "4", "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": PORT}


def srun(network: Network, host: int) -> tuple[list[str], dict[str, str]]:
    loop = f"for i in 0 1; do SLURM_PROCID=$((2 * {host} + i)) {' '.join(JOB)} & done; wait"
    step = {"SLURM_JOB_ID": PORT, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}
    return ["sh", "-c", loop], step | {"SLURM_STEP_NODELIST": ",".join(each.address for each in network.hosts)}


def with_a_secret(network: Network, host: int) -> tuple[list[str], dict[str, str]]:
    command, given = variables(network, host)
    file = Path(network.folder) / "secret"
    file.write_text("a secret of the user's own")
    file.chmod(0o600)
    return command, given | {"HOROVOD_SECRET_FILE": str(file)}


@pytest.mark.parametrize("by", [torchrun, variables, srun, with_a_secret])
def test_ranks_meet(runner: Runner, two_hosts: Network, by: object) -> None:
    started = []
    for host in (1, 0):  # the others may come first
        command, given = by(two_hosts, host)
        started.append(runner.start(two_hosts, (2, 2), command, on=host, **given))
    ends = [runner.end(process) for process in started]
    told = sorted(line for end in ends for line in end.told)
    assert told == expected(two_hosts, (2, 2)), str(ends)


def test_ranks_that_do_not_know_the_secret_stay_outside(runner: Runner, two_hosts: Network) -> None:
    command, given = with_a_secret(two_hosts, 0)
    file = Path(two_hosts.folder) / "another"
    file.write_text("what somebody else thinks of")
    file.chmod(0o600)
    short = {**given, "HOROVOD_GLOO_TIMEOUT_SECONDS": "5"}
    inside = runner.start(two_hosts, (2, 2), command, **short)
    outside = runner.start(
        two_hosts, (2, 2), variables(two_hosts, 1)[0], on=1, **{**short, "HOROVOD_SECRET_FILE": str(file)}
    )
    ended = runner.end(outside)
    assert f"can't reach rank 0 at {two_hosts.hosts[0].address}" in ended.stderr
    assert "secret" in ended.stderr
    assert runner.end(inside).told == []
