"""Why this rank's program ends, told to the other ranks and to the launcher before the process is gone.

An exception that nobody catches, and ``sys.exit`` with a status, abort the engine with that cause: the operations of
all other ranks end with its text. A rank whose own error only quotes another rank's waits for that one's end: launchers
blame the process that ends first. Hooks that were there before are called as ever.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import json
import os
import re
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

from horovod import _roda
from horovod.common.model import printable
from horovod.common.util import exit_status

# A pipe to our launcher, for lines of JSON (horovod.runner.blame): its number and inode. A rank's children inherit the
# variable alone, and may have another file of that number.
_REPORT_VARIABLE = "_RODA_REPORT_FD"
_CULPRIT_SECONDS = 3.0  # for the process of the rank at fault to end
_SECONDS_TO_BE_SEEN = 3.0  # for a launcher to see that end first, late on a busy machine; it then ends this process
_BEGINNING, _END = 200, 100  # of a longer text: a DataLoader's ends with the error that its worker met
_MOST_OF_LINE = 500  # characters of a traceback, twice
_MOST_TRACEBACK = 24_000  # characters; with the rest well below what a pipe takes at once

# Each waits for operations that a framework begins later than the program says; called before a rank leaves the job or
# removes a process set.
finishers: list[Callable[[], None]] = []
# Each keeps this rank in the job while other ranks need this one there; called after the finishers, before the rank
# leaves the job, and at no other time.
stays: list[Callable[[], None]] = []

_owner = 0  # the process that has the hooks
_leaver = 0  # the process whose engine is shut down at its exit
_rank = -1  # of the latest engine
_ended_by: BaseException | None = None  # what this program ends by, as far as a hook has seen it

_thread_ended = ""  # how a thread did for which the others do not wait, as far as the program's end goes

_OUTERMOST = ("<module>", "_run_module_as_main")  # of a program that runs: of a file, of python -m
_CALLS = "(most recent call last):\n"  # of a traceback in the text of an error
_FRAME = re.compile(r'  File "(.+)", line (\d{1,9})\b')
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # of Python 3.11


def watch() -> None:
    """Set the hooks that tell our launcher of an error, before there is an engine, in a process that it started."""
    if _report_pipe() is not None:
        _set_hooks()


def install() -> None:
    """Set the hooks, once a process; to be called after each start of the engine."""
    global _leaver, _rank
    _rank = _roda.rank()
    if _leaver == os.getpid():
        return
    _leaver = os.getpid()
    atexit.register(_shut_down_at_exit)
    _set_hooks()
    _chain_hook_of_threads()
    _watch_ipython()
    _watch_multiprocessing()


def _set_hooks() -> None:
    global _owner
    _owner = os.getpid()
    _chain_excepthook()
    if isinstance(sys.exit, types.BuiltinFunctionType):
        _watch_exits()
        sys.exit = _exit  # type: ignore[assignment]  # takes any number of arguments, to raise what sys.exit would
        quitter = type(getattr(builtins, "exit", None))
        if quitter.__module__ == "_sitebuiltins":  # exit() and quit()
            quitter.__call__ = lambda _self, status=None: sys.exit(status)  # type: ignore[method-assign,misc]


# --- what is said -----------------------------------------------------------------------------------------------------


def describe(error: BaseException) -> str:
    """Return ``ValueError: bad label 17 (train.py:57)``: one line, with the place in the user's own code."""
    group = error
    while isinstance(error, _GROUP):
        error = error.exceptions[0]
    is_of_process = type(error.__cause__).__name__.endswith("RemoteTraceback")  # multiprocessing's, concurrent.futures'
    quoted = _quoted_in(error.__cause__ if is_of_process else error)
    text = _placed(_kind_of(error) if quoted else _named(error), _place_of(error) or _place_of(group))
    text = f"{quoted}, in {text}" if quoted else text
    return text if error is group else f"{text}, in {_named(group)}"


def _quoted_in(error: BaseException | None) -> str:
    """Return the error that a framework's own quotes with its traceback: of a callback, a graph, another process."""
    _, is_quoted, quoted = _text_of(error).rpartition(_CALLS)
    frames, text = [], ""
    for line in quoted.splitlines() if is_quoted else ():
        if frame := _FRAME.match(line):
            frames.append((frame[1], int(frame[2])))
        elif frames and line[:1].strip():
            text = line
            break
    return printable(_placed(_in_a_line(text), _place_in(frames))) if text else ""


def _kind_of(error: BaseException) -> str:
    name, module = type(error).__qualname__, type(error).__module__
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def _named(error: BaseException) -> str:
    text = _in_a_line(error)
    return printable(_kind_of(error) + (f": {text}" if text else ""))


def _placed(text: str, place: str) -> str:
    return text + (f" ({place})" if place else "")


def _text_of(error: object) -> str:
    try:
        return str(error)
    except Exception:  # the class is the user's
        return "<exception str() failed>"


def _in_a_line(error: object) -> str:
    return _cut(" ".join(_text_of(error).split()), _BEGINNING, _END)


def _cut(text: str, beginning: int, end: int) -> str:
    return text if len(text) <= beginning + end else f"{text[:beginning]} ... {text[-end:]}"


def _place_of(error: BaseException) -> str:
    return _place_in([(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)])


def _place_in(lines: list[tuple[str, int]]) -> str:
    own = [line for line in lines if not _is_librarys(line[0])]
    files = [line for line in own if not line[0].startswith("<")]  # frameworks make functions from strings
    return printable(_format_place(*(files or own or lines)[-1])) if lines else ""


def _is_librarys(file: str) -> bool:
    ours, pythons = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(os.__file__)
    return "site-packages" in file or "dist-packages" in file or file.startswith(("<frozen", ours, pythons + os.sep))


def _format_place(file: str, line: int) -> str:
    with contextlib.suppress(ValueError, OSError):  # another drive, a folder that is gone
        near = os.path.relpath(file)
        file = file if near.startswith("..") else near
    return f"{file}:{line}"


def victim_of(error: BaseException | None) -> int | None:
    """Return the rank whose end, or error, this rank's exception quotes; None where it is this rank's own."""
    cause = _roda.end_cause()
    if cause is None or cause[0] in (-1, _rank):
        return None
    beginning = cause[1][:120]
    seen: set[int] = set()
    todo = [error]
    while todo:
        error = todo.pop()
        if error is None or id(error) in seen:
            continue
        if beginning in _text_of(error):
            return cause[0]
        seen.add(id(error))
        todo.append(error.__cause__ or error.__context__)
        if isinstance(error, _GROUP):
            todo += error.exceptions
    return None


def end_by(error: BaseException, by: str = "ended with ") -> bool:
    """End the job for an exception of this rank, or wait for the end of the rank whose error it quotes.

    Returns
    -------
    bool
        The error is another rank's failure, which the launcher tells once for all: it need not be printed here.
    """
    if os.getpid() != _owner:  # a forked child's end says nothing of the job
        return False
    origin = abort_for(error, by)
    if origin is None:
        return False
    _, cause, is_asked_for = _roda.end_cause() or (origin, "", True)
    is_failure = not is_asked_for  # that rank may have ended in peace, while this one waited
    words = _own_words(error)
    words["error"] = printable(_placed(f"{_kind_of(error)}: {_in_a_line(cause)}", _place_of(error)))
    is_told = _report({"origin": origin, "is_lost": is_failure, **words})
    is_seen = _roda.await_process_end(origin, int(_CULPRIT_SECONDS * 1e6)) is not None
    if not is_told or not is_seen:
        time.sleep(_SECONDS_TO_BE_SEEN)
    return is_told and is_failure


def abort_for(error: BaseException, by: str) -> int | None:
    """End the job for an exception of this rank; or return the rank whose error it quotes, which has ended the job."""
    origin = victim_of(error)
    if origin is None:
        words = _own_words(error)
        _report(words | _blaming_another(words["error"]))  # before the others can learn of it and end
        _roda.abort(by + describe(error))
    return origin


def _blaming_another(what: str) -> dict[str, Any]:
    """Return what makes this rank's end another one's fault: one that has ended the job before by a failure."""
    cause = _roda.end_cause()
    if cause is None or cause[0] in (-1, _rank) or cause[2] or os.environ.get("HOROVOD_ELASTIC") == "1":
        return {}  # elastic workers go on after another one's end
    return {"origin": cause[0], "error": f"{what}, after: {cause[1]}"}


def _own_words(error: BaseException) -> dict[str, str]:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    text = "".join(_cut(line, _MOST_OF_LINE, _MOST_OF_LINE) for line in "".join(lines).splitlines(keepends=True))
    return {"error": describe(error), "traceback": _cut(text, _MOST_TRACEBACK // 2, _MOST_TRACEBACK // 2)}


def _report(what: dict[str, Any]) -> bool:
    pipe = _report_pipe()
    if pipe is not None:
        with contextlib.suppress(OSError):
            return os.write(pipe, json.dumps(what).encode() + b"\n") > 0
    return False


def _report_pipe() -> int | None:
    fd, _, inode = os.environ.get(_REPORT_VARIABLE, "").partition(":")
    if fd.isdigit():
        with contextlib.suppress(OSError):
            return int(fd) if os.fstat(int(fd)).st_ino == int(inode) else None
    return None


# --- hooks ------------------------------------------------------------------------------------------------------------


def _chain_excepthook() -> None:
    before = sys.excepthook
    if hasattr(before, "tells_launcher"):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        global _ended_by
        if error is _ended_by or _goes_on():
            before(kind, error, trace)
            return
        is_told, _ended_by = False, error
        with contextlib.suppress(Exception):
            is_told = end_by(error)
        if not is_told or before is not sys.__excepthook__:
            before(kind, error, trace)
        return

    hook.tells_launcher = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _chain_hook_of_threads() -> None:
    before = threading.excepthook

    def hook(args: Any) -> None:
        # The others wait for a thread that takes part in collectives as they do for the main one.
        global _thread_ended
        error = args.exc_value
        is_orderly = isinstance(error, SystemExit) and exit_status(error.code) == 0
        with contextlib.suppress(Exception):
            if error is not None and not is_orderly and _roda.thread_has_submitted():
                end_by(error, f"can't go on: its thread {args.thread.name} ended with ")
            elif error is not None and not isinstance(error, SystemExit):
                _thread_ended = f", after its thread {args.thread.name} had ended with {describe(error)}"
        before(args)

    threading.excepthook = hook


def _goes_on() -> bool:
    """Tell whether the program is still under way: a console shows what fails at its prompt through the hook, too."""
    frame: Any = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name in _OUTERMOST


class _Code:
    """Stands for ``SystemExit.code``: Python reads that when the program ends for it, with no Python code around."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def __get__(self, error: SystemExit | None, owner: type | None = None) -> Any:
        if error is None:
            return self._member
        if sys._getframe().f_back is None and threading.current_thread() is threading.main_thread():
            with contextlib.suppress(Exception):
                _end_with_status(error)
        return self._member.__get__(error, owner)

    def __set__(self, error: SystemExit, code: object) -> None:
        self._member.__set__(error, code)


def _watch_exits() -> None:
    """See ``raise SystemExit(...)``, for which Python calls no hook; its own types take no assignment."""
    with contextlib.suppress(Exception):  # another Python than CPython, or one without ctypes
        import ctypes

        members = gc.get_referents(SystemExit.__dict__)[0]
        if not isinstance(members["code"], _Code):
            members["code"] = _Code(members["code"])
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))


def _exit(*status: Any) -> None:
    arguments = status[0] if status and isinstance(status[0], tuple) else status
    if threading.current_thread() is not threading.main_thread():  # it ends the thread, without words where it is that
        raise SystemExit(*arguments)
    error = SystemExit(*arguments)
    caller: Any = sys._getframe(1)
    while _is_librarys(caller.f_code.co_filename) and caller.f_back is not None:  # exit() here, argparse
        caller = caller.f_back
    error._place = _format_place(caller.f_code.co_filename, caller.f_lineno)  # type: ignore[attr-defined]
    try:
        raise error
    finally:
        del error, caller  # this frame is in the traceback: the error must not keep itself


def _end_with_status(error: SystemExit) -> None:
    if os.getpid() != _owner:
        return
    place = getattr(error, "_place", "") or _place_of(error)
    status = exit_status(error.code)
    text = "" if error.code is None or isinstance(error.code, int) else _in_a_line(error.code)
    how = f"ended with status {status}" + (f": {text}" if text else "") + (f" ({place})" if place else "")
    how = printable(how)
    if status == 0:
        _shut_down(how)
    elif error.__context__ is not None:  # whoever caught that ends the program for it
        end_by(error.__context__, f"ended with status {status} for ")
    else:
        _report({"error": how} | _blaming_another(how))
        _roda.abort(how)


def _shut_down(how: str) -> None:
    if os.getpid() == _owner and _roda.is_initialized():
        leave()
        _roda.shutdown(how + _thread_ended)


def finish() -> None:
    """Wait for what frameworks have yet to begin."""
    for finisher in finishers:
        finisher()


def leave() -> None:
    """Wait for all that has to be over before this rank leaves the job."""
    finish()
    for stay in stays:
        stay()


def _shut_down_at_exit() -> None:
    error: Any = getattr(sys, "last_value", None)
    if error is not _ended_by and _has_ended_the_program(error):  # a hook set since then calls none before it
        with contextlib.suppress(Exception):
            end_by(error)
    _shut_down("reached the end of its program")


def _has_ended_the_program(error: Any) -> bool:
    """Tell whether Python prints an error for the program's end; test runners and consoles keep theirs there, too."""
    trace = getattr(error, "__traceback__", None)
    if trace is None or hasattr(sys, "ps1") or sys.flags.interactive:
        return False
    code = trace.tb_frame.f_code
    is_programs = code.co_name == _OUTERMOST[0] and trace.tb_frame.f_globals.get("__name__") == "__main__"
    return is_programs or bool(code.co_name == _OUTERMOST[1])


def _watch_ipython() -> None:
    """See errors of a script that IPython runs: it shows them itself. A session goes on after one, and may mend it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    app = getattr(shell, "parent", None)
    if shell is None or getattr(app, "interact", True):
        return

    def show(self: Any, kind: Any, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        if not end_by(error):
            self.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell.set_custom_exc((Exception,), show)


def _watch_multiprocessing() -> None:
    """See errors of a process that multiprocessing started: it prints them itself, and runs no hooks at its exit."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return
    from multiprocessing.util import Finalize

    def end() -> None:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            _end_with_status(error)
        elif error is not None:
            end_by(error)
        _shut_down_at_exit()

    Finalize(None, end, exitpriority=100)
