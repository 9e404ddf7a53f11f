"""At which lines ranks are: each offers the stack of its main thread, and tools ask for that by a signal.

Python's fault handler writes the stack in the signal's handler. So a rank need not run Python, nor let another thread
do so, and whoever asks need not be allowed to trace the rank. SIGURG is ignored where nobody takes it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

_SIGNAL = signal.SIGURG
_BIT = 1 << (_SIGNAL - 1)
_PREFIX = "roda-stack-"  # of the file, which has no name once it is open
_FILE = re.compile(rf"/.*/{_PREFIX}\w+ \(deleted\)")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_MOST_SECONDS = 1.0  # a rank in a system call that nothing interrupts may answer late
_LOOK_EVERY = 0.002
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3[.\d]*[/\\]|^<frozen")
_OURS = str(Path(__file__).parents[1]) + os.sep

_offered = -1  # the file of this process


def offer() -> None:
    """Have the signal write this process's stack until :func:`withdraw`, unless the program takes the signal itself."""
    global _offered
    if _offered >= 0 or signal.getsignal(_SIGNAL) != signal.SIG_DFL:
        return
    with contextlib.suppress(OSError):  # no folder for temporary files
        file, path = tempfile.mkstemp(prefix=_PREFIX)
        os.unlink(path)
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)  # who asks empties it
        faulthandler.register(_SIGNAL, file, all_threads=False)  # other threads' stacks change while they are read
        _offered = file


def withdraw() -> None:
    """Offer no stack any more."""
    global _offered
    if _offered >= 0:
        faulthandler.unregister(_SIGNAL)
        os.close(_offered)
        _offered = -1


def ask(pids: Iterable[int]) -> dict[int, list[str]]:
    """Return the stacks of those of these processes that offer one and answer within a second.

    Returns
    -------
    dict
        By process, the innermost frame first: ``train.py:57 in step``; paths below the process's folder are relative.
    """
    told: dict[int, list[str]] = {}
    with contextlib.ExitStack() as files:
        asked: dict[int, IO[bytes]] = {}
        ends = time.monotonic() + _MOST_SECONDS
        for pid in sorted(pids):  # whoever else asks the same ones begins with the same one, and waits there
            with contextlib.suppress(OSError):  # ended meanwhile, or asked by somebody else all the time
                file = files.enter_context(_open(pid))
                _lock(file, ends)
                file.truncate(0)
                os.kill(pid, _SIGNAL)
                asked[pid] = file
        ends = time.monotonic() + _MOST_SECONDS
        for pid, file in asked.items():
            with contextlib.suppress(OSError):
                while (os.fstat(file.fileno()).st_size == 0 or _is_writing(pid)) and time.monotonic() < ends:
                    time.sleep(_LOOK_EVERY)
                told[pid] = _read(file, os.readlink(f"/proc/{pid}/cwd"))
    return told


def _lock(file: IO[bytes], ends: float) -> None:
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends:
                raise
        time.sleep(_LOOK_EVERY)


def line_of(stack: Sequence[str]) -> str:
    """Return the line of the innermost frame that is the program's own: ``train.py:57``; "" where none is."""
    own = (frame for frame in stack if not _LIBRARY.search(frame) and not frame.startswith(_OURS))
    return next(own, "").partition(" in ")[0]


def near(place: str, folder: str) -> str:
    """Return a place without the folder that it is in."""
    return place[len(folder) + 1 :] if place.startswith(f"{folder}{os.sep}") else place


def _open(pid: int) -> IO[bytes]:
    if re.search(r"^State:\s[TtZX]", _status(pid), re.MULTILINE):
        raise ProcessLookupError(f"process {pid} is stopped or gone")
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if _FILE.fullmatch(os.readlink(each)):
                return each.open("r+b", buffering=0)
    raise FileNotFoundError(f"process {pid} offers no stack")


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")


def _is_writing(pid: int) -> bool:
    """Tell whether the signal waits for the main thread, which is its first choice, or is being handled by that."""
    return any(int(bits, 16) & _BIT for bits in re.findall(r"^(?:SigPnd|ShdPnd|SigBlk):\s(\w+)", _status(pid), re.M))


def _read(file: IO[bytes], folder: str) -> list[str]:
    file.seek(0)
    text = file.read().decode(errors="replace")
    return [f"{near(path, folder)}:{line} in {function}" for path, line, function in _FRAME.findall(text)]
