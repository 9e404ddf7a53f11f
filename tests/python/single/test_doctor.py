"""The doctor: what it finds on machines that lack this and that, and what its status says."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import horovod
import pytest
from examination import DOCTOR, QUICK, examine, find, findings, program, write
from horovod.child import Ended, run
from horovod.conflict import source
from horovod.doctor import machine, page, selftest, software
from horovod.doctor.finding import ABSENT, BROKEN, OK, WARNING, Finding, pip_line
from horovod.doctor.loader import explain, runs_on_musl

PACKAGE = Path(horovod.__file__).parent
Found = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The page of a process that is part of another job, where a broken mpirun comes before the one that works."""
    broken = program(tmp_path_factory.mktemp("broken") / "mpirun", "exit 1")
    job = {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "192.0.2.1"}
    path = f"{broken.parent}:{os.environ['PATH']}"
    status, found = findings(*DOCTOR, "shm", "tcp", "job", PATH=path, **job)
    assert status == 0  # nobody asked for MPI
    return found


def test_the_whole_page(everything: Found, capsys: pytest.CaptureFixture[str]) -> None:
    page._print_text([Finding(**each) for each in everything.values()], ["shm", "job"], [], is_verbose=True)
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].endswith(": All that was asked for is usable: shm, job.")
    for text in ("Installation", "Transports", "Frameworks", "MPI", "Machine", "Self-test"):
        assert f"\n{text}\n" in printed
    assert max(map(len, (line for line in printed.splitlines() if "->" not in line and "/" not in line))) <= 120


def test_a_page_has_what_is_not_in_order_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        Finding("Installation", "Python", OK, "3.11", path="/usr/bin/python"),
        Finding("Transports", "shm", OK, "shared memory", path="/lib/roda_shm.so"),
        Finding("Frameworks", "jax", ABSENT, "is not installed", "pip install jax"),
        Finding("Frameworks", "ray", ABSENT, "is not installed", "pip install ray"),
        Finding("Frameworks", "keras", BROKEN, "fails", "export KERAS_BACKEND=torch"),
        Finding("Machine", "clock", WARNING, "hpet", "use tsc"),
    ]
    page._print_text(found, ["shm", "keras"], ["keras"], is_verbose=False)
    verdict, *lines = capsys.readouterr().out.splitlines()
    assert verdict.endswith(": Not usable: keras.")
    assert [line.strip() for line in lines if line] == [
        "Transports", "ok     shm    shared memory",
        "Frameworks", "BROKEN keras  fails", "-> export KERAS_BACKEND=torch",
        "Machine", "look   clock  hpet", "-> use tsc",
        "Not here, and not asked for: jax, ray.",
        "In order: 1 more thing (-v: all of this with paths).",
    ]  # fmt: skip


def test_every_usable_transport_is_tested_and_measured(everything: Found) -> None:
    usable = {name for (section, name), each in everything.items() if section == "Transports" and each["state"] == "ok"}
    tested = {name for section, name in everything if section == "Self-test"}
    assert tested == (usable - {"nccl", "cuda"}) | {"job"}
    assert everything["Self-test", "job"]["state"] == "ok"
    for name in ("shm", "tcp"):
        figures = everything["Self-test", name]["figures"]
        assert figures["GBps"] > 0
        assert figures["ceiling_GBps"] > 0


def test_a_broken_mpirun_comes_before_the_one_that_works(everything: Found) -> None:
    if ("Self-test", "mpi") in everything:
        assert everything["Self-test", "mpi"]["state"] == "broken"
        assert "no mpirun starts its ranks" in everything["Self-test", "mpi"]["text"]


def test_frameworks_that_are_not_there_tell_what_to_install(everything: Found) -> None:
    assert [name for section, name in everything if section == "Frameworks"] == list(software.FRAMEWORKS)
    spark = everything["Frameworks", "pyspark"]
    assert (spark["state"], spark["text"]) == (ABSENT, "is not installed")
    assert spark["mend"] == "pip install pyspark pandas pyarrow fsspec"


@pytest.mark.skipif(shutil.which("roda-info") is None, reason="the package's commands are not on the PATH")
def test_roda_info_is_the_same_and_limits_may_be_low() -> None:
    """As a user sees it, in a shell that lowers them."""
    quick = ("roda-info", "--doctor", "--no-self-test")
    status, found = findings(*quick, before="ulimit -S -n 256 && ulimit -S -l 64")
    assert status == 0
    files = found["Machine", "open files"]
    assert files["state"] == "warning"
    assert files["text"].startswith("256 at a time")
    assert files["mend"].startswith("ulimit -n ")
    assert "64 KiB" in found["Machine", "locked memory"]["text"]
    assert examine("roda-info", "--doctor", "--help").stdout.startswith("usage: roda-info --doctor")


@pytest.fixture
def found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where shm works, mpi says that it does, and jax is not installed."""
    found = [
        Finding("Installation", "engine", OK, "Roda"),
        Finding("Transports", "shm", OK, "shared memory"),
        Finding("Transports", "mpi", OK, "MPI"),
        Finding("Transports", "ucx", ABSENT, "this installation was built without it"),
        Finding("Frameworks", "jax", ABSENT, "is not installed", "pip install jax"),
    ]
    tested = [Finding("Self-test", name, state, "") for name, state in (("job", OK), ("shm", WARNING), ("mpi", BROKEN))]
    monkeypatch.setattr(page, "examine", lambda: found)
    monkeypatch.setattr(selftest, "examine", lambda usable: tested if usable == ["shm", "mpi"] else [])
    for variable in ("HOROVOD_CPU_OPERATIONS", "HOROVOD_GPU_OPERATIONS", "HOROVOD_CONTROLLER"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([], 0), (["engine"], 0), (["job", "shm"], 0), (["jax"], 1), (["mpi"], 1), (["shm", "mpi"], 1), (["ucx"], 1),
        (["mpi", "--no-self-test"], 0), (["job", "--no-self-test"], 1), (["smh"], 2), (["--no-such-option"], 2),
        (["--help"], 0), (["--json", "jax"], 1),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("found_here")
def test_what_was_asked_for_decides_the_status(arguments: list[str], status: int) -> None:
    assert page.main(arguments) == status


@pytest.mark.usefixtures("found_here")
def test_the_environment_asks_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOROVOD_CPU_OPERATIONS", "shm+mpi")
    assert page.main([]) == 1
    assert "Not usable: mpi." in capsys.readouterr().out
    assert page.main(["smh"]) == 2
    assert "no smh here; there are: engine, job, shm, mpi, ucx, torch" in capsys.readouterr().err
    assert software.asked_by({"HOROVOD_CPU_OPERATIONS": "SHM+tcp", "HOROVOD_CONTROLLER": "gloo"}) == ["shm", "tcp"]


# --- engines and plugins that can't be used ---


def test_a_setting_that_can_not_be_read() -> None:
    status, found = findings(*DOCTOR, HOROVOD_FUSION_THRESHOLD="much")
    assert status == 1
    assert "HOROVOD_FUSION_THRESHOLD" in found["Installation", "settings"]["text"]
    assert found["Self-test", "job"]["state"] == "broken"


def test_an_engine_for_a_newer_system(tmp_path: Path) -> None:
    """The loader refuses a library that names a glibc which is not there."""
    copy = shutil.copytree(PACKAGE, tmp_path / "horovod", ignore=shutil.ignore_patterns("__pycache__"))
    (engine,) = copy.glob("_roda*.so")
    engine.write_bytes(re.sub(rb"\bGLIBC_2", b"GLIBC_9", engine.read_bytes()))
    moved = {"before": f"cd {tmp_path}", "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    status, found = findings(*QUICK, "shm", **moved)
    assert status == 1
    broken = found["Installation", "engine"]
    assert broken["state"] == "broken"
    assert "this build of Roda needs glibc 9." in broken["text"]
    assert f"this system has {platform.libc_ver()[1]}" in broken["text"]
    assert "pip install --force-reinstall --no-deps . " in broken["mend"]
    if (torch := found["Frameworks", "torch"])["state"] != "absent":
        assert torch["state"] == "broken"
        assert "needs the engine" in torch["text"]
    done = examine(sys.executable, "-c", "import horovod; horovod.version; import horovod.common.basics", **moved)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: Roda's engine can't be loaded: this build of Roda needs glibc 9.")
    assert said.endswith(f"To mend it: {broken['mend']}")


def test_libraries_that_are_too_old() -> None:
    text, _ = explain("/opt/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by _roda.so)")
    assert text == "this build of Roda needs GLIBCXX 3.4.30, and the C++ library here (/opt/libstdc++.so.6) is older"
    assert explain("it is broken") == ("it is broken", f"pip install --force-reinstall --no-deps {source()}")


def test_musl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "proc/self/maps", "7f00-7f10 r-xp 00000000 08:01 17 /lib/ld-musl-x86_64.so.1\n")
    assert runs_on_musl(tmp_path)
    found = machine.system(tmp_path)
    assert found.state == WARNING
    assert "musl" in found.text
    assert "python:3.12-slim" in found.mend
    monkeypatch.setattr("horovod.doctor.loader.runs_on_musl", lambda: True)
    assert explain("Error relocating _roda.so: symbol not found") == (
        "this Python runs on musl, and Roda needs glibc", found.mend
    )  # fmt: skip
    assert machine.system(Path("/")).state == OK


def record(name: str, reason: str) -> dict[str, Any]:
    kind, path = "device" if name == "cuda" else "transport", f"/{name}.so"
    return {"name": name, "kind": kind, "path": path, "description": "", "reason": reason, "usable": not reason}


def test_plugins_that_lack_a_library_or_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    none = "libmpi.so.40: cannot open shared object file: No such file or directory"
    reasons = {"shm": "", "loop": "", "mpi": none, "verbs": "no RDMA device"}
    answer = {"plugins": [record(name, reason) for name, reason in reasons.items()]}
    found = list(software.transports(answer, has_rdma=False, has_gpu=False))
    assert find(found, "shm").state == OK
    assert "openmpi" in find(found, "mpi").mend
    assert "Nothing to mend" in find(found, "verbs").text
    assert find(found, "verbs").mend == ""
    assert "built without it" in find(found, "ucx").text
    assert find(found, "gloo").mend == "roda-build-plugin gloo"
    program(tmp_path / "mpicxx", "")
    assert find(list(software.transports(answer, has_rdma=False, has_gpu=False)), "mpi").mend == "roda-build-plugin mpi"
    assert all(each.name != "loop" for each in found)
    for name in ("verbs", "nccl", "cuda"):
        answer = {"plugins": [record(name, f"lib{name}.so.1: cannot open shared object file")]}
        assert find(list(software.transports(answer, has_rdma=True, has_gpu=True)), name).mend
    none = {"plugins": [record("ucx", "no UCX: libucp.so.0: cannot open shared object file")]}
    mend = find(list(software.transports(none, has_rdma=False, has_gpu=False)), "ucx").mend
    assert mend.index("libucx0") < mend.index("pip install libucx-cu12")
    few = {"plugins": [record("ucx", "raise the limit (ulimit -n)")]}
    assert find(list(software.transports(few, has_rdma=False, has_gpu=False)), "ucx").mend.startswith("ulimit -n")


def test_a_plugin_of_the_users_own_that_has_lost_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    stale = {**record("mpi", "libmpi.so.40: no such file"), "path": str(tmp_path / "roda/plugins/roda_mpi.so")}
    found = find(list(software.transports({"plugins": [stale]}, has_rdma=False, has_gpu=False)), "mpi")
    assert found.state == BROKEN
    assert found.mend.startswith("roda-build-plugin mpi ")
    assert f"rm {stale['path']}" in found.mend


def test_a_shadowed_plugin_does_not_hide_the_one_that_is_used() -> None:
    answer = {"plugins": [record("shm", ""), record("shm", "shadowed by another")]}
    assert find(list(software.transports(answer, has_rdma=False, has_gpu=False)), "shm").state == OK


# --- MPI ---


def test_a_broken_mpirun(tmp_path: Path) -> None:
    program(tmp_path / "mpirun", "echo 'mpirun: libopen-rte.so.40: cannot open shared object file' >&2; exit 127")
    found = list(software.mpi(str(tmp_path)))
    assert [each.state for each in found] == [BROKEN]
    assert "libopen-rte.so.40" in found[0].text
    assert found[0].mend.startswith(f"take {tmp_path} out of PATH, or ")
    works = program(tmp_path / "b/mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    found = list(software.mpi(f"{tmp_path}:{works.parent}"))
    assert [each.state for each in found] == [BROKEN, OK]
    assert found[0].mend == f"take {tmp_path} out of PATH: {works} works"
    failed = selftest._judge("mpi", Ended(1, "", selftest.NO_MPIRUN), None)
    assert page.with_causes([*found, failed])[-1].mend == found[0].mend


def test_an_mpirun_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hangs = program(tmp_path / "mpirun", "echo starting; sleep 1000 & wait")
    monkeypatch.setattr(software, "run", lambda command, limit: run(command, 0.5))
    (found,) = software.mpi(str(tmp_path))
    assert found.state == BROKEN
    assert "did not end in time; its last line: starting" in found.text
    assert found.path == str(hangs)


def test_two_mpis(tmp_path: Path) -> None:
    program(tmp_path / "a/mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
    program(tmp_path / "b/mpirun", "echo 'HYDRA build details:'; echo '    Version:    4.0.2'")
    (tmp_path / "b/mpiexec").symlink_to("mpirun")
    path = f"{tmp_path / 'a'}:{tmp_path / 'b'}:{tmp_path / 'a'}:"
    found = list(software.mpi(path))
    assert [each.state for each in found] == [OK, OK, WARNING]
    assert [each.path for each in found[:2]] == [str(tmp_path / "a/mpirun"), str(tmp_path / "b/mpirun")]
    assert found[1].text == "MPICH: Version: 4.0.2"
    assert "OpenMPI" in found[2].text
    assert "MPICH" in found[2].text
    assert len(list(software.mpi(str(tmp_path / "b")))) == 1
    program(tmp_path / "c/mpirun", "echo 'mpirun (Open MPI) 5.0.11'")
    program(tmp_path / "c/mpiexec", "echo 'mpiexec (Open MPI) 5.0.11'")
    assert [each.state for each in software.mpi(str(tmp_path / "c"))] == [OK, OK]
    versions = list(software.mpi(f"{tmp_path / 'c'}:{tmp_path / 'a'}"))
    assert versions[-1].state == WARNING
    assert "OpenMPI 5.0.11" in versions[-1].text


def test_no_mpi(tmp_path: Path) -> None:
    (found,) = software.mpi(str(tmp_path))
    assert found.state == ABSENT
    assert "openmpi" in found.mend


# --- the machine ---


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.shared_memory(tmp_path).state == WARNING
    assert "--shm-size" in machine.shared_memory(tmp_path).mend
    assert "mkdir /dev/shm && mount" in machine.shared_memory(tmp_path).mend
    (tmp_path / "dev/shm").mkdir(parents=True)
    state = SimpleNamespace(f_blocks=16384, f_bavail=8192, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: state)
    small = machine.shared_memory(tmp_path)
    assert small.state == WARNING
    assert small.text.startswith("64 MiB in /dev/shm, of which 32 MiB are free")
    state.f_blocks = state.f_bavail = 1 << 20
    assert machine.shared_memory(tmp_path).state == OK


@pytest.mark.parametrize(("scope", "state"), [("0", OK), ("1", OK), ("2", WARNING), ("3", WARNING)])
def test_ptrace(tmp_path: Path, scope: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "proc/sys/kernel/yama/ptrace_scope", f"{scope}\n")
    monkeypatch.setattr(machine, "_reads_memory", lambda: True)
    found = machine.ptrace(tmp_path)
    assert found.state == state
    assert ("ptrace_scope=1" in found.mend) == (state == WARNING)
    monkeypatch.setattr(machine, "_reads_memory", lambda: False)
    assert machine.ptrace(tmp_path).state == WARNING


def test_a_slow_clock(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/system/clocksource/clocksource0"
    write(folder / "current_clocksource", "hpet\n")
    write(folder / "available_clocksource", "tsc hpet acpi_pm\n")
    assert machine.clock(tmp_path).mend.startswith("echo tsc > ")
    write(folder / "available_clocksource", "hpet acpi_pm\n")
    assert "dmesg" in machine.clock(tmp_path).mend
    write(folder / "current_clocksource", "tsc\n")
    assert machine.clock(tmp_path).state == OK


def test_a_limit_of_the_cgroup() -> None:
    topology = {"machines": {"m00": {"cores": ["0"], "packages": [{"model": "Some CPU"}]}}, "bindings": [{"cpus": "0"}]}
    assert machine.cores(topology).state == OK
    limited = {**topology, "bindings": [{"cpus": "0", "cpu_limit": 0.5}]}
    assert machine.cores(limited).state == WARNING
    assert "horovodrun -np 1" in machine.cores(limited).mend
    assert machine.cores({}).state == OK


def test_gpus(tmp_path: Path) -> None:
    assert machine.gpus({}, tmp_path).state == ABSENT
    topology = {"machines": {"m00": {"gpus": [{"model": "H100"}, {"model": "H100"}]}}}
    write(tmp_path / "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    write(tmp_path / "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
    assert machine.has_nvidia(tmp_path)
    assert machine.gpus(topology, tmp_path).state == WARNING
    write(tmp_path / "sys/module/nvidia/version", "550.54\n")
    assert machine.gpus(topology, tmp_path).text == "2: H100; driver 550.54"


def test_low_limits_that_rdma_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    assert find(machine.limits(tmp_path), "locked memory").state == OK
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    found = find(machine.limits(tmp_path), "locked memory")
    assert found.state == WARNING
    assert found.mend.startswith("ulimit -l unlimited")


# --- parts ---


def test_why_a_command_failed() -> None:
    assert run(["sh", "-c", "echo first; echo why >&2; exit 3"], 10).why == "why"
    assert run(["sh", "-c", "echo why; echo ------; exit 3"], 10).why == "why"
    assert run(["sh", "-c", "kill -SEGV $$"], 10).why == "it was ended by SIGSEGV"
    assert run(["sh", "-c", "exit 4"], 10).why == "it ended with status 4 and printed nothing"
    assert "No such file" in run(["/nowhere"], 10).why
    session = [sys.executable, "-c", "import os; print(os.getsid(0))"]
    assert int(run(session, 10, may_ask=True).stdout) == os.getsid(0) != int(run(session, 10).stdout)
    assert run(["sleep", "9"], 0.01, may_ask=True).why == "it did not end in time"
    said = "roda-perf: the cause\nroda-perf: rank 1 ended with 1\n"
    found = selftest._judge("tcp", Ended(1, "", said), None)
    assert found.state == BROKEN
    assert found.text == "two ranks failed: the cause"
    assert "roda-perf -n 2 -t tcp" in found.mend


def test_sums_that_are_wrong_and_bandwidths_that_are_low() -> None:
    row = '{"collective": "allreduce", "algbw_GBps": 1.0, "check": "%s"}'
    assert selftest._judge("tcp", Ended(0, row % "WRONG", ""), 2.0).state == BROKEN
    good = selftest._judge("mpi", Ended(0, "[1,0]<stdout>:" + row % "ok", ""), 2.0)
    assert good.state == OK
    assert good.text == "1.00 GB/s, 50 % of this machine's 2.00"
    assert selftest._judge("tcp", Ended(0, row % "ok", ""), 20.0).state == WARNING
    assert selftest._judge("unix", Ended(0, row % "ok", ""), None).text == "1.00 GB/s"
    busy = selftest._judge("tcp", Ended(0, row % "ok", ""), 0.4)
    assert busy.state == OK
    assert busy.text == "1.00 GB/s, more than the 0.40 measured for this machine: try again when nothing else runs"


def test_what_is_asked_for_must_be_usable_everywhere() -> None:
    ok, broken = Finding("Transports", "tcp", OK, ""), Finding("Self-test", "tcp", BROKEN, "")
    assert page.unusable([ok], ["tcp"]) == []
    assert page.unusable([ok, broken], ["tcp"]) == ["tcp"]
    assert page.unusable([], ["tcp"]) == ["tcp"]


def test_libraries_that_fail_for_want_of_shared_memory_say_so() -> None:
    little = Finding("Machine", "shared memory", WARNING, "1 MiB", "mount more")
    failed = Finding("Self-test", "ucx", BROKEN, "Out of memory", "debug")
    assert page.with_causes([little, failed])[1].mend == "first of all more shared memory: mount more"
    enough = Finding("Machine", "shared memory", OK, "8 GiB")
    assert page.with_causes([enough, failed]) == [enough, failed]
    socket = Finding("Self-test", "tcp", BROKEN, "", "debug")
    assert page.with_causes([little, socket]) == [little, socket]


def test_what_a_framework_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ModuleNotFoundError: No module named 'tensorflow'"
    monkeypatch.setattr(software, "_is_there", lambda name: name == "jax")
    assert software._how_to_import("keras", "keras", said) == "export KERAS_BACKEND=jax"
    monkeypatch.setattr(software, "_is_there", lambda name: False)
    assert software._how_to_import("keras", "keras", said).endswith("pip install tensorflow")
    assert software._how_to_import("torch", "torch", "No module named 'torch._C'").endswith("--force-reinstall torch")


def test_a_python_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert pip_line("torch") == "python3 -m ensurepip && python3 -m pip install torch"


def has_user_namespaces() -> bool:
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(
    shutil.which("unshare") is None or not has_user_namespaces(), reason="no mount namespaces can be made here"
)
@pytest.mark.parametrize(("options", "tested"), [("size=64m", False), ("ro", True)])
def test_a_container_with_little_or_no_shared_memory(options: str, tested: bool) -> None:
    """The page warns, and two ranks work, in a home that can't be written to: the shm transport needs no files."""
    root = [] if os.geteuid() == 0 else ["-r"]
    line = f'mount -t tmpfs -o {options} tmpfs /dev/shm && exec "$@"'
    command = [*DOCTOR, "shm", "job"] if tested else [*QUICK, "shm"]
    status, found = findings("unshare", "-m", *root, "sh", "-c", line, "sh", *command, HOME="/proc")
    assert status == 0
    shared = found["Machine", "shared memory"]
    assert shared["state"] == "warning"
    assert shared["mend"]
    if tested:
        assert found["Self-test", "shm"]["state"] in ("ok", "warning")
