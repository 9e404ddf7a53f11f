#!/usr/bin/env python3
"""Slows one rank of a small training job, blindly for the product, and counts whether the product names it and why.

usage: who.py [--seeds N] [--only KIND ...] [--ranks N] [--steps N] [--seed SEED]

Each trial is a job of torch's DistributedOptimizer. The kind of fault, the rank and its size follow from the seed. A
fault begins after the first steps. What the late rank's log says is the answer: who, in which part of the step, why.
The exit status is 1 when a rank is named wrongly, or in a balanced job.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(
    r"Rank (\d+) on host \S+ comes last in (\d+) of 50 steps, by (\S+) ms: the others wait for it (\d+) % of the time"
    r"(, before|, between)?[^;\n]*(?:; ([^\n]*))?"
)
# What the line must say of each kind: the part of the step and the cause; None: whatever it says there.
KINDS = {
    "balanced": (None, None),
    "input": ("before", "sleeps"),
    "optimizer": ("before", "sleeps"),
    "computes": ("before", "computes|waits for a core"),
    "backward": ("between", "sleeps"),
    "stopped": (None, "sleeps"),
    "throttled": (None, "throttled"),
    "neighbour": (None, "waits for a core"),
}
BEGINS = 30  # the step at which a fault does
WORKER = """
import json, os, sys, threading, time
import torch
import horovod.torch as hvd

torch.set_num_threads(1)
plan = json.loads(os.environ["PLAN"])
hvd.init()
late = hvd.rank() == plan["rank"]
if late:
    print("pid", os.getpid(), flush=True)
kind = plan["kind"]
model = torch.nn.Sequential(*[torch.nn.Linear(160, 160) for _ in range(6)])
faulty = False

def pause(*_):
    if faulty and kind == "backward":
        time.sleep(seconds / 3)

for layer in list(model)[1:4]:
    layer.register_full_backward_hook(lambda *_: pause())
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1e-4), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(plan["steps"]):
    if step == plan["begins"] // 3:
        begin = time.monotonic()
    if late and step == plan["begins"]:
        seconds = plan["share"] * (time.monotonic() - begin) / (step - plan["begins"] // 3)
        print("begins", seconds, flush=True)
        faulty = True
    if faulty and kind == "input":
        time.sleep(seconds)
    if faulty and kind == "computes":
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            sum(range(1000))
    optimizer.zero_grad()
    data = torch.ones(plan["batch"], 160)
    model(data).square().mean().backward()
    optimizer.step()
    if faulty and kind == "optimizer":
        time.sleep(seconds)
hvd.shutdown()
"""


@dataclass
class Trial:
    """One job, and what came of it."""

    kind: str
    rank: int
    share: float  # of a step that the fault takes, where it is one of time
    named: list[tuple[int, str, str]]  # rank, part of the step, cause
    steps_a_second: float

    def verdict(self) -> str:
        if not self.named:
            return "silent"
        rank, part, cause = self.named[0]
        if self.kind == "balanced":
            return "false alarm"
        if rank != self.rank:
            return "wrong rank"
        wanted_part, wanted_cause = KINDS[self.kind]
        right = (wanted_part or "") in part and re.search(wanted_cause or "", cause)
        return "right" if right else "right rank, other class"


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


def inject(kind: str, pid: int, seconds: float, stack: contextlib.ExitStack) -> None:
    """Begin a fault from outside."""
    if kind == "stopped":
        over = threading.Event()
        thread = threading.Thread(target=stop_and_go, args=(pid, seconds / 4, over))
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
        for _ in range(4):
            busy = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)


def run(kind: str, ranks: int, steps: int, draw: random.Random) -> Trial:
    """Run one job."""
    rank = draw.randrange(ranks)
    share = draw.choice([0.3, 0.6, 1.0])
    plan = {"kind": kind, "rank": rank, "share": share, "steps": steps, "begins": BEGINS}
    plan["batch"] = draw.choice([512, 1024])
    with contextlib.ExitStack() as stack, tempfile.TemporaryFile("w+") as errors:
        environment = {**os.environ, "PLAN": json.dumps(plan), "OMP_NUM_THREADS": "1"}
        command = ["horovodrun", "-np", str(ranks), sys.executable, "-c", WORKER]
        started = time.monotonic()
        job = stack.enter_context(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        )
        pid = 0
        for line in job.stdout:
            if match := re.search(r"pid (\d+)", line):
                pid = int(match[1])
                started = time.monotonic()
            elif "begins" in line:
                inject(kind, pid, float(line.split()[-1]), stack)
        job.wait()
        took = time.monotonic() - started
        stack.close()
        errors.seek(0)
        told = errors.read()
    if job.returncode:
        sys.exit(f"a job of kind {kind} failed:\n{told}")
    named = [(int(each[1]), each[5] or "", each[6] or "") for each in LINE.finditer(told)]
    return Trial(kind, rank, share, named, steps / took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--only", nargs="*", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=250)
    options = parser.parse_args()
    counted: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in options.only}
    for seed in range(options.seed, options.seed + options.seeds):
        for kind in options.only:
            trial = run(kind, options.ranks, options.steps, random.Random(f"{seed} {kind}"))  # noqa: S311
            counted[kind][trial.verdict()] += 1
            print(f"{seed:3} {trial} {trial.verdict()}", flush=True)
    print(f"\n{'kind':12} {'tries':>5} {'right':>6} {'right rank':>10} {'silent':>6} {'wrong':>6}")
    for kind, counts in counted.items():
        right = counts["right"]
        rank = right + counts["right rank, other class"]
        wrong = counts["wrong rank"] + counts["false alarm"]
        print(f"{kind:12} {counts.total():5} {right:6} {rank:10} {counts['silent']:6} {wrong:6}")
    return 1 if any(counts["wrong rank"] or counts["false alarm"] for counts in counted.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
