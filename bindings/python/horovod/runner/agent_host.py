"""The agent's questions to its host: processes, limits, cores; see agent.py."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import tempfile
from collections.abc import Callable


def load_prctl() -> Callable[..., int]:
    """Return prctl, or a function that does nothing where there is none."""
    try:
        return ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return lambda *_: -1


def reason(error: OSError) -> str:
    """Return the words of an OSError: with the limit on open files, and what raises it, where that was met."""
    if error.errno == errno.EMFILE:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{error.strerror}: a process may have {most} here (RLIMIT_NOFILE); raise that with `ulimit -n`"
    if error.errno == errno.ENFILE:  # its value stands in a file, which can't be opened now
        return f"{error.strerror}: the machine's limit is met; `sysctl fs.file-max` shows and raises it"
    return error.strerror or str(error)


def limit_met(number: int, seconds: float) -> str | None:
    """Return the words for a signal by which Linux ended a process at a limit; None for another signal.

    The process had taken so many seconds of a core.
    """
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]  # the process had the same, unless it set its own
    is_beyond = hard != resource.RLIM_INFINITY and seconds > hard - 0.5  # Linux looks at another clock
    if number == signal.SIGXCPU or (number == signal.SIGKILL and is_beyond):
        return f"ended by the limit on CPU time, after {seconds:.0f} s of that (RLIMIT_CPU); raise it with `ulimit -t`"
    if number == signal.SIGXFSZ:
        return "ended by the limit on the size of a file (RLIMIT_FSIZE); raise it with `ulimit -f`"
    return None


def descendants(root: int) -> list[int]:
    """Return the ids of all live processes below `root`."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def signal_all(number: int) -> None:
    """Signal every descendant, once: by process group, where that is not our own."""
    groups = set()
    for pid in descendants(os.getpid()):
        try:
            group = os.getpgid(pid)
            if group == os.getpgrp():  # not yet in the group of its own that it is about to get
                os.kill(pid, number)
            elif group not in groups:
                groups.add(group)
                os.killpg(group, number)
        except OSError:
            continue  # it ended meanwhile


def memory_file(data: bytes) -> int:
    """Return an inheritable descriptor from which `data` can be read by this user alone; the file has no name."""
    try:
        fd = os.memfd_create("roda")
    except (AttributeError, OSError):  # none in this Python, in the kernel, or behind its filter
        fd, path = tempfile.mkstemp()
        os.unlink(path)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.fchmod(fd, 0o600)
    os.set_inheritable(fd, True)
    return fd


def limit_of(folder: str) -> float | None:
    """Return the cores' worth of time that one control group grants, or None."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            words = []
            for name in names:
                with open(f"{folder}/{name}", encoding="ascii") as file:
                    words += file.read().split()
            if float(words[0]) > 0:
                return float(words[0]) / float(words[1])
        except (OSError, ValueError, IndexError):
            continue  # none there, or "max"
    return None


def count_cores() -> int:
    """Return how many cores the ranks of this host have between them: affinity, cut by the control groups' limits."""
    cores = len(os.sched_getaffinity(0))
    limits = []
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as groups:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in groups]
    except OSError:
        paths = []
    for path in paths:
        while True:  # a limit may stand at any level above
            for mount in ("", "/unified", "/cpu", "/cpu,cpuacct"):
                limits.append(limit_of(f"/sys/fs/cgroup{mount}{path.rstrip('/')}"))
            if path in ("", "/"):
                break
            path = path.rpartition("/")[0]
    return max(1, min([cores, *(int(limit) for limit in limits if limit is not None)]))
