"""Jobs without a framework: what the launcher does with processes."""

from __future__ import annotations

import os
import re
import resource
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import horovod.runner
import psutil
import pytest
from conftest import FIELDS, PYTHON, Launch, alive, sh


def numbers_of(output: str) -> list[list[int]]:
    return sorted([int(x) for x in line.partition(":")[2].split()] for line in output.splitlines())


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]], ids=["static", "elastic"])
def test_every_process_gets_its_numbers(horovodrun: Launch, elastic: list[str]) -> None:
    done = horovodrun("-np", "3", *elastic, *sh("echo " + " ".join(f"$HOROVOD_{name}" for name in FIELDS)))
    assert done.returncode == 0
    assert numbers_of(done.stdout) == [[0, 3, 0, 3, 0, 1], [1, 3, 1, 3, 0, 1], [2, 3, 2, 3, 0, 1]]


def test_an_elastic_job_has_the_variables_of_a_static_one(horovodrun: Launch) -> None:
    listed = [horovodrun("-np", "2", *more, *sh("env")).stdout for more in ([], ["--min-np", "2"])]
    static, elastic = (set(re.findall(r"<stdout>:([A-Z_]+)=", text)) for text in listed)
    assert static - elastic == {"HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME"} & static
    assert {"HOROVOD_RANK", "HOROVOD_CROSS_SIZE", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} < elastic


def test_exactly_as_many_processes_as_asked_for(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", "-H", "localhost:4", *sh("echo $HOROVOD_RANK"))
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:0", "[1]<stdout>:1"]
    done = horovodrun("-np", "5", "-H", "localhost:4", *sh("true"))
    assert done.returncode != 0
    assert "Requested more processes (5) than there are available slots (4)" in done.stderr


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]])
@pytest.mark.parametrize("hosts", ["localhost:1,localhost:1", "203.0.113.9:0,localhost:2"])
def test_hosts_that_are_named_twice_or_have_no_slots(horovodrun: Launch, hosts: str, elastic: list[str]) -> None:
    code = "from horovod.common.basics import HorovodBasics as B; b = B(); b.init(); print(b.rank(), b.local_size())"
    done = horovodrun("-np", "2", *elastic, "-H", hosts, PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr
    assert numbers_of(done.stdout) == [[0, 2], [1, 2]]


def test_variables_reach_the_processes_and_the_secret_does_not(horovodrun: Launch) -> None:
    environment = dict(os.environ, TEST_QUOTES="a 'b' \"c\" $d", _HOROVOD_SECRET_KEY="x", CUDA_VISIBLE_DEVICES="7")
    done = horovodrun(
        "-np", "1", "--cycle-time-ms", "3", PYTHON, "-c", "import os; print(dict(os.environ))", env=environment
    )
    seen = eval(done.stdout.partition(":")[2])  # noqa: S307 (our own output)
    assert seen["TEST_QUOTES"] == environment["TEST_QUOTES"]
    assert seen["HOROVOD_CYCLE_TIME"] == "3.0"
    assert seen["PYTHONUNBUFFERED"] == "1"
    assert seen["HOROVOD_CONTROLLER"] == "gloo"
    assert "HOROVOD_CPU_OPERATIONS" not in seen or "HOROVOD_CPU_OPERATIONS" in os.environ
    assert "_HOROVOD_SECRET_KEY" not in seen
    assert "CUDA_VISIBLE_DEVICES" not in seen


def test_the_secret_comes_by_a_descriptor_and_is_the_same_for_all(horovodrun: Launch) -> None:
    code = "import os; print(os.read(int(os.environ['HOROVOD_SECRET_FD']), 100).hex())"
    done = horovodrun("-np", "2", PYTHON, "-c", code)
    secrets = [line.partition(":")[2] for line in done.stdout.splitlines()]
    assert len(secrets) == 2
    assert secrets[0] == secrets[1]
    assert len(bytes.fromhex(secrets[0])) == 32
    assert horovodrun("-np", "1", PYTHON, "-c", code).stdout.partition(":")[2].strip() != secrets[0]


def test_programs_that_a_rank_starts_without_its_descriptors_find_the_job(horovodrun: Launch) -> None:
    code = "from horovod.common.basics import HorovodBasics as B; b = B(); b.init(); print(b.rank(), b.size())"
    outer = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"
    done = horovodrun("-np", "2", PYTHON, "-c", outer)
    assert done.returncode == 0, done.stderr
    assert numbers_of(done.stdout) == [[0, 2], [1, 2]]


def test_ranks_share_the_cores(horovodrun: Launch) -> None:
    cores = len(os.sched_getaffinity(0))
    tell = sh("echo ${OMP_NUM_THREADS:-0} $([ -z $OMP_WAIT_POLICY ]; echo $?)")
    bare = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    first, second = numbers_of(horovodrun("-np", "2", *tell, env=bare).stdout)
    assert first == second
    assert 1 <= first[0] <= max(1, cores // 2)
    assert first[1] == (1 if cores == 1 else 0)
    many = numbers_of(horovodrun("-np", str(cores + 1), *tell, env=bare).stdout)
    assert many == [[1, 1]] * (cores + 1)  # threads that wait do not spin
    given = numbers_of(horovodrun("-np", "2", *tell, env={**bare, "OMP_NUM_THREADS": str(cores * 3)}).stdout)
    assert given == [[cores * 3, 1]] * 2


def test_more_threads_than_cores_are_told_once(horovodrun: Launch) -> None:
    code = "from horovod.common.basics import HorovodBasics; HorovodBasics().init()"
    cores = len(os.sched_getaffinity(0))
    for threads, told in ((cores * 2, 1), (1, 0)):
        done = horovodrun("-np", "2", PYTHON, "-c", code, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        assert done.returncode == 0, done.stderr
        assert len(done.stderr.splitlines()) == done.stderr.count("slow each other down") == told, done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_the_engines_threads_are_pinned_where_the_user_says(horovodrun: Launch) -> None:
    code = """if True:
        import os
        from horovod.common import operations
        from horovod.common.basics import HorovodBasics as B
        from horovod.common.process_sets import global_process_set
        B().init()
        masks = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
        operations.barrier(global_process_set)  # the end of one rank is that of all engines
        print(*sorted(str(*mask) if len(mask) == 1 else "many" for mask in masks)[::-1])"""
    first, *_, last = sorted(os.sched_getaffinity(0))

    def run(cores: str) -> tuple[list[str], str]:
        done = horovodrun("-np", "2", PYTHON, "-c", code, env={**os.environ, "HOROVOD_THREAD_AFFINITY": cores})
        assert done.returncode == 0
        return sorted(done.stdout.splitlines()), done.stderr

    assert run(f"{last},{first}") == ([f"[0]<stdout>:many {last}", f"[1]<stdout>:many {first}"], "")
    free = ["[0]<stdout>:many many", "[1]<stdout>:many many"]
    lines, told = run(f"{first}")
    assert lines == free
    assert f"HOROVOD_THREAD_AFFINITY={first}: it names 1 core for 2 ranks of this host" in told
    assert told.count("\n") == 1
    lines, told = run(f"{first},4000")
    assert lines == [f"[0]<stdout>:many {first}", free[1]]
    assert "[1]: HOROVOD_THREAD_AFFINITY" in told
    assert "core 4000 can't be used: Invalid argument; the engine's thread is not pinned" in told


def test_torchs_variables(horovodrun: Launch) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT")
    stale = {**os.environ, "RANK": "7"}
    done = horovodrun("-np", "2", *sh("echo " + " ".join(f"${name}" for name in names)), env=stale)
    first, second = numbers_of(done.stdout)
    assert first == [0, 2, 0, 2, 0, first[-1]]
    assert second == [1, 2, 1, 2, 0, first[-1]]
    assert horovodrun("-np", "1", *sh("echo $MASTER_ADDR")).stdout == "[0]<stdout>:127.0.0.1\n"


def test_output_of_both_streams(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", *sh("echo out; echo err >&2; printf 'no newline'"))
    assert sorted(done.stdout.replace("newline[", "newline\n[").splitlines()) == [
        "[0]<stdout>:no newline",
        "[0]<stdout>:out",
        "[1]<stdout>:no newline",
        "[1]<stdout>:out",
    ]
    assert sorted(done.stderr.splitlines()) == ["[0]<stderr>:err", "[1]<stderr>:err"]


def test_much_output(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", PYTHON, "-c", "for i in range(20000): print(i, 'x' * 50)")
    assert len(done.stdout.splitlines()) == 40000


@pytest.mark.parametrize(
    ("script", "code", "by"),
    [
        ("exit 7", 7, ""), ("exit 137", 137, ""), ("kill -9 $$", 137, "SIGKILL"), ("kill -SEGV $$", 139, "SIGSEGV"),
        ("kill -40 $$", 168, "signal 40"),
    ],
)  # fmt: skip
def test_a_failure_ends_the_job_with_its_status(horovodrun: Launch, script: str, code: int, by: str) -> None:
    done = horovodrun("-np", "3", *sh(f"if [ $HOROVOD_RANK = 1 ]; then {script}; fi; exec sleep 1000"))
    assert done.returncode == code
    assert f"Process 1 exit with status code {code}." in done.stderr
    assert "Terminating remaining workers after failure of Process 1." in done.stderr
    assert "one or more processes exited with non-zero status" in done.stderr
    assert f"Process name: 1\nExit code: {code}\n" in done.stderr
    assert done.stderr.count(f" Rank 1 was ended by {by}.\n") == done.stderr.count(f"Ended by: {by}\n") == bool(by)
    assert "Process 0 exit" not in done.stderr


def test_a_failure_after_others_finished(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", *sh("if [ $HOROVOD_RANK = 1 ]; then exit 3; fi"))
    assert done.returncode == 3


def test_an_interface_that_is_not_there_is_told_with_those_that_are(horovodrun: Launch) -> None:
    done = horovodrun("-np", "1", "--network-interfaces", "lo,eth99", *sh("true"))
    assert done.returncode == 2
    assert "'eth99' does not exist on this host" in done.stderr
    assert "lo (127.0.0.1)" in done.stderr
    assert horovodrun("-np", "1", "--network-interfaces", "lo", *sh("true")).returncode == 0


def test_an_interface_that_the_user_chose_stays(horovodrun: Launch) -> None:
    tell = sh("echo $HOROVOD_GLOO_IFACE")
    assert horovodrun("-np", "1", *tell, env={**os.environ, "HOROVOD_GLOO_IFACE": "x0"}).stdout == "[0]<stdout>:x0\n"
    bare = {name: value for name, value in os.environ.items() if name != "HOROVOD_GLOO_IFACE"}
    assert horovodrun("-np", "1", *tell, env=bare).stdout == "[0]<stdout>:lo\n"


def test_processes_that_ignore_the_polite_request(horovodrun: Launch) -> None:
    stubborn = "trap '' TERM; while :; do sleep 1000; done"
    script = f"if [ $HOROVOD_RANK = 1 ]; then exit 4; fi; {stubborn}"
    done = horovodrun("--termination-grace-seconds", "0.2", "-np", "2", *sh(script))
    assert done.returncode == 4


def test_a_command_that_is_not_there(horovodrun: Launch, tmp_path: Path) -> None:
    done = horovodrun("-np", "2", "no-such-command-anywhere")
    assert done.returncode == 127
    assert done.stderr == "horovodrun: cannot start no-such-command-anywhere: No such file or directory\n"
    (tmp_path / "text").write_text("no program")
    done = horovodrun("-np", "2", str(tmp_path / "text"))
    assert (done.returncode, done.stderr) == (127, f"horovodrun: cannot start {tmp_path}/text: Permission denied\n")


@pytest.mark.parametrize(
    ("files", "job"), [(14, ("-np", "2")), (16, ("-np", "2", "--min-np", "2")), (26, ("-np", "24"))], ids=str
)
def test_too_many_open_files_name_the_limit(horovodrun: Launch, files: int, job: tuple[str, ...]) -> None:
    """The launcher meets it, or the agent that starts the ranks."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    done = horovodrun(*job, "true", preexec_fn=limit)
    assert done.returncode != 0
    assert f"a process may have {files} here (RLIMIT_NOFILE); raise that with `ulimit -n`" in done.stderr
    assert "Traceback" not in done.stderr


def test_ranks_of_a_host_are_scheduled_together(horovodrun: Launch) -> None:
    done = horovodrun("-np", "2", sys.executable, "-c", "import os; print(os.getsid(0), os.getpgrp() - os.getpid())")
    assert done.returncode == 0
    [first, second] = numbers_of(done.stdout)
    assert first == second, "sessions are scheduled against each other: a rank could not yield its core to another"
    assert first[1] == 0, "each leads a process group, by which it is signalled"


# Three processes per rank: a shell, its child, and one that left for a session of its own.
FAMILY = "setsid sleep {0} & sleep {0} & echo ready; sleep {0}; wait"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing_behind(
    start_horovodrun: Callable[..., subprocess.Popen[str]], marker: str, number: signal.Signals
) -> None:
    process = start_horovodrun("-np", "2", *sh(FAMILY.format(marker)))
    assert "ready" in process.stdout.readline()
    assert "ready" in process.stdout.readline()
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    assert not alive(marker)


@pytest.mark.parametrize(("grace", "killed"), [(5.0, 5.0), (0.2, 3.2), (3.5, 4.0)])
def test_records_are_saved_within_the_grace_time(monkeypatch: pytest.MonkeyPatch, grace: float, killed: float) -> None:
    """By a clock of the test's own, as saving takes all of the time that it may."""
    agent = runpy.run_path(str(Path(horovod.runner.__file__).with_name("agent.py")))
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    told = []

    def save(command: list[str], timeout: float, **_: object) -> None:
        clock[0] += timeout
        told.append("saved")

    monkeypatch.setattr(subprocess, "run", save)
    monkeypatch.setitem(agent["Agent"].terminate.__globals__, "signal_all", told.append)
    environment = {"RODA_FLIGHT_FOLDER": "/nowhere"}
    host = agent["Agent"]({"secret": "", "grace": grace, "environment": environment, "add_to_environment": False})
    host.rank_of_pid = {1: 0}
    for _ in range(2):
        host.terminate()
    assert told == ["saved", signal.SIGTERM]
    assert host.kill_at == pytest.approx(100 + killed)


def test_a_killed_launcher_leaves_nothing_behind(
    start_horovodrun: Callable[..., subprocess.Popen[str]], marker: str
) -> None:
    process = start_horovodrun("--termination-grace-seconds", "0.2", "-np", "2", *sh(FAMILY.format(marker)))
    assert "ready" in process.stdout.readline()
    assert "ready" in process.stdout.readline()
    while len(left := alive(marker)) < 6:  # a shell may say so before its children are what they become
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    _, stuck = psutil.wait_procs(left, timeout=60)
    assert not stuck


def test_what_a_finished_rank_left_running_is_ended(horovodrun: Launch, marker: str) -> None:
    done = horovodrun(
        "--termination-grace-seconds", "0.2", "-np", "2", *sh(f"setsid sleep {marker} & sleep {marker} & exit 0")
    )
    assert done.returncode == 0
    assert not alive(marker)


def test_strangers_on_the_rendezvous_port_do_no_harm(start_horovodrun: Callable[..., subprocess.Popen[str]]) -> None:
    code = (
        "import os, sys; print(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT'], flush=True);"
        "import horovod.common.basics as b; h = b.HorovodBasics();"
        "sys.stdin.read(0); h.init(); print(h.rank(), h.size(), flush=True); h.shutdown()"
    )
    process = start_horovodrun("-np", "2", PYTHON, "-c", code)
    port = int(process.stdout.readline().partition(":")[2])
    strangers = []
    for garbage in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096, b"\x00" * 64):
        stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
        stranger.sendall(garbage)
        strangers.append(stranger)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "0 2" in out
    assert "1 2" in out
    for stranger in strangers:
        stranger.close()


def test_version_and_check_build(horovodrun: Launch) -> None:
    assert horovodrun("--version").stdout.split()[0] == horovod.__version__
    done = horovodrun("--check-build")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"Horovod v{horovod.__version__}:"
    assert lines[2] == "Available Frameworks:"
    assert [line[8:] for line in lines[3:6]] == ["TensorFlow", "PyTorch", "MXNet"]
    assert "    [X] PyTorch" in lines
    assert [line[8:] for line in lines[-5:]] == ["NCCL", "DDL", "CCL", "MPI", "Gloo"]


def test_a_part_of_the_ranks_needs_a_launcher_that_can_share_them_out(horovodrun: Launch) -> None:
    script = "from horovod.common.basics import HorovodBasics; HorovodBasics().init(comm=[0])"
    done = horovodrun("-np", "2", "--gloo", PYTHON, "-c", script)
    assert done.returncode != 0
    assert "init with a list of 1 of the job's 2 ranks needs a launcher" in done.stderr
