"""The resources that the machine, or the container, grants to a job."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from horovod.doctor.finding import ABSENT, BROKEN, OK, WARNING, Finding
from horovod.doctor.loader import GLIBC_MEND, runs_on_musl
from horovod.runner.util import network

_found = partial(Finding, "Machine")
_MIB = 1 << 20
SHARED_MEMORY = "shared memory"
_SMALL_SHARED_MEMORY = 256 * _MIB  # Docker grants 64 MiB
_SMALL_LOCKED_MEMORY = 64 * _MIB
_FEW_FILES = 1024
# Reading one of these enters the kernel or the hypervisor each time.
_SLOW_CLOCKS = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
_SLOW_MENDS = {
    2: "sysctl -w kernel.yama.ptrace_scope=1   (as root, on the host)",
    3: "boot with kernel.yama.ptrace_scope=1 in /etc/sysctl.d: 3 can't be taken back while the system runs",
}


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _size(count: int) -> str:
    if count == resource.RLIM_INFINITY:
        return "unlimited"
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", _MIB), ("KiB", 1 << 10)):
        if count >= bytes_:
            return f"{count / bytes_:.3g} {unit}"
    return f"{count} bytes"


def system(root: Path) -> Finding:
    """Tell the kernel and the C library."""
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if runs_on_musl(root):
        return _found("system", WARNING, f"{kernel}, musl: Roda needs glibc", GLIBC_MEND)
    name, version = platform.libc_ver()
    library = f"{name} {version}".strip() or "a C library that is not glibc"
    return _found("system", OK, f"{kernel}, {library}")


def cores(topology: Mapping[str, Any]) -> Finding:
    """Tell the cores of this machine, and how many of them this process may use."""
    machine: dict[str, Any] = next(iter(topology.get("machines", {}).values()), {})
    model = next((package["model"] for package in machine.get("packages", [])), platform.machine())
    usable = len(os.sched_getaffinity(0))
    text = f"{len(machine.get('cores', [])) or '?'} cores ({model}), of which this process may use {usable} threads"
    limit = next((binding["cpu_limit"] for binding in topology.get("bindings", []) if "cpu_limit" in binding), 0)
    if not limit:
        return _found("cores", OK, f"{text}; its cgroup sets no limit")
    text += f"; its cgroup grants the time of {limit:g}"
    if limit >= usable:
        return _found("cores", OK, text)
    mend = f"horovodrun -np {max(1, int(limit))} …, or raise the limit (docker run --cpus=N, CPUQuota= of systemd)"
    return _found("cores", WARNING, text, mend)


def shared_memory(root: Path) -> Finding:
    """Tell the size of /dev/shm."""
    users = "Roda's shm transport does without it; PyTorch's DataLoader workers and NCCL do not"
    folder = root / "dev/shm"
    if not os.access(folder, os.W_OK):
        make = "" if folder.is_dir() else "mkdir /dev/shm && "
        mend = f"docker run --shm-size=2g …, or as root: {make}mount -t tmpfs -o size=2g tmpfs /dev/shm"
        return _found(SHARED_MEMORY, WARNING, f"there is no /dev/shm that may be written to. {users}", mend)
    state = os.statvfs(folder)
    size, free = state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
    text = f"{_size(size)} in /dev/shm, of which {_size(free)} are free"
    if free < _SMALL_SHARED_MEMORY:
        mend = "docker run --shm-size=2g …, or as root: mount -o remount,size=2g /dev/shm"
        return _found(SHARED_MEMORY, WARNING, f"{text}. {users}", mend)
    return _found(SHARED_MEMORY, OK, text)


def _reads_memory() -> bool:
    """Try the call that copies between processes, on this process."""
    read = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if read is None:
        return False
    source, target = ctypes.create_string_buffer(b"x", 8), ctypes.create_string_buffer(8)

    class Vector(ctypes.Structure):
        _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))

    local, remote = Vector(ctypes.addressof(target), 8), Vector(ctypes.addressof(source), 8)
    read.restype = ctypes.c_ssize_t
    return int(read(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)) == 8


def ptrace(root: Path) -> Finding:
    """Tell whether ranks may copy from each other's memory."""
    scope = int(_line(root / "proc/sys/kernel/yama/ptrace_scope") or 0)
    slower = "shm copies private memory twice, which is slower"
    if scope >= 2:
        text = f"kernel.yama.ptrace_scope is {scope}: ranks may not copy from each other's memory; {slower}"
        return _found("ptrace", WARNING, text, _SLOW_MENDS.get(scope, _SLOW_MENDS[2]))
    if not _reads_memory():
        text = f"the kernel, or the container's seccomp filter, refuses process_vm_readv; {slower}"
        return _found("ptrace", WARNING, text, "docker run --cap-add=SYS_PTRACE …")
    return _found("ptrace", OK, f"ranks may copy from each other's memory (Yama's scope: {scope})")


def interfaces() -> Iterator[Finding]:
    """Tell the network interfaces."""
    states = psutil.net_if_stats()
    found = []
    for name in sorted(network.get_local_host_intfs()):
        state = states.get(name)
        texts = [address for nic, address in network.addresses() if nic == name] or ["no address"]
        is_up = state is not None and state.isup
        speed = f", {state.speed} Mbit/s" if state is not None and state.speed else ""
        found.append((name, is_up, texts, f"{name} {' '.join(texts)}{'' if is_up else ' (down)'}{speed}"))
    loopback_works = any(is_up and network.loopback_address() in texts for _, is_up, texts, _ in found)
    yield _found("interfaces", OK if found else BROKEN, "; ".join(text for *_, text in found) or "none")
    if not loopback_works:
        text = "no interface that is up holds 127.0.0.1 or ::1: ranks of one host can't meet"
        yield _found("loopback", BROKEN, text, "ip link set lo up   (as root)")


def limits(root: Path) -> Iterator[Finding]:
    """Tell the limits on locked memory and on open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    has_rdma = any((root / "sys/class/infiniband").glob("*"))
    is_small = soft != resource.RLIM_INFINITY and soft < _SMALL_LOCKED_MEMORY
    if is_small and has_rdma:
        text = f"{_size(soft)}: too little for RDMA, which registers the memory that it sends from"
        mend = "ulimit -l unlimited   (docker run --ulimit memlock=-1; LimitMEMLOCK=infinity in a service)"
        yield _found("locked memory", WARNING, text, mend)
    else:
        note = ": enough, as there is no RDMA device" if is_small else ""
        yield _found("locked memory", OK, f"{_size(soft)}{note}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        text = f"{soft} at a time: a rank opens some for each rank that it is connected with"
        wanted = "65536" if hard == resource.RLIM_INFINITY or hard >= 65536 else str(max(hard, _FEW_FILES))
        note = "" if hard == resource.RLIM_INFINITY or hard >= int(wanted) else "   (as root: the hard limit is lower)"
        yield _found("open files", WARNING, text, f"ulimit -n {wanted}{note}")
    else:
        text = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} at a time"
        yield _found("open files", OK, text)


def clock(root: Path) -> Finding:
    """Tell the kernel's clock source."""
    folder = root / "sys/devices/system/clocksource/clocksource0"
    current, available = _line(folder / "current_clocksource"), _line(folder / "available_clocksource")
    if not current:
        return _found("clock", OK, "the kernel does not tell its source")
    if current not in _SLOW_CLOCKS:
        return _found("clock", OK, current)
    better = next((name for name in available.split() if name not in _SLOW_CLOCKS), "")
    mend = (
        f"echo {better} > {folder / 'current_clocksource'}   (as root, on the host)"
        if better
        else "find out with `dmesg | grep -i tsc` why the kernel does not trust the processor's counter"
    )
    return _found("clock", WARNING, f"{current}: every look at the clock is slow, and ranks look often", mend)


def gpus(topology: Mapping[str, Any], root: Path) -> Finding:
    """Tell the GPUs and their driver."""
    machine: dict[str, Any] = next(iter(topology.get("machines", {}).values()), {})
    models = [gpu.get("model") or "of an unknown model" for gpu in machine.get("gpus", [])]
    driver = _line(root / "sys/module/nvidia/version")
    if not models:
        return _found("GPUs", ABSENT, f"none on the PCI bus{f'; driver {driver}' if driver else ''}")
    text = f"{len(models)}: {', '.join(sorted(set(models)))}"
    if driver:
        return _found("GPUs", OK, f"{text}; driver {driver}")
    if not has_nvidia(root):
        return _found("GPUs", ABSENT, f"{text}; Roda works on NVIDIA's only")
    return _found("GPUs", WARNING, f"{text}; no driver is loaded", "install NVIDIA's driver, then: nvidia-smi")


def has_nvidia(root: Path) -> bool:
    """Tell whether an NVIDIA display or compute device is on the PCI bus."""
    devices = (root / "sys/bus/pci/devices").glob("*")
    return any(_line(each / "vendor") == "0x10de" and _line(each / "class").startswith("0x03") for each in devices)


def examine(topology: Mapping[str, Any], root: Path = Path("/")) -> list[Finding]:
    """Return all of it.

    Parameters
    ----------
    topology : mapping
        What ``roda-info --topology --json`` says of this machine; empty when that is not to be had.
    root : Path
        Stands for ``/`` in tests.
    """
    return [
        system(root),
        cores(topology),
        gpus(topology, root),
        shared_memory(root),
        ptrace(root),
        *limits(root),
        clock(root),
        *interfaces(),
    ]
