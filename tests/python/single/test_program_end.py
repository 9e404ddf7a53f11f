"""Whatever ends a rank's program, the others and the launcher name that rank and why."""

from __future__ import annotations

import builtins
import importlib
import json
import multiprocessing.pool
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Launch
from horovod.common.program_end import describe
from horovod.common.util import exit_status
from horovod.runner.blame import Blame, Raised, RemoteError

# The last rank ends in the way that is named; the others wait for it in collectives, and keep what they are told.
PROGRAM = r"""
import code, ctypes, faulthandler, multiprocessing, os, resource, signal, sys, threading
from horovod.common import life_cycle as hvd, objects
kind, folder = sys.argv[1:]


def fail():
    raise ValueError("bad label 17")  # here


def in_thread():
    objects.allgather_object(0)
    fail() if kind == "thread" else sys.exit(3 if kind == "thread_exit" else 0)


def leave():
    if kind == "exit":
        sys.exit(3)
    elif kind == "exit_with_text":
        sys.exit("no data in data.bin")
    elif kind == "exit_0":
        sys.exit(0)
    elif kind == "exit_for_error":
        try:
            fail()
        except ValueError:
            sys.exit(5)
    elif kind == "caught_exit":
        try:
            sys.exit(9)
        except SystemExit:
            fail()
    elif kind == "shutdown_in_finally":
        try:
            fail()
        finally:
            hvd.shutdown()
    elif kind in ("thread", "thread_exit", "end"):
        thread = threading.Thread(target=in_thread, name="trainer")
        thread.start()
        thread.join()
        if kind != "end":
            threading.Event().wait()
    elif kind == "own_hook":
        code.InteractiveInterpreter().runsource("1 / 0")  # shown through the hook: the program goes on
        before = sys.excepthook
        sys.excepthook = lambda *error: (print("hook of the program"), before(*error))
        fail()
    elif kind == "hook_set_later":
        sys.excepthook = lambda kind, error, trace: print("hook of the program")
        raise ValueError("no file \udcff\0")
    elif kind == "exit_of_builtins":
        exit(3)
    elif kind == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    elif kind == "raised_exit":
        raise SystemExit([1, 2])
    elif kind == "os_exit_0":
        os._exit(0)
    elif kind == "another_program":
        os.execvp("sleep", ["sleep", "100"])
    elif kind == "time_limit":
        resource.setrlimit(resource.RLIMIT_CPU, (1, 100))
        while True:
            pass
    elif kind == "fault":
        faulthandler.enable()
        ctypes.string_at(0)
    elif kind == "other_thread":
        thread = threading.Thread(target=fail, name="loader")
        thread.start()
        thread.join()
    elif kind.startswith("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        fail()


def main():
    hvd.init()
    try:
        objects.allgather_object(0)  # where the last rank is through first, this fails elsewhere
        if hvd.rank() == hvd.size() - 1:
            return leave()
        while True:
            objects.allgather_object(0)
    except RuntimeError as error:
        with open(f"{folder}/{hvd.rank()}", "w") as file:
            file.write(str(error))
        if kind != "killed_and_caught":
            raise
    sys.exit(3)


if kind == "process":
    child = multiprocessing.get_context("fork").Process(target=main)
    child.start()
    child.join()
    sys.exit(child.exitcode)
main()
"""
ERROR = "ValueError: bad label 17 (program.py:8)"

# How it ends, the status, what the others are told of the last rank, and whether their tracebacks are worth printing.
ENDS = [
    ("raise", 1, f"ended with {ERROR}", False),
    ("exit", 3, "ended with status 3 (program.py:18)", False),
    ("exit_with_text", 1, "ended with status 1: no data in data.bin (program.py:20)", False),
    ("exit_0", 1, "ended with status 0 (program.py:22)", True),
    ("exit_for_error", 5, f"ended with status 5 for {ERROR}", False),
    ("caught_exit", 1, f"ended with {ERROR}", False),
    ("shutdown_in_finally", 1, f"called hvd.shutdown() after {ERROR}", True),
    ("thread", 1, f"can't go on: its thread trainer ended with {ERROR}", False),
    ("thread_exit", 1, "can't go on: its thread trainer ended with SystemExit: 3 (program.py:13)", False),
    ("own_hook", 1, f"ended with {ERROR}", False),
    ("hook_set_later", 1, "ended with ValueError: no file �� (program.py:51)", False),
    ("exit_of_builtins", 3, "ended with status 3 (program.py:53)", False),
    ("process", 1, f"ended with {ERROR}", True),
    ("interrupt", 130, "ended with KeyboardInterrupt (program.py:", False),
    ("killed", 137, "died: its process ended without hvd.shutdown()", False),
    ("killed_and_caught", 137, "died: its process ended without hvd.shutdown()", False),
    ("end", 1, "reached the end of its program", True),
    ("raised_exit", 1, "ended with status 1: [1, 2]", False),
    ("os_exit_0", 1, "died: its process ended without hvd.shutdown()", False),
    ("another_program", 1, "is lost: its process", False),
    ("time_limit", 152, "died: its process ended without hvd.shutdown()", False),
    ("fault", 139, "died: its process ended without hvd.shutdown()", False),
    ("other_thread", 1, f"reached the end of its program, after its thread loader had ended with {ERROR}", True),
]
# What the summary has of a rank that can tell nothing itself.
SILENT = {
    "killed": "\nThe process at fault left no traceback.\n",
    "os_exit_0": "\nThe process at fault left no traceback.\n",
    "another_program": " runs another program now, ",
    "time_limit": "\nCause: ended by the limit on CPU time, after ",
    "fault": "\nFatal Python error: Segmentation fault\n",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(("kind", "status", "told", "is_printed"), ENDS, ids=[end[0] for end in ENDS])
def test_the_others_are_told_why_a_rank_ends(
    horovodrun: Launch, program: Path, kind: str, status: int, told: str, is_printed: bool
) -> None:
    folder = program.parent
    done = horovodrun("-np", "3", sys.executable, "program.py", kind, str(folder), cwd=folder)
    assert done.returncode == status, done.stderr
    for rank in (0, 1):
        assert re.search(rf"[Rr]ank 2 (\(localhost\) )?{re.escape(told)}", (folder / str(rank)).read_text()), (
            done.stderr
        )
    summary = done.stderr.partition("Horovod detected that one or more processes")[2]
    assert "Process name: 2\n" in summary
    has_left = kind in ("exit_0", "os_exit_0", "end", "other_thread")  # while others waited
    assert f"\nExit code: {0 if has_left else status}\n" in summary
    assert "\n2 other ranks ended for this cause." in summary, summary
    assert SILENT.get(kind, "") in summary
    assert "operations.py" not in summary, "a traceback of another rank"
    assert "SIGTERM" not in done.stderr
    assert bool(re.search(r"\[[01]\]<stderr>:Traceback", done.stderr)) == is_printed, done.stderr
    if told.endswith(ERROR) and not has_left:
        assert f"\nHost: localhost\nCause: {ERROR}\nTraceback (most recent call last):\n" in summary
        assert 'raise ValueError("bad label 17")  # here\n' in summary
    if kind == "killed_and_caught":
        assert re.search(r"\nCause: rank [01] ended with status 3 \(.*\), after: .* died: its process ended", summary)
    if kind in ("own_hook", "hook_set_later"):
        assert "[2]<stdout>:hook of the program" in done.stdout


EARLY = """
import os, subprocess, sys
from horovod.common import life_cycle as hvd, objects
kind, is_at_fault = sys.argv[1], os.environ["HOROVOD_RANK"] == "1"
if is_at_fault and kind == "raise":
    raise ValueError("bad label 17")
if is_at_fault and kind == "exit":
    sys.exit(7)
if is_at_fault and kind == "child":
    subprocess.run([sys.executable, "-c", "from horovod.common import life_cycle; 1 / 0"])
    os._exit(3)
hvd.init()
objects.allgather_object(0)
if is_at_fault:
    sys.exit(256)
objects.allgather_object(0)
"""


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("raise", 1, "1\nHost: localhost\nCause: ValueError: bad label 17 (program.py:6)\nTraceback"),
        ("exit", 7, "7\nHost: localhost\nCause: ended with status 7 (program.py:8)\n"),
        ("child", 3, "3\nHost: localhost\n\n"),  # a rank's child says nothing of the rank
        ("status of 0", 1, "0\nHost: localhost\nCause: ended with status 256 (program.py:15)\n1 other rank ended for"),
    ],
)
def test_a_rank_is_blamed_that_fails_before_it_starts_or_with_a_status_of_0(
    horovodrun: Launch, program: Path, kind: str, status: int, words: str
) -> None:
    program.write_text(EARLY)
    done = horovodrun("-np", "2", sys.executable, "program.py", kind, cwd=program.parent)
    assert done.returncode == status
    assert f"\nProcess name: 1\nExit code: {words}" in done.stderr, done.stderr


@pytest.mark.parametrize("size", [2, 8])
def test_the_rank_at_fault_is_named_among_any_number(horovodrun: Launch, program: Path, size: int) -> None:
    done = horovodrun("-np", str(size), sys.executable, "program.py", "raise", str(program.parent), cwd=program.parent)
    assert f"\nProcess name: {size - 1}\n" in done.stderr
    assert f"\nCause: {ERROR}\n" in done.stderr
    assert f"\n{size - 1} other rank" in done.stderr


def test_the_cause_is_in_the_flight_recorders_dump(horovodrun: Launch, program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by the job"
    environment = {**os.environ, "RODA_FLIGHT_FOLDER": str(folder)}
    horovodrun("-np", "2", sys.executable, "program.py", "raise", str(tmp_path), cwd=tmp_path, env=environment)
    dumps = [*folder.glob("*.json")]
    assert dumps
    assert all(f"ended with {ERROR}" in dump.read_text() for dump in dumps)


def test_a_folder_for_dumps_that_cannot_be_is_told_at_the_start(horovodrun: Launch, program: Path) -> None:
    folder = program / "below a file"
    environment = {**os.environ, "RODA_FLIGHT_FOLDER": str(folder)}
    done = horovodrun("-np", "2", sys.executable, str(program), "raise", str(program.parent), env=environment)
    assert f"RODA_FLIGHT_FOLDER={folder}: nothing can be written there: Not a directory" in done.stderr


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_other_launchers_see_the_rank_at_fault_end_first(program: Path, launcher: str) -> None:
    """They blame whose process ends first."""
    commands = {
        "mpirun": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "3", sys.executable],
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"],
    }
    if launcher == "mpirun" and shutil.which("mpirun.openmpi") is None:
        pytest.skip("no mpirun of Open MPI")
    done = subprocess.run(
        [*commands[launcher], "program.py", "raise", str(program.parent)],
        cwd=program.parent, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    at_fault = {"mpirun": r"Process name: \[\[\d+,1\],2\]", "torchrun": r"rank +: 2 \(local_rank: 2\)"}[launcher]
    assert re.search(at_fault, done.stderr), done.stderr
    assert f"ended with {ERROR}" in done.stderr + (program.parent / "0").read_text()


class Mute(Exception):
    """One without words."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError


def caught(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


def test_any_error_is_described() -> None:
    assert describe(Mute()) == "test_program_end.Mute: <exception str() failed>"
    long = ValueError("\x1b[31m" + "x" * 10_000 + " ValueError: bad item 3")
    assert describe(long) == f"ValueError: �[31m{'x' * 195} ... {'x' * 77} ValueError: bad item 3"
    in_library = caught(lambda: json.loads("{"))
    assert re.search(r"\(.*test_program_end\.py:\d+\)$", describe(in_library)), "the line that calls Python's library"
    if hasattr(builtins, "ExceptionGroup"):  # of Python 3.11
        group_of = builtins.ExceptionGroup
        group = group_of("some", [group_of("more", [in_library]), KeyError(1)])
        assert describe(group) == f"{describe(in_library)}, in ExceptionGroup: some (2 sub-exceptions)"


# As TensorFlow, JAX and PyTorch's DataLoader tell of an error in a function of the user's that they call.
QUOTES = """Graph execution error: Detected at node EagerPyFunc defined at (most recent call last):
  File "train.py", line 43, in <module>

KeyError: 1
Traceback (most recent call last):

  File "/usr/lib/python3/dist-packages/framework/script_ops.py", line 267, in __call__
    return func(device, token, args)
           ^^^^^^^^^^^^^^^^^^^^^^^^^

  File "data.py", line 7, in label
    raise ValueError("bad label 17")

ValueError: bad label 17

\t [[{{node EagerPyFunc}}]]"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (QUOTES, r"ValueError: bad label 17 \(data\.py:7\), in RuntimeError"),
        (QUOTES[: QUOTES.index("Traceback")], r"KeyError: 1 \(train\.py:43\), in RuntimeError"),
        (QUOTES[: QUOTES.index("ValueError: ")], r"RuntimeError: Graph execution .*"),  # cut
        ("see above (most recent call last):\nnothing", r"RuntimeError: see above \(most recent call last\): nothing"),
    ],
)
def test_an_error_that_a_framework_quotes_is_named_before_its_own(text: str, told: str) -> None:
    def fail() -> None:
        raise RuntimeError(text)

    assert re.fullmatch(told + r" \(.*test_program_end\.py:\d+\)", describe(caught(fail)))


def test_the_line_is_of_a_file_and_of_the_process_that_failed() -> None:
    functions: dict = {}
    exec("def made_by_a_framework(): raise ValueError(1)", functions)  # noqa: S102
    words = describe(caught(functions["made_by_a_framework"]))
    assert re.fullmatch(r"ValueError: 1 \(.*test_program_end\.py:\d+\)", words)

    error = caught(lambda: json.loads("{"))
    error.__cause__ = multiprocessing.pool.RemoteTraceback(QUOTES)
    assert describe(error).startswith("ValueError: bad label 17 (data.py:7), in json.decoder.JSONDecodeError (")


def told(error: str, origin: int | None = None, is_lost: bool = False) -> bytes:
    report = {"error": error, "traceback": "trace"} | ({} if origin is None else {"origin": origin, "is_lost": is_lost})
    return json.dumps(report).encode() + b"\n"


def test_blame_goes_to_the_first_error_that_is_a_ranks_own() -> None:
    blame = Blame()
    blame.hear(0, told("quotes 2", origin=2))
    blame.failed(0)
    assert blame.culprit() == 2, "named by another one"
    for piece in (told("own")[:9], told("own")[9:]):
        blame.hear(2, piece)
    blame.hear(1, told("another one's own"))
    blame.failed(2)
    assert (blame.culprit(), blame.words_on(2), blame.count_others(2)) == (2, ("own", "trace"), 1)


def test_blame_of_a_rank_that_tells_nothing() -> None:
    blame = Blame()
    blame.failed(1)  # by a signal
    blame.hear(0, told("quotes 1", origin=1))
    assert (blame.culprit(), blame.words_on(1)) == (
        1,
        ("rank 0 met quotes 1", "The process at fault left no traceback."),
    )
    for piece in (b"lines before\nFatal Python error: Aborted\n", b"Current thread\n"):
        blame.see(1, piece)
    assert blame.words_on(1)[1] == "Fatal Python error: Aborted\nCurrent thread\n"
    assert not blame.is_another_missed()


def test_a_rank_that_is_missed_has_told_nothing() -> None:
    blame = Blame()
    blame.hear(0, told("waited for 1", origin=1))
    assert not blame.is_another_missed(), "it ended in peace"
    blame.hear(2, told("quotes 1", origin=1, is_lost=True))
    assert blame.is_another_missed()
    blame.hear(1, told("own"))
    assert not blame.is_another_missed()


@pytest.mark.parametrize(
    ("code", "status"),
    [(None, 0), (0, 0), (False, 0), (True, 1), (300, 300), ("", 1), ("text", 1), (0.0, 1), ([], 1), ((0,), 1)],
)
def test_statuses_are_those_of_python(code: object, status: int) -> None:
    assert exit_status(code) == status


STRANGE = [b"\n", b"[" * 100000 + b"\n", b'"a"\n', b"{}\n", b'{"error": 3}\n', b"\xff\n", b"x" * 400000]


@pytest.mark.parametrize("data", STRANGE)
def test_blame_takes_no_harm_from_strange_reports(data: bytes) -> None:
    blame = Blame()
    for begin in range(0, len(data), 65536):
        blame.hear(0, data[begin : begin + 65536])
    assert blame.culprit() is None
    assert not blame.has_told(0)


class Odd(Exception):
    """One that can be pickled and not read again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


@pytest.mark.parametrize(("error", "is_kept"), [(KeyError("a"), True), (Odd("a", "b"), False)])
def test_what_a_function_raises_travels_as_far_as_it_can(error: Exception, is_kept: bool) -> None:
    raised = Raised.unpickled(Raised(error).pickled())
    assert raised is not None
    assert (type(raised.error) is type(error)) == is_kept
    assert type(error).__name__ in raised.text


def test_the_words_travel_where_the_class_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_ranks_alone.py").write_text("class Theirs(Exception): pass")
    with monkeypatch.context() as on_a_rank:
        on_a_rank.syspath_prepend(tmp_path)
        data = Raised(importlib.import_module("of_ranks_alone").Theirs("no data")).pickled()
        del sys.modules["of_ranks_alone"]
    raised = Raised.unpickled(data)
    assert raised is not None
    assert isinstance(raised.error, RemoteError)
    assert str(raised.error) == "of_ranks_alone.Theirs: no data"
    assert raised.text.endswith("Theirs: no data\n")
