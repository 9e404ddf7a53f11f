"""The program of who.py's jobs: a small training in torch, or by hand with NumPy, one rank of which has a fault.

The environment has the plan. The lines at which ranks are in a hang have a mark, which who.py looks for.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import mmap
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

plan = json.loads(os.environ["PLAN"])
kind = plan["kind"]
LAYERS, WIDTH = 6, 160


class Fault:
    """What the faulty rank does at points of a step."""

    def __init__(self, is_late: bool) -> None:
        self.is_late = is_late
        self.begun: float | None = None
        self.seconds = 0.0
        self.is_on = False
        self.garbage: list[object] = []
        self.times: list[float] = []  # at which its steps began

    def begin_step(self, step: int, agree: Callable[[int], int]) -> None:
        """Begin, once a few steps have shown how long one takes, and how many more there shall be."""
        if step == plan["begins"] // 3:
            self.begun = time.monotonic()
        if self.is_on:
            self.times.append(time.time())
        if step != plan["begins"]:
            return
        self.seconds = plan["share"] * (time.monotonic() - (self.begun or 0)) / (step - plan["begins"] // 3)
        one = max(self.seconds / plan["share"], 1e-4)
        plan["steps"] = step + (
            99 if plan["is_hang"] else agree(max(80, int(plan["seconds"] / (1 + plan["share"]) / one)))
        )
        self.is_on = self.is_late or kind == "all alike"
        if self.is_on and kind == "collector":
            self.garbage = [[index] for index in range(20_000)]
            gc.freeze()
            gc.unfreeze()
        if self.is_late and not plan["is_hang"]:
            print("begins", self.seconds, flush=True)

    def end(self) -> None:
        """Say when steps began."""
        if self.is_late:
            print("steps", *self.times, flush=True)

    def at(self, point: str) -> None:
        """Slow this rank, if the fault is of this point."""
        if point == "forward":
            time.sleep(plan["device"])
        if not self.is_on or SLOW.get(kind) != point:
            return
        if kind in ("all alike", "input", "forward", "backward", "optimizer"):
            time.sleep(self.seconds / (3 if point == "backward" else 1))
            return
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            work()


def allocate() -> None:
    """Get new memory and touch it."""
    with mmap.mmap(-1, 1 << 22) as memory:
        memory[:: mmap.PAGESIZE] = bytes(len(memory) // mmap.PAGESIZE)


def read_uncached() -> None:
    """Read a file that no longer is in the page cache."""
    fd = os.open(FILE.name, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    while os.read(fd, 1 << 20):
        pass
    os.close(fd)


def compute() -> None:
    """Do nothing else."""
    sum(range(1000))


# Where in a step each kind that slows a rank from inside does it.
SLOW = {
    "input": "input", "computes": "input", "collector": "input", "allocator": "forward", "cache": "input",
    "forward": "forward", "backward": "backward", "optimizer": "optimizer", "all alike": "input",
}  # fmt: skip
work = {"allocator": allocate, "collector": gc.collect, "cache": read_uncached}.get(kind, compute)
if kind == "cache":
    FILE = tempfile.NamedTemporaryFile(dir=plan["folder"])  # noqa: SIM115
    FILE.write(bytes(8 << 20))
    FILE.flush()
    os.fsync(FILE.fileno())


def batches(fault: Fault, rows: int) -> Iterator[int]:
    """Yield a batch's size, as a thread that loads them does."""
    ready: queue.Queue[int] = queue.Queue(2)
    lock = threading.Lock()

    def load() -> None:
        for step in itertools.count():
            if fault.is_late and kind == "pipeline" and step == plan["begins"] + 5:
                say_that_it_hangs()
                lock.acquire()
                lock.acquire()
            ready.put(rows * 3 if fault.is_on and kind == "skew" else rows)

    plan["steps"] = plan["begins"] + 10
    threading.Thread(target=load, daemon=True).start()
    step = 0
    while step < plan["steps"]:
        yield ready.get()  # late: pipeline
        step += 1


def say_that_it_hangs() -> None:
    print("hangs", flush=True)


def evaluate(fault: Fault, hvd: object, one: object) -> None:
    """What follows on each step, and may go another way on one of the ranks."""
    late = fault.is_late
    hang = plan["is_hang"] and plan["now"]
    if hang:
        say_that_it_hangs()
    if hang and late and kind == "debugger":
        os.read(os.pipe()[0], 1)  # late: debugger
    while hang and late and kind == "spins":  # late: spins
        pass  # late: spins
    if hang and late and kind == "stopped":
        os.kill(os.getpid(), 19)
    if hang and late and kind == "traced":
        be_traced()
    if hang and kind == "order" and late:
        hvd.allreduce(one, name="second")  # late: order
        hvd.allreduce(one, name="first")
    elif hang and kind == "order":
        hvd.allreduce(one, name="first")  # others: order
        hvd.allreduce(one, name="second")
    if hang and kind == "mismatched" and late:
        hvd.allgather(one, name="score")  # late: mismatched
    elif hang and kind == "mismatched":
        hvd.broadcast(one, 0, name="score")  # others: mismatched
    try:
        if hang and late and kind == "swallowed":
            raise ValueError("a bad sample")
        if not (hang and late and kind == "missing"):
            hvd.allreduce(one, name="loss")  # others: missing swallowed debugger spins stopped traced
    except ValueError:
        pass


def be_traced() -> None:
    """Be stopped by who traces this process: a child, that stands for a debugger."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(1, 9)  # it ends with its parent
        os.read(reads, 1)
        libc.ptrace(0x4206, os.getppid(), None, None)  # PTRACE_SEIZE
        libc.ptrace(0x4207, os.getppid(), None, None)  # PTRACE_INTERRUPT
        os.waitpid(os.getppid(), 0x40000000)
        time.sleep(3600)
    ctypes.CDLL(None).prctl(0x59616D61, child, 0, 0, 0)
    os.write(writes, b".")
    while True:
        compute()


def train_in_torch() -> None:
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
    hvd.init()
    fault = Fault(hvd.rank() == plan["rank"])
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    for layer in list(model)[1:4]:
        layer.register_full_backward_hook(lambda *_: fault.at("backward"))
    # A link makes a rank late that carries much at the step's end.
    groups = 1 if kind in ("slow link", "lossy link") else None
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 1e-4), model.named_parameters(), groups=groups
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    one = torch.ones(3)
    if fault.is_late:
        print("pid", os.getpid(), flush=True)
    for step, rows in enumerate(batches(fault, plan["batch"])):
        fault.begin_step(step, lambda count: int(hvd.broadcast(torch.tensor([count]), 0, name="steps")))
        fault.at("input")
        optimizer.zero_grad()
        fault.at("forward")
        model(torch.ones(rows, WIDTH)).square().mean().backward()
        optimizer.step()  # others: pipeline; late: missing swallowed
        fault.at("optimizer")
        plan["now"] = step == plan["begins"]
        if plan["is_hang"]:
            evaluate(fault, hvd, one)
    fault.end()
    hvd.shutdown()


def train_by_hand() -> None:
    sys.path.insert(0, str(Path(plan["folder"], "site-packages")))  # who.py puts a link there: it is no line of ours
    import arrays as hvd
    import numpy as np

    hvd.init()
    fault = Fault(hvd.rank() == plan["rank"])
    weights = [np.eye(WIDTH, dtype=np.float32) for _ in range(LAYERS)]
    one = np.ones(3, np.float32)
    if fault.is_late:
        print("pid", os.getpid(), flush=True)
    for step, rows in enumerate(batches(fault, plan["batch"])):
        fault.begin_step(step, lambda count: int(hvd.broadcast(np.array([count]), 0, name="steps")[0]))
        fault.at("input")
        inputs = [np.ones((rows, WIDTH), np.float32)]
        fault.at("forward")
        for weight in weights:
            inputs.append(inputs[-1] @ weight)
        error, handles = inputs[-1] / rows, {}
        for layer in reversed(range(LAYERS)):
            if layer in (1, 2, 3):
                fault.at("backward")
            handles[layer] = hvd.allreduce_async(inputs[layer].T @ error, name=f"weight.{layer}")
            error = error @ weights[layer].T
        for layer, handle in handles.items():
            weights[layer] -= 1e-4 * hvd.synchronize(handle)  # others: pipeline; late: missing swallowed
        fault.at("optimizer")
        plan["now"] = step == plan["begins"]
        if plan["is_hang"]:
            evaluate(fault, hvd, one)
    fault.end()
    hvd.shutdown()


train_in_torch() if plan["framework"] == "torch" else train_by_hand()
