#!/usr/bin/env python3
"""Gives one rank of a small training job a fault, blindly for the product, and counts what the product says of it.

usage: who.py [--seeds N] [--seed SEED] [--only KIND ...] [--hangs] [--seconds S] [--most-ranks N] [--framework NAME]
              [--at-once N] [--junit FILE] [-v]

Each trial is a job of train.py. The kind of fault is given; the rank, its size, the number of ranks, of hosts (network
namespaces, for root) and the framework follow from the seed. Of a rank that is slow the product must name the rank, the
part of the step and the cause in the late rank's line; of one that hangs the job, rank, operation and lines of the
program, three times: roda-doctor while it hangs, the stall's message, and roda-doctor on the dump. The exit status is 1
when a rank is named wrongly, or in a balanced job, or something of a hang is not told.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import psutil

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "hosts"))
from network import WIRE  # noqa: E402

PROGRAM = HERE / "train.py"
LINE = re.compile(
    r"\[(?P<time>[\d-]+ [\d:.]+): W [^\n]* Rank (?P<rank>\d+) on host \S+ comes last in \d+ of \d+ steps, by \S+ ms: "
    r"the others wait for it \d+ % of the time(?P<part>, before|, between|)[^;\n]*(?:; (?P<cause>[^\n]*))?"
)
_SHORT_OF_CORES = "waits for a core"
_COMPUTES = f"computes|{_SHORT_OF_CORES}"
# What the line must say of each kind that slows: the part of the step and the cause; "": whatever it says there.
SLOW = {
    "balanced": ("", ""),
    "all alike": ("", ""),
    "input": ("before", "sleeps"),
    "forward": ("before", "sleeps"),
    "optimizer": ("before", "sleeps"),
    "backward": ("between", "sleeps"),
    "computes": ("before", _COMPUTES),
    "skew": ("", _COMPUTES),
    "collector": ("before", "garbage collection"),
    "allocator": ("before", "new pages"),
    "cache": ("before", "from a disk|of files"),
    "stopped again": ("", "sleeps"),
    "throttled": ("", "throttled"),
    "neighbour": ("", _SHORT_OF_CORES),
    "slow link": ("", "the link from {}"),
    "lossy link": ("", "the link from [^ ]* to {} loses"),
}
# Of each kind that hangs: the operation that the others wait for, and whether the late rank can say its line.
HANGS = {
    "missing": ("loss", True),
    "swallowed": ("loss", True),
    "order": ("first", True),
    "mismatched": ("broadcast.score", True),
    "pipeline": ("", True),  # the first of the gradients, by any name
    "debugger": ("loss", True),
    "spins": ("loss", True),
    "stopped": ("loss", False),
    "traced": ("loss", False),
}
KINDS = [*SLOW, *HANGS]
GRADIENTS = 6 * 160 * 160 * 4  # bytes of a step
QUIET = ("balanced", "all alike")
_LINKS = ("slow link", "lossy link")  # one way: of what the rank's host sends, and gets
_FROM_OUTSIDE = ("throttled", "neighbour", "stopped again")
# "no core": a rank that was given no fault waits for a core, and whether it was late besides cannot be told from here.
_WORST_FIRST = ("wrong rank", "false alarm", "no core", "silent", "right rank", "right")
BEGINS = 30  # the step at which a fault does


@dataclass
class Trial:
    """One job, and what came of it."""

    kind: str
    seed: int
    framework: str
    ranks: int
    hosts: int
    rank: int
    share: float  # of a step that the fault takes, where it is one of time
    said: dict[str, str] = field(default_factory=dict)  # what the product said, by where
    address: str = ""  # of the rank's host, where a link has the fault
    device: float = 0  # seconds of a step that a device works and the rank sleeps
    seconds: float = 0  # that roda-doctor took
    steps: int = 0  # with the fault, up to the line

    def verdict(self) -> str:
        return min(self.verdicts().values(), key=_WORST_FIRST.index)

    def has_failed(self) -> bool:
        """Whether it is wrong: to stay silent of one that is slow is not."""
        allowed = ("right", "right rank", "silent", "no core") if self.kind in SLOW else ("right",)
        return self.verdict() not in allowed

    def __str__(self) -> str:
        where = f"np {self.ranks} on {self.hosts} {self.framework} rank {self.rank}"
        slow = f" share {self.share}, {'long' if self.device else 'short'} steps" if self.kind in SLOW else ""
        return f"{self.seed} {self.kind} {where}{slow}"

    def verdicts(self) -> dict[str, str]:
        judge = self._of_slow if self.kind in SLOW else self._of_hang
        return {where: judge(said) for where, said in self.said.items()}

    def _of_slow(self, told: str) -> str:
        named = LINE.search(told)
        if self.kind in _LINKS and re.search(SLOW[self.kind][1].format(re.escape(self.address)), told):
            return "right"
        if named is None:
            return "right" if self.kind in QUIET else "silent"
        if self.kind in QUIET:
            return "false alarm"
        cause = named["cause"] or ""
        if int(named["rank"]) != self.rank or self.kind in _LINKS:
            return "no core" if _SHORT_OF_CORES in cause else "wrong rank"
        wanted_part, wanted_cause = SLOW[self.kind]
        return "right" if wanted_part in named["part"] and re.search(wanted_cause, cause) else "right rank"

    def _of_hang(self, told: str) -> str:
        operation, says_line = HANGS[self.kind]
        doctors = re.compile(r"[Rr]ank (\d+) \(process[^)]*\) (?:diverged first|holds the others up)")
        stalls = re.compile(rf"^(?:\[\d+\]<stderr>:)?(\d+): \[[^\]]*\b{operation}", re.MULTILINE)
        lines = [lines_of("others", self.kind), *([lines_of("late", self.kind)] if says_line else [])]
        if self.ranks == 2 and (match := re.search(r"Ranks 0 and 1 went different ways", told)):
            rank = self.rank  # which of two was meant to go the other way nobody can tell
        elif (match := doctors.search(told)) or (match := stalls.search(told)):
            rank = int(match[1])
        else:
            return "silent"
        if rank != self.rank:
            return "wrong rank"
        has_all = operation in told and all(re.search(each, told) for each in lines)
        return "right" if has_all else "right rank"


def lines_of(who: str, kind: str) -> str:
    """Return a pattern of the program's lines that have the mark: one for each framework."""
    numbers = []
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1):
        marks = line.partition("  # ")[2].split("; ")
        if any(each.startswith(f"{who}:") and kind in each.split() for each in marks):
            numbers.append(str(number))
    return rf"{PROGRAM.name}:({'|'.join(numbers)})\b"


def stop_and_go(pid: int, seconds: float, over: threading.Event) -> None:
    """Stop a process again and again, half of the time."""
    with contextlib.suppress(ProcessLookupError):
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(seconds)
            os.kill(pid, signal.SIGCONT)
            over.wait(seconds)


def throttle(pid: int, stack: contextlib.ExitStack) -> None:
    """Put a process into a cgroup that has a tenth of a core, of whichever version there is."""
    one, two = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (one if one.is_dir() else two) / f"roda-who-{os.getpid()}"
    group.mkdir()

    def remove() -> None:
        while True:
            with contextlib.suppress(OSError):
                group.rmdir()
                return
            time.sleep(0.05)

    stack.callback(remove)
    if one.is_dir():
        (group / "cpu.cfs_period_us").write_text("40000")
        (group / "cpu.cfs_quota_us").write_text("4000")
    else:
        (group / "cpu.max").write_text("4000 40000")
    (group / "cgroup.procs").write_text(str(pid))


def spoil_link(kind: str, pid: int, seconds: float) -> str:
    """Have the wire of a process's host carry less of what it sends, or lose a part of what it gets; its address."""

    def run_there(*command: str) -> str:
        there = ["nsenter", "-t", str(pid), "-n", *command]
        return subprocess.run(there, stdout=subprocess.PIPE, text=True, check=True).stdout

    if kind == "slow link":
        rate = f"{8 * GRADIENTS / seconds / 1e6:.1f}mbit"
        run_there(*f"tc qdisc add dev {WIRE} root tbf rate {rate} burst 32kb latency 1s".split())
    else:
        # A sixteenth, by chance. Of what a host loses before it sends TCP knows at once.
        drops = f"4,32 0 0 {2**32 - 0x1000 + 56},37 0 1 {2**28},6 0 0 0,6 0 0 2"
        run_there(*f"tc qdisc add dev {WIRE} clsact".split())
        run_there(*f"tc filter add dev {WIRE} ingress bpf da bytecode".split(), drops)
    return re.search(r"inet6? ([^/]*)/", run_there("ip", "-o", "addr", "show", WIRE))[1]


def inject(trial: Trial, pid: int, seconds: float, stack: contextlib.ExitStack) -> None:
    """Begin a fault from outside."""
    kind = trial.kind
    if kind in _LINKS:
        trial.address = spoil_link(kind, pid, seconds)
    elif kind == "stopped again":
        over = threading.Event()
        thread = threading.Thread(target=stop_and_go, args=(pid, max(seconds / 4, 0.005), over))
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
    elif kind == "throttled":
        throttle(pid, stack)
    elif kind == "neighbour":
        core = str(max(os.sched_getaffinity(0)))
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), {int(core)})
        for _ in range(4):  # each of a session of its own: some kernels share a core between sessions
            busy = subprocess.Popen(["taskset", "-c", core, "sh", "-c", "while :; do :; done"], start_new_session=True)
            stack.callback(busy.wait)
            stack.callback(busy.kill)


def plan_of(kind: str, seed: int, options: argparse.Namespace) -> tuple[Trial, dict[str, object]]:
    """Draw a trial, and what its program is told."""
    draw = random.Random(f"{seed} {kind}")  # noqa: S311
    ranks = draw.choice([each for each in (2, 2, 3, 4, 8) if each <= options.most_ranks])
    can_split = ranks % 2 == 0 and os.geteuid() == 0 and kind != "throttled"  # the namespaces have no cgroups in /sys
    hosts = draw.choice([1, 1, 2]) if can_split else 1
    if kind in _LINKS:
        ranks = hosts = 2
    framework = "torch" if kind in _LINKS else draw.choice(options.framework)
    trial = Trial(kind, seed, framework, ranks, hosts, draw.randrange(ranks), draw.choice([0.15, 0.3, 0.6, 1.0]))
    batch = draw.choice([256, 512])
    if kind in SLOW and kind not in _FROM_OUTSIDE:
        trial.device = draw.choice([0.05] if kind in _LINKS else [0.0, 0.05, 0.05])
    plan = {
        "kind": kind, "rank": trial.rank, "share": trial.share, "begins": BEGINS, "framework": framework,
        "seconds": options.seconds, "batch": batch, "is_hang": kind in HANGS, "device": trial.device,
    }  # fmt: skip
    return trial, plan


def command_of(trial: Trial) -> list[str]:
    """Return what starts the job."""
    program = [sys.executable, str(PROGRAM)]
    if trial.hosts == 1:
        return ["horovodrun", "-np", str(trial.ranks), *program]
    hosts = f'$(echo "$HOSTS" | sed "s/:[0-9]*/:{trial.ranks // trial.hosts}/g")'
    script = f'exec horovodrun -np {trial.ranks} -H "{hosts}" "$@"'
    network = str(HERE.parent / "hosts" / "network.py")
    return [sys.executable, network, "--hosts", str(trial.hosts), "--", "sh", "-c", script, "sh", *program]


def ask(*arguments: str, until: str, tries: int = 20) -> tuple[str, float]:
    """Return the doctor's answer, once it has something to say, and the seconds that this one took."""
    for _ in range(tries):
        began = time.monotonic()
        said = subprocess.run(["roda-doctor", *arguments], capture_output=True, text=True, check=False).stdout
        took = time.monotonic() - began
        if re.search(until, said):
            break
        time.sleep(0.5)
    return said, took


def examine(trial: Trial, job: subprocess.Popen[str], errors: Path, dumps: str) -> None:
    """Ask of a job that hangs, and end it."""
    trial.said["doctor"], trial.seconds = ask(str(job.pid), until="diverged first|holds the others up|went different")
    ends = time.monotonic() + 20
    while "`roda-doctor PID` says more" not in errors.read_text() and time.monotonic() < ends:
        time.sleep(0.2)
    time.sleep(2.5)  # ranks that wait for different tensors, and hosts, each say their part
    trial.said["stall"] = errors.read_text()
    family = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
    next(each for each in family if any("bin/horovodrun" in word for word in each.cmdline())).terminate()
    job.wait()
    trial.said["dump"], _ = ask(dumps, until=".", tries=1)


def run(trial: Trial, plan: dict[str, object]) -> None:
    """Run one job and note what the product says."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder, "site-packages").mkdir()
        Path(folder, "site-packages", "arrays.py").symlink_to(HERE.parent / "python" / "binding" / "arrays.py")
        errors = Path(folder, "errors")
        plan["folder"] = folder
        environment = {**os.environ, "PLAN": json.dumps(plan), "OMP_NUM_THREADS": "1", "RODA_FLIGHT_FOLDER": folder}
        if trial.kind in HANGS:
            environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "2"
        job = stack.enter_context(
            subprocess.Popen(
                command_of(trial), env=environment, stdout=subprocess.PIPE, stderr=errors.open("w"), text=True
            )
        )
        pid, hanging = 0, 0
        began: list[float] = []  # steps with the fault, but for the first
        for line in job.stdout or ():
            if match := re.search(r"pid (\d+)", line):
                pid = int(match[1])
            elif "begins" in line:
                inject(trial, pid, float(line.split()[-1]), stack)
            elif "steps" in line:
                began = [float(each) for each in line.split("steps")[1].split()]
            elif "hangs" in line and (hanging := hanging + 1) == (1 if trial.kind == "pipeline" else trial.ranks):
                examine(trial, job, errors, folder)
                break
        job.wait()
        told = errors.read_text()
    if trial.kind in HANGS:
        return
    if job.returncode:
        sys.exit(f"a job of kind {trial.kind} failed:\n{told}")
    trial.said["line"] = told
    if named := LINE.search(told):
        trial.steps = bisect.bisect(began, datetime.fromisoformat(named["time"]).timestamp())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    possible = [kind for kind in KINDS if os.geteuid() == 0 or kind not in _LINKS]
    parser.add_argument("--only", nargs="*", choices=KINDS, default=possible)
    parser.add_argument("--hangs", dest="only", action="store_const", const=list(HANGS), help="those that hang alone")
    parser.add_argument("--seconds", type=float, default=10, help="with a fault that slows, on a quiet machine")
    parser.add_argument("--most-ranks", type=int, default=4)
    parser.add_argument("--framework", nargs="*", default=["torch", "numpy"])
    parser.add_argument(
        "--at-once", type=int, default=1, help="jobs; those that are slow need the machine for themselves"
    )
    parser.add_argument("--junit", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="print what was said where that is not right")
    options = parser.parse_args()

    def run_one(kind: str, seed: int) -> Trial:
        trial, plan = plan_of(kind, seed, options)
        run(trial, plan)
        told = ", ".join(f"{place} {verdict}" for place, verdict in trial.verdicts().items())
        more = "\n" + "\n".join(trial.said.values()) if options.verbose and trial.verdict() != "right" else ""
        took = f" {trial.seconds:.1f} s" if trial.seconds else f" {trial.steps} steps" if trial.steps else ""
        print(f"{trial}{took}: {told}{more}", flush=True)
        return trial

    seeds = range(options.seed, options.seed + options.seeds)
    with ThreadPoolExecutor(options.at_once) as pool:
        trials = list(pool.map(run_one, options.only * len(seeds), sorted([*seeds] * len(options.only))))
    columns = f"{'right':>6} {'right rank':>10} {'silent':>6} {'no core':>7} {'wrong':>6}"
    print(f"\n{'kind':13} {'tries':>5} {columns}  steps up to the line: median, most")
    for kind in options.only:
        own = [trial for trial in trials if trial.kind == kind]
        counts = collections.Counter(trial.verdict() for trial in own)
        rank = counts["right"] + counts["right rank"]
        wrong = counts["wrong rank"] + counts["false alarm"]
        steps = [trial.steps for trial in own if trial.device and trial.steps]
        took = f"{statistics.median(steps):8.0f} {max(steps)} of long ones" if steps else ""
        numbers = f"{counts['right']:6} {rank:10} {counts['silent']:6} {counts['no core']:7} {wrong:6}"
        print(f"{kind:13} {counts.total():5} {numbers} {took}")
    if options.junit:
        write_junit(options.junit, trials)
    return 1 if any(trial.has_failed() for trial in trials) else 0


def write_junit(path: Path, trials: list[Trial]) -> None:
    """Write a report with a case for each trial."""
    cases = []
    for trial in trials:
        told = escape(f"{trial.verdicts()}\n" + "\n".join(trial.said.values()))
        failure = f"<failure>{told}</failure>" if trial.has_failed() else ""
        cases.append(f"<testcase name={quoteattr(str(trial))}>{failure}</testcase>")
    path.write_text(f'<testsuites><testsuite name="who">{"".join(cases)}</testsuite></testsuites>\n')


if __name__ == "__main__":
    sys.exit(main())
