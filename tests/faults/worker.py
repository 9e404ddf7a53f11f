"""One rank of a trial of the fault matrix: it works through the phases, meets its fault, and tells what it saw.

It is given the trial's folder; ``trial.json`` there says what happens. It imports no framework: what it works on are
plain arrays, and whatever a collective gives is compared with what it must be.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
TRIAL = json.loads((FOLDER / "trial.json").read_text())
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["HOROVOD_RANK"])
IS_VICTIM = TRIAL["victim"] == RANK
SIZE = TRIAL["size"]
FLOAT32 = 7
AT_ONCE = ("kill", "stop", "vanish")  # what another thread can do while the main one is inside the engine
TOLD = (FOLDER / f"told.{RANK}").open("ab", buffering=0)  # open from the start: descriptors may run out
LIMITS = ("full shm", "descriptors", "memory")
KEEP_DESCRIPTORS = ("mpi", "ucx")  # these libraries do, until the process ends


def tell(what: str, text: str = "") -> None:
    """Add a line, with the time, to what this rank has told."""
    TOLD.write(json.dumps({"what": what, "time": time.monotonic(), "text": text}).encode() + b"\n")


STARTED: list[Step] = []


class Fault(Exception):
    """What a script raises on one rank alone."""


def meet_fault() -> None:
    """Do to this process what the trial is about."""
    fault = TRIAL["fault"]
    if fault in LIMITS:
        limit(fault)
    tell("fault")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "vanish":
        os._exit(0)
    if fault == "exit":
        sys.exit(0)
    if fault == "raise":
        raise Fault("this rank's own")


def limit(fault: str) -> None:
    """Leave this process, or its host, with little more than it has."""
    if fault == "full shm":
        with Path("/dev/shm/filler").open("wb", buffering=0) as file:  # noqa: S108 (the trial's own)
            for block in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"\0" * block)
                except OSError:
                    continue
    elif fault == "descriptors":
        used = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + TRIAL["allowance"],) * 2)
    else:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        allowed = pages * resource.getpagesize() + (TRIAL["allowance"] << 20)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))


def arm() -> None:
    """Meet the fault soon, from another thread."""
    delay = TRIAL["delay"]

    def wait_and_meet() -> None:
        time.sleep(delay)
        meet_fault()

    threading.Thread(target=wait_and_meet, daemon=True).start()


def begin(phase: str) -> None:
    """Come to a phase; where it is the trial's, the victim meets its fault, at once or in the middle of it."""
    tell(phase)
    if TRIAL["phase"] != phase or not IS_VICTIM:
        return
    if TRIAL["fault"] in AT_ONCE and phase in ("init", "mid", "shutdown"):
        arm()
    elif TRIAL["fault"] in ("raise", "exit") and phase == "mid":
        pass  # with an operation under way, below
    else:
        meet_fault()


# --- collectives, and what they must give ---


class Tensor(ctypes.Structure):
    """The head of DLPack's tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]  # fmt: skip


def read(capsule: Any) -> bytes:
    """Copy what the engine's output holds."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(get(capsule, b"dltensor"))
    count = 1
    for at in range(tensor.ndim):
        count *= tensor.shape[at]
    return ctypes.string_at(tensor.data, 4 * count)


def floats(*values: float, each: int) -> array.array:
    """Return so many of each value in turn."""
    whole = array.array("f")
    for value in values:
        whole += array.array("f", [value]) * each
    return whole


def value_of(rank: int, step: int) -> float:
    """Return what a rank contributes."""
    return float(rank + 1 + step % 8)


class Step:
    """One collective with its buffers, from its submission to the comparison of what it gave."""

    def __init__(self, kind: str, step: int, count: int) -> None:
        ranks, mine = range(SIZE), value_of(RANK, step)
        count -= count % SIZE
        self.output, self.owned = None, kind in ("allgather", "alltoall", "join")
        self.expected, self.input, fields = None, None, {}
        if kind == "allreduce":
            self.input, self.output = floats(mine, each=count), floats(0, each=count)
            self.expected = floats(sum(value_of(r, step) for r in ranks), each=count)
        elif kind == "adasum":  # of equal vectors it is their average
            self.input, self.output = floats(1.0, each=count), floats(0, each=count)
            self.expected, fields = floats(1.0, each=count), {"op": operations.Adasum}
        elif kind == "broadcast":
            root = step % SIZE
            self.input = self.output = floats(mine, each=count)
            self.expected, fields = floats(value_of(root, step), each=count), {"root": root}
        elif kind == "reducescatter":
            self.input = floats(*(mine + r for r in ranks), each=count // SIZE)
            self.output = floats(0, each=count // SIZE)
            self.expected = floats(sum(value_of(r, step) for r in ranks) + SIZE * RANK, each=count // SIZE)
        elif kind == "allgather":
            self.input = floats(mine, each=count)
            self.expected = floats(*(value_of(r, step) for r in ranks), each=count)
        elif kind == "alltoall":
            self.input = floats(*(mine + 16 * r for r in ranks), each=count // SIZE)
            self.expected = floats(*(value_of(r, step) + 16 * RANK for r in ranks), each=count // SIZE)
        if self.input is None:
            number = operations.JOIN if kind == "join" else operations.BARRIER
            self.request = operations.bare_request(number, 0)
        else:
            number = operations.ALLREDUCE if kind == "adasum" else getattr(operations, kind.upper())
            output = self.output.buffer_info()[0] if self.output is not None else 0
            self.request = operations.Request(
                number, f"{kind}.{step % 4}", FLOAT32, (len(self.input),), self.input.buffer_info()[0], output, **fields
            )

    def run(self) -> None:
        """Run it to its end; HorovodInternalError as the engine says."""
        outputs = _roda.run([self.request], 1 if self.owned else 0)
        if self.expected is None:
            return
        got = read(outputs[0][0]) if self.owned else self.output.tobytes()
        if got != self.expected.tobytes():
            tell("wrong", f"{self.request.name} gave other data than it must")

    def start(self) -> None:
        """Only submit it: its buffers are the engine's until that ends."""
        STARTED.append(self)
        _roda.submit([self.request])


def descriptors() -> Counter[str]:
    """Return what this process has open, and how often."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found[re.sub("[0-9]+", "#", os.readlink(f"/proc/self/fd/{name}"))] += 1
    return found


def be_alone() -> Counter[str]:
    """Be a job of one process, from start to end; return what is open then: the engine goes with the next start."""
    for name in [name for name in os.environ if name.startswith("HOROVOD_")]:
        del os.environ[name]
    basics.init()
    basics.shutdown()
    return descriptors()


def open_when_alone() -> Counter[str]:
    """Return what is open after a job of one process that comes first, in a child."""
    reads, writes = os.pipe()
    if child := os.fork():
        os.close(writes)
        with os.fdopen(reads) as told:
            found = Counter(json.load(told))
        os.waitpid(child, 0)
        return found
    os.close(reads)
    found = be_alone() - Counter({"pipe:[#]": 1})
    os.write(writes, json.dumps(found).encode())
    os._exit(0)


def begin_anew(expected: Counter[str]) -> None:
    """Tell what is left open, when a job of one process has come after this one."""
    try:
        left = be_alone() - expected
    except (HorovodInternalError, ValueError, RuntimeError) as error:
        tell("wrong", f"no job can be begun after this one: {error}")
        return
    del left["/dev/null"]  # each plugin keeps one, to put in the place of others after a fork
    if left:
        tell("open", ", ".join(f"{count} of {name}" for name, count in left.items()))


def wait_for_word() -> None:
    """Hold until whoever cuts or slows the link has done so."""
    while not (FOLDER / "go").exists():
        time.sleep(0.005)


def work() -> None:
    """Run the collectives of all phases between init and shutdown."""
    kind, count = TRIAL["collective"], TRIAL["count"]
    for step in range(2):
        Step(kind, step, 64).run()
    begin("negotiation")
    if TRIAL["phase"] == "negotiation" and TRIAL["victim"] < 0 and RANK != 0:
        wait_for_word()  # the fault is not a rank's
    Step(kind, 2, 64).run()
    begin("mid")
    endless = TRIAL["phase"] == "mid" and TRIAL["endless"]
    step = 2
    while endless or step < 2 + TRIAL["steps"]:
        step += 1
        if TRIAL["phase"] == "mid" and TRIAL["fault"] == "slow link" and step == TRIAL["steps"] // 2:
            wait_for_word()  # some are begun before, some after
        operation = Step(kind, step, count)
        if IS_VICTIM and TRIAL["phase"] == "mid" and TRIAL["fault"] in ("raise", "exit") and step == 3 + TRIAL["turn"]:
            operation.start()
            meet_fault()
        operation.run()
    Step("barrier", 0, 0).run()


def main() -> None:
    """Go through the phases and tell how it ended."""
    began = False
    checks_descriptors = TRIAL["fault"] not in LIMITS and TRIAL["transport"] not in KEEP_DESCRIPTORS and not IS_VICTIM
    when_alone = open_when_alone() if checks_descriptors else Counter()
    try:
        begin("init")
        basics.init()
        began = True
        if IS_VICTIM and TRIAL["phase"] == "init" and TRIAL["fault"] in AT_ONCE:
            threading.Event().wait()  # it is to be met outside the operations
        work()
        begin("shutdown")
        basics.shutdown()
        if IS_VICTIM and TRIAL["phase"] == "shutdown" and TRIAL["fault"] in AT_ONCE:
            threading.Event().wait()  # it was faster than its fault
    except (HorovodInternalError, ValueError, RuntimeError, MemoryError, OSError) as error:
        tell("error", f"{'operation' if began else 'init'}: {type(error).__name__}: {error}")
        basics.shutdown()
    else:
        tell("fine")
    if checks_descriptors:
        begin_anew(when_alone)
    tell("left")


if TRIAL["phase"] == "launch" and IS_VICTIM and TRIAL["fault"] not in LIMITS:
    meet_fault()  # before anything of the product runs
from horovod import _roda  # noqa: E402
from horovod.common import operations  # noqa: E402
from horovod.common.basics import HorovodBasics  # noqa: E402
from horovod.common.exceptions import HorovodInternalError  # noqa: E402

basics = HorovodBasics()
if TRIAL["phase"] == "launch" and IS_VICTIM:
    meet_fault()
main()
