"""Jobs of Slurm, and examples/hpc's scripts for it, on two hosts: its own daemons run here, configured for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HPC, JOBS, Runner, with_training
from network import Network
from test_jobs import expected

READY_SECONDS = 60
PORT = 20_000 + os.getpid() % 10_000
# No accounting, no control groups, and nobody has to prove anything: the daemons are seen by the test's hosts alone.
CONFIGURATION = """
ClusterName=roda
SlurmctldHost={first.name}({first.address})
SlurmctldPort={control}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
"""
NODE = "NodeName={0.name} NodeAddr={0.address} CPUs=4\n"


class Slurm:
    """The daemons, and the hosts that they run on."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network, self._folder = network, folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        first = network.hosts[0]
        text = CONFIGURATION.format(first=first, control=PORT, node=PORT + 1, folder=folder)
        text += "".join(NODE.format(host) for host in network.hosts) + "PartitionName=all Nodes=ALL Default=YES\n"
        (folder / "slurm.conf").write_text(text)
        names = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in network.hosts)]
        (folder / "hosts").write_text("\n".join(names) + "\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # not looked for, and not used
        (folder / "state").mkdir()

    def start(self) -> None:
        """Start the daemons and wait until they know each other; what a daemon says goes to its log."""
        for i, host in enumerate(self.network.hosts):
            for kind in ("spool", "tmp"):
                (self._folder / f"{kind}.{host.name}").mkdir()
            for daemon in ("slurmctld -D -i", f"slurmd -D -N {host.name}")[min(i, 1) :]:
                command = self.network.command(host, ["sh", "-c", f"{self._names()}; exec {daemon}"])
                self._daemons.append(
                    subprocess.Popen(
                        command, env={**os.environ, **self.variables}, stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                    )
                )  # fmt: skip
        deadline = time.monotonic() + READY_SECONDS
        while self._idle() < len(self.network.hosts):
            if any(daemon.poll() is not None for daemon in self._daemons):
                pytest.skip(f"Slurm's daemons don't run here: {self.said()}")
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def _names(self) -> str:
        return f"mount --bind {self._folder}/hosts /etc/hosts"

    def _idle(self) -> int:
        command = self.network.command(self.network.hosts[0], ["sinfo", "--noheader", "--states=idle", "--format=%D"])
        done = subprocess.run(
            command, env={**os.environ, **self.variables}, text=True, capture_output=True, check=False
        )
        return sum(int(line) for line in done.stdout.split())

    def said(self) -> str:
        """Return the daemons' logs."""
        return "\n".join(f"{path.name}\n{path.read_text()}" for path in sorted(self._folder.glob("*.log")))

    def command(self, *words: str) -> list[str]:
        """Return a command line for the first host, where the hosts' names resolve."""
        return ["sh", "-c", f'{self._names()}; exec "$@"', "sh", *words]

    def stop(self) -> None:
        """End the daemons."""
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(timeout=READY_SECONDS)


@pytest.fixture(scope="module")
def slurm(two_hosts: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Slurm on the two hosts."""
    missing = [name for name in ("slurmctld", "slurmd", "srun") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"Slurm is not installed: there is no {', no '.join(missing)}")
    slurm = Slurm(two_hosts, tmp_path_factory.mktemp("slurm"))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


def run(runner: Runner, slurm: Slurm, *words: str, **variables: str) -> object:
    command = slurm.command(*words)
    return runner.end(runner.start(slurm.network, (2, 2), command, **slurm.variables, **variables))


JOB = (sys.executable, str(JOBS / "placement.py"))


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_ranks_meet(runner: Runner, slurm: Slurm, mpi: str) -> None:
    done = run(runner, slurm, "srun", f"--mpi={mpi}", "--nodes=2", "--ntasks-per-node=2", *JOB)
    assert done.status == 0, f"{done}\n{slurm.said()}"
    assert done.told == expected(slurm.network, (2, 2)), str(done)


def test_steps_of_a_batch_script(runner: Runner, slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "script"
    job = " ".join(JOB)
    # Two steps at a time, and the script itself, which is a job of its own.
    lines = ["#!/bin/sh", f"srun --overlap {job} & srun --overlap {job} & wait", f"{job}"]
    script.write_text("\n".join(lines) + "\n")
    options = ["--wait", "--nodes=2", "--ntasks-per-node=2", f"--output={tmp_path}/output"]
    done = run(runner, slurm, "sbatch", *options, str(script))
    assert done.status == 0, f"{done}\n{(tmp_path / 'output').read_text()}"
    alone = f"rank 0 of 1, local 0 of 1, cross 0 of 1, {slurm.network.hosts[0].name}, True"
    assert done.told == sorted([*expected(slurm.network, (2, 2)) * 2, alone]), str(done)


@pytest.mark.parametrize("mpi", ["none", "pmix"])
def test_a_rank_that_does_not_come_is_told_with_the_size(runner: Runner, slurm: Slurm, mpi: str) -> None:
    late = ["sh", "-c", 'test "$SLURM_PROCID" = 3 || exec "$@"', "sh", *JOB]
    done = run(
        runner, slurm, "srun", "--nodes=2", "--ntasks-per-node=2", "--kill-on-bad-exit=0", f"--mpi={mpi}", *late,
        HOROVOD_GLOO_TIMEOUT_SECONDS="6",
    )  # fmt: skip
    assert done.status != 0
    assert done.told == []
    if mpi == "none":
        assert "rank 3 of 4 has not come" in done.stderr, str(done)
    else:  # which waits for all, and doesn't say for whom
        assert "this is rank 0 of 4 of srun with PMIx" in done.stderr, str(done)
    assert "HOROVOD_GLOO_TIMEOUT_SECONDS" in done.stderr


def test_mpi_that_is_asked_for_without_pmi(runner: Runner, slurm: Slurm) -> None:
    """Without PMI each rank would be an MPI job of its own, and train alone."""
    step = ("srun", "--mpi=none", "--nodes=2", "--ntasks-per-node=1")
    done = run(runner, slurm, *step, *JOB, HOROVOD_CONTROLLER="mpi")
    assert done.status != 0
    assert done.told == []
    assert done.stderr.count("ValueError: Horovod initialization failed. HOROVOD_CONTROLLER='mpi', but another") == 2


def test_examples(runner: Runner, slurm: Slurm, tmp_path: Path) -> None:
    """All at once: sbatch looks for a job's end every ten seconds."""
    scripts = ["slurm_srun.sh", "slurm_horovodrun.sh", *(["slurm_mpirun.sh"] if shutil.which("mpirun.openmpi") else [])]
    # Agents of this test's network would do without srun.
    given = slurm.variables | {"HOROVOD_RSH_AGENT": "false", "OMPI_MCA_plm_rsh_agent": "false"}
    options = ["--wait", "--ntasks-per-node=2", f"--chdir={with_training(tmp_path)}"]
    started = {}
    for script in scripts:
        command = slurm.command("sbatch", *options, f"--output={tmp_path}/{script}.log", str(HPC / script))
        started[script] = runner.start(slurm.network, (2, 2), command, **given)
    for script, process in started.items():
        done = runner.end(process)
        assert done.status == 0, f"{done}\n{(tmp_path / f'{script}.log').read_text()}\n{slurm.said()}"
        assert done.told == expected(slurm.network, (2, 2)), str(done)


def test_horovodrun_in_an_allocation(runner: Runner, slurm: Slurm) -> None:
    done = run(runner, slurm, "salloc", "--ntasks=2", "--nodes=1", "horovodrun", "-np", "2", *JOB)
    assert done.status == 0, str(done)
    assert [line.split(",")[0] for line in done.told] == ["rank 0 of 2", "rank 1 of 2"]
