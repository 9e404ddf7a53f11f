"""Jobs of launchers that only tell each process its numbers, and where rank 0 is; and batch systems' scripts.

Of LSF, PBS and SGE there is only what they tell a script. jsrun is a stand-in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import HPC, JOBS, Runner, with_training
from network import Network
from test_jobs import expected

PORT = str(20_000 + os.getpid() % 10_000)
JOB = [sys.executable, str(JOBS / "placement.py")]
# Starts the ranks of a resource file on its hosts, over what stands in for ssh.
JSRUN_STAND_IN = f"""#!{sys.executable}
import os, re, shlex, subprocess, sys
assert sys.argv[1] == "--erf_input", sys.argv
ranks = re.findall(r"rank: (\\d+): {{ hostname: (\\S+);", open(sys.argv[2]).read())
started = []
for rank, host in ranks:
    before = [other for other, there in ranks if there == host and int(other) < int(rank)]
    sharers = sum(there == host for _, there in ranks)
    mine = dict(RANK=rank, SIZE=len(ranks), LOCAL_RANK=len(before), LOCAL_SIZE=sharers)
    words = [f"OMPI_COMM_WORLD_{{name}}={{value}}" for name, value in mine.items()]
    words += ["PMIX_NAMESPACE=jsrun", "HOROVOD_CONTROLLER=gloo", *sys.argv[3:]]
    started.append(subprocess.Popen([os.environ["HOROVOD_RSH_AGENT"], host, shlex.join(["env", *words])]))
sys.exit(max(process.wait() for process in started))
"""


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


def lsf(network: Network, folder: Path) -> dict[str, str]:
    programs = {
        "jsrun": JSRUN_STAND_IN,
        "lscpu": "#!/bin/sh\necho 'Thread(s) per core: 4\nCore(s) per socket: 21\nSocket(s): 2'\n",
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)
    first, second = network.hosts
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"LSB_JOBID": PORT, "LSB_MCPU_HOSTS": f"{first.address} 2 {second.address} 2", "PATH": path}


def pbs(network: Network, folder: Path) -> dict[str, str]:
    nodes = folder / "nodes"
    nodes.write_text("".join(f"{host.address}\n" * 2 for host in network.hosts))
    return {"PBS_NODEFILE": str(nodes), "PBS_O_WORKDIR": str(folder)}


def sge(network: Network, folder: Path) -> dict[str, str]:
    slots = folder / "slots"
    slots.write_text("".join(f"{host.address} 2 all.q@{host.address} UNDEFINED\n" for host in network.hosts))
    return {"PE_HOSTFILE": str(slots), "NSLOTS": "4"}


@pytest.mark.parametrize("batch", [lsf, pbs, sge])
def test_example_of_a_batch_system(
    runner: Runner, two_hosts: Network, tmp_path: Path, batch: Callable[[Network, Path], dict[str, str]]
) -> None:
    script = ["sh", "-c", f"cd {with_training(tmp_path)} && exec bash {HPC}/{batch.__name__}.sh"]
    done = runner.end(runner.start(two_hosts, (2, 2), script, **batch(two_hosts, tmp_path)))
    assert done.status == 0, str(done)
    assert done.told == expected(two_hosts, (2, 2)), str(done)


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
