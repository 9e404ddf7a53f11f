"""Jobs that jsrun and mpirun start for horovodrun, what LSF says of them, and hosts that can't be reached.

There is no LSF here, and no jsrun: a stand-in starts the ranks of a resource file on this host, as jsrun would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import Launch, launcher
from horovod.runner import host_check, js_run
from horovod.runner.blame import Raised
from horovod.runner.common.util.settings import Settings
from horovod.runner.external import ExternalLauncherError, launch_external
from horovod.runner.launch import make_settings, parse_args, run_commandline
from horovod.runner.util import lsf
from horovod.runner.util.cache import FILE_NAME, Cache, use_cache
from horovod.runner.util.remote import get_remote_command

STAND_IN = """#!{python}
import os, re, subprocess, sys
assert sys.argv[1] == "--erf_input", sys.argv
with open(sys.argv[2]) as file:
    ranks = re.findall(r"rank: (\\d+): {{ hostname: (\\S+);", file.read())
with open(os.environ["JSRUN_SEEN"], "w") as file:
    file.write(" ".join(sys.argv[3:]))
started = []
for rank, host in ranks:
    mine = dict(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=str(len(ranks)), PMIX_NAMESPACE=str(os.getpid()))
    mine |= dict(OMPI_COMM_WORLD_LOCAL_RANK=rank, OMPI_COMM_WORLD_LOCAL_SIZE=str(len(ranks)))
    command = sys.argv[3:] if sys.argv[3] != "--smpiargs" else sys.argv[5:]
    started.append(subprocess.Popen(command, env=os.environ | mine | {{"HOROVOD_CONTROLLER": "gloo"}}))
sys.exit(max(process.wait() for process in started))
"""
LSCPU = "Thread(s) per core:  4\nCore(s) per socket:  21\nSocket(s):           2\n"
HELLO = """
import os
from horovod.common.basics import HorovodBasics
hvd = HorovodBasics()
hvd.init()
with open(os.environ["TOLD"] + str(hvd.rank()), "w") as file:
    file.write(f"{hvd.rank()} of {hvd.size()}, {os.environ['MASTER_ADDR']}")
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """First on the PATH, with no job around."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith(("LSB_", "SLURM_", "PBS_", "OMPI_", "PMI"))]:
        monkeypatch.delenv(name)
    lsf._ask_csm.cache_clear()
    lsf._topology_of.cache_clear()
    return folder


def add(folder: Path, name: str, text: str) -> str:
    program = folder / name
    program.write_text(text)
    program.chmod(0o700)
    return str(program)


@pytest.fixture
def in_lsf(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a job on four hosts' worth of slots, without CSM, where lscpu tells of a machine with jsrun."""
    monkeypatch.setenv("LSB_JOBID", "7")
    add(programs, "lscpu", f"#!/bin/sh\necho '{LSCPU}'\n")
    return programs


def test_hosts_of_an_lsf_job(in_lsf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="LSB_MCPU_HOSTS, LSB_DJOB_HOSTFILE and LSB_HOSTS"):
        lsf.LSFUtils.get_compute_hosts()
    monkeypatch.setenv("LSB_HOSTS", "a a b")
    assert lsf.LSFUtils.get_compute_hosts_and_slots() == {"a": 2, "b": 1}
    (in_lsf / "hosts").write_text("a\nb\nb\nb\n")
    monkeypatch.setenv("LSB_DJOB_HOSTFILE", str(in_lsf / "hosts"))
    monkeypatch.setenv("LSB_HOSTS", "")
    assert lsf.LSFUtils.get_compute_hosts_and_slots() == {"b": 3}, "a host with one slot beside larger ones launches"
    monkeypatch.setenv("LSB_MCPU_HOSTS", "a 1")
    assert make_settings(parse_args(["-np", "4", "train"])).hosts == "a:4"
    monkeypatch.setenv("LSB_MCPU_HOSTS", "a 4 b 2")
    settings = make_settings(parse_args(["train"]))
    assert (settings.hosts, settings.num_proc) == ("a:4,b:2", 6)
    assert make_settings(parse_args(["-np", "3", "-H", "c:4", "train"])).hosts == "c:4"
    assert lsf.LSFUtils.get_num_gpus() == 0


def test_hosts_of_a_machine_with_csm(in_lsf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = "echo '---\nallocation_id: 3\ncompute_nodes:\n - h1\n - h2\n...'"
    monkeypatch.setattr(lsf, "_ALLOCATION_QUERY", add(in_lsf, "allocation", f"#!/bin/sh\n[ $2 = 7 ] && {nodes}\n"))
    one = "echo '---\nRecord_1:\n  discovered_gpus: 6\n  discovered_cores: 44\n...'"
    monkeypatch.setattr(lsf, "_NODE_QUERY", add(in_lsf, "attributes", f"#!/bin/sh\n[ $2 = h1 ] && {one}\n"))
    monkeypatch.setattr(lsf.network, "filter_local_addresses", lambda names: [])
    settings = make_settings(parse_args(["--binding-args=-n 2", "train"]))
    assert (settings.hosts, settings.num_proc) == ("h1:6,h2:6", 12)
    path = js_run.generate_jsrun_rankfile(settings, str(tmp_path / "erf"))
    lines = Path(path).read_text().splitlines()
    assert lines[:3] == ["overlapping_rs: allow", "cpu_index_using: logical", ""]
    assert [index for index, line in enumerate(lines) if not line] == [2, 9]  # before each host
    assert lines[3] == "rank: 0: { hostname: h1; cpu: {0-27} ; gpu: * ; mem: * }"
    assert lines[-1] == "rank: 11: { hostname: h2; cpu: {140-167} ; gpu: * ; mem: * }"
    with pytest.raises(ValueError, match="Host h1 has 7 slots and 6 GPUs"):
        js_run.generate_jsrun_rankfile(Settings(num_proc=2, hosts="h1:7"))
    add(in_lsf, "allocation", "#!/bin/sh\nexit 1\n")
    lsf._ask_csm.cache_clear()
    with pytest.raises(RuntimeError, match="allocation -j 7` failed. Name the hosts with -H"):
        make_settings(parse_args(["train"]))


def test_jsruns_command_line() -> None:
    settings = Settings(num_proc=2, hosts="a:2", tcp_flag=True, output_filename="out dir", extra_mpi_args="-async")
    assert js_run.get_command(settings, "the erf", ["python", "a b"]) == (
        "jsrun --erf_input 'the erf' --stdio_stderr 'out dir' --stdio_stdout 'out dir' --smpiargs '-tcp -async' "
        "python 'a b'"
    )
    assert js_run.get_command(Settings(2, "a:2", binding_args="-n 2 -g 1"), None, "run") == "jsrun -n 2 -g 1 run"


def test_a_job_that_jsrun_starts(in_lsf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    add(in_lsf, "jsrun", STAND_IN.format(python=sys.executable))
    for name, value in {"TOLD": tmp_path / "told", "JSRUN_SEEN": tmp_path / "seen", "TMPDIR": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("LSB_MCPU_HOSTS", "localhost 2")
    monkeypatch.setattr("horovod.runner.launch.mpi_built", lambda verbose=False: True)
    run_commandline(["--tcp", sys.executable, "-c", HELLO])  # neither -np nor --jsrun: the job says both
    assert [(tmp_path / f"told{rank}").read_text() for rank in (0, 1)] == ["0 of 2, localhost", "1 of 2, localhost"]
    assert (tmp_path / "seen").read_text().startswith("--smpiargs -tcp ")
    assert not list(tmp_path.glob("horovod-jsrun-*"))
    with pytest.raises(SystemExit) as exit_info:
        run_commandline(["--jsrun", "sh", "-c", "exit 7"])
    assert exit_info.value.code == 7


def test_no_jsrun(in_lsf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LSB_MCPU_HOSTS", "localhost 2")
    monkeypatch.setattr("horovod.runner.launch.mpi_built", lambda verbose=False: True)
    with pytest.raises(SystemExit):
        run_commandline(["--jsrun", "true"])
    assert "horovod does not find the jsrun command" in capsys.readouterr().err


# --- hosts ---


def test_hosts_are_checked_at_once_and_each_failure_is_told(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_check, "_PAUSE_SECONDS", 0.01)
    asked = tmp_path / "asked"
    text = f'#!/bin/sh\necho $1 >> {asked}\ncase $1 in good*) exit 0;; esac\necho "no route to $1" >&2\nexit 255\n'
    settings = Settings(num_proc=3, hosts="x:1", remote_shell=add(programs, "agent", text))
    cache = Cache(str(tmp_path / "cache"), 60, "of this job")
    with pytest.raises(RuntimeError) as error:
        host_check.check_hosts(settings, ["bad1", "good1", "bad2"], cache)
    hint = "This name does not resolve here either: check it, or give the address"
    assert str(error.value).splitlines() == [
        f"Could not reach host {name}: the remote shell ended with status 255: no route to {name}. {hint}"
        for name in ("bad1", "bad2")
    ]
    assert sorted(asked.read_text().split()) == ["bad1"] * 5 + ["bad2"] * 5 + ["good1"]
    host_check.check_hosts(settings, ["good1", "good2"], Cache(str(tmp_path / "cache"), 60, "of this job"))
    assert asked.read_text().split()[-2:].count("good2") == 1
    assert asked.read_text().split().count("good1") == 1
    host_check.check_hosts(settings, ["good1"], Cache(str(tmp_path / "cache"), 60, "of another job"))
    assert asked.read_text().split()[-1] == "good1"


def test_mpirun_comes_after_the_check(
    programs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(programs, "mpirun", "#!/bin/sh\necho Open MPI\n")
    monkeypatch.setattr(host_check, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("horovod.runner.launch.mpi_built", lambda verbose=False: True)
    command = ["--mpi", "--disable-cache", "-np", "1", "-H", "203.0.113.9:1", "--rsh-agent", "false", "true"]
    with pytest.raises(SystemExit):
        run_commandline(command)
    assert "Could not reach host 203.0.113.9" in capsys.readouterr().err
    monkeypatch.setenv("PBS_JOBID", "3")
    run_commandline(command)


def test_what_is_cached(tmp_path: Path) -> None:
    calls = []

    @use_cache()
    def ask(host: str, port: int = 22) -> int:
        calls.append(host)
        return len(calls)

    cache = Cache(str(tmp_path), 60, "x")
    assert [ask("a", fn_cache=cache), ask("a", fn_cache=cache), ask("a", port=3, fn_cache=cache)] == [1, 1, 2]
    assert ask("a") == 3
    assert ask("a", fn_cache=Cache(str(tmp_path), 60, "x")) == 1
    assert ask("a", fn_cache=Cache(str(tmp_path), 0, "x")) == 4, "too old"
    (tmp_path / FILE_NAME).write_text("[no cache")
    assert Cache(str(tmp_path), 60, "x").get("a") is None


def test_remote_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_plm_rsh_agent", raising=False)
    assert get_remote_command("'a b'", "host", port=5, identity_file="my key", timeout_s=3) == (
        "ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no host -p 5 -i 'my key' -o ConnectTimeout=3 'a b'"
    )
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh")
    assert get_remote_command("'a b'", "host", port=5) == "/etc/mpi/kubexec.sh host 'a b'"


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_mpirun_once(programs: Path, tmp_path: Path, number: signal.Signals) -> None:
    got = tmp_path / "got"
    traps = "".join(f"trap 'echo {name} >> {got}; exit 3' {name}\n" for name in ("INT", "TERM"))
    version = 'case $1 in --version) echo "mpirun (Open MPI) 4.1.4"; exit;; esac\n'
    add(programs, "mpirun", f"#!/bin/bash\n{version}{traps}echo ready\nwhile :; do read -t 1 < <(sleep 1); done\n")
    code = "import horovod.runner.launch as l; l.mpi_built = lambda verbose=False: True; l.run_commandline()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--mpi", "-np", "1", "true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert f"The job was ended by {number.name}." in error
    assert got.read_text().split() == [number.name[3:]]


def test_a_batch_systems_host_file(horovodrun: Launch, tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text("localhost\nlocalhost\n")
    done = horovodrun("-np", "2", "--hostfile", str(file), "sh", "-c", "echo $HOROVOD_RANK of $HOROVOD_SIZE")
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:0 of 2", "[1]<stdout>:1 of 2"], launcher()


def test_a_rank_that_ends_before_its_function_returns_has_no_result() -> None:
    def run(environment: Mapping[str, str]) -> None:
        for rank, result in enumerate((b"result", b"")):  # the file is opened before the function is called
            (Path(environment["_RODA_TASK_FOLDER"]) / f"result.{rank}").write_bytes(result)

    assert launch_external(run, Settings(2, ""), {}, b"call") == {0: b"result"}


def test_the_caller_gets_what_the_function_raised_on_the_rank_at_fault() -> None:
    raised = [Raised(RuntimeError("quotes rank 1"), is_own=False), Raised(KeyError("label 17"))]

    def run(environment: Mapping[str, str]) -> None:
        for rank, each in enumerate(raised):
            (Path(environment["_RODA_TASK_FOLDER"]) / f"result.{rank}").write_bytes(each.pickled())
        raise ExternalLauncherError("mpirun", 1)

    with pytest.raises(ExternalLauncherError) as caught:
        launch_external(run, Settings(3, ""), {}, b"call")
    error = caught.value.__cause__
    assert isinstance(error, KeyError)
    if sys.version_info >= (3, 11):
        assert error.__notes__[0].startswith("Where the function of rank 1 raised it:\n")
