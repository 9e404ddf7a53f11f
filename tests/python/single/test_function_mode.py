"""``horovod.run``: a function as a job."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from typing import Any

import horovod
import pytest
from horovod.runner import _HorovodArgs
from horovod.runner.blame import RemoteError
from horovod.runner.job import JobFailedError
from horovod.runner.launch import _run


def test_function_mode() -> None:
    def work(base: int, *, plus: int) -> tuple[int, int]:
        import horovod.common.basics

        basics = horovod.common.basics.HorovodBasics()
        basics.init()
        try:
            return basics.rank(), base + plus + basics.size()
        finally:
            basics.shutdown()

    assert horovod.run(work, args=(10,), kwargs={"plus": 5}, num_proc=2) == [(0, 17), (1, 17)]


def test_a_launcher_of_others_fills_in_the_arguments() -> None:
    """As CloudTik's does: a function or a command."""

    def work() -> int:
        import os

        return int(os.environ["HOROVOD_RANK"])

    arguments = _HorovodArgs()
    assert arguments.num_proc == 1
    arguments.num_proc, arguments.hosts, arguments.run_func = 2, "localhost:2", work
    assert _run(arguments) == [0, 1]
    arguments.run_func, arguments.command = None, [sys.executable, "-c", ""]
    assert _run(arguments) is None


def test_function_mode_failures() -> None:
    def fail() -> None:
        raise KeyError("of the user")

    with pytest.raises(RuntimeError, match="one or more processes exited with non-zero status"):
        horovod.run(fail, num_proc=2)
    with pytest.raises(ValueError, match="hosts and hostfile"):
        horovod.run(fail, hosts="a:1", hostfile="b")
    with pytest.raises(ValueError, match="use_gloo and use_mpi"):
        horovod.run(fail, use_gloo=True, use_mpi=True)


def test_the_caller_gets_the_exception_of_the_rank_at_fault() -> None:
    def work() -> None:
        from horovod.common import life_cycle as hvd, objects

        hvd.init()
        while True:
            objects.allgather_object(0)
            if hvd.rank() == 1:
                raise KeyError("label 17")

    with pytest.raises(
        JobFailedError, match="Process name: 1\nExit code: 1\nHost: localhost\nCause: KeyError"
    ) as caught:
        horovod.run(work, num_proc=3)
    assert (caught.value.rank, caught.value.exit_code) == (1, 1)
    error = caught.value.__cause__
    assert isinstance(error, KeyError)
    assert error.args == ("label 17",)
    if sys.version_info >= (3, 11):
        (note,) = error.__notes__
        assert note.startswith("Where the function of rank 1 raised it:\nTraceback")
        assert ", in work\n" in note


def test_an_exception_that_cannot_be_pickled_is_told_as_text() -> None:
    def work() -> None:
        class Odd(Exception):
            def __init__(self, first: int, second: int) -> None:
                super().__init__(f"{first} and {second}")

        raise Odd(1, 2)

    with pytest.raises(JobFailedError, match=r"\nCause: .*Odd: 1 and 2\nTraceback") as caught:
        horovod.run(work, num_proc=1)
    error = caught.value.__cause__
    assert isinstance(error, RemoteError)
    assert str(error).endswith("Odd: 1 and 2")
    traceback = error.__notes__[0] if sys.version_info >= (3, 11) else str(caught.value)
    line = inspect.getsourcelines(work)[1] + 5
    assert f'File "{__file__}", line {line}, in work\n    raise Odd(1, 2)\n' in traceback, "the function's own file"


def test_an_exception_whose_own_functions_fail_hides_nothing() -> None:
    def work() -> None:
        import os

        class Odd(Exception):
            def fail(self, *_: object) -> str:
                raise RuntimeError

            __str__ = add_note = fail  # type: ignore[assignment]

        os.close(2)
        raise Odd

    with pytest.raises(JobFailedError, match=r"\nCause: .*Odd: <exception str\(\) failed>\nTraceback") as caught:
        horovod.run(work, num_proc=1)
    assert type(caught.value.__cause__).__name__ == "Odd"


def test_what_a_function_refers_to_goes_with_it() -> None:
    factor, seen = 3, ["a"]

    class Scaled:
        def __init__(self, value: int) -> None:
            self.value = value * factor

    def scaled(value: int) -> int:
        return Scaled(value).value

    def work() -> tuple[int, list[str]]:
        import os

        seen.append(os.environ["HOROVOD_RANK"])
        return scaled(int(seen[-1])), seen

    assert horovod.run(work, num_proc=2) == [(0, ["a", "0"]), (3, ["a", "1"])]
    assert seen == ["a"]


CELLS = [
    """
import horovod
factor = 3
def work(base):
    from horovod.common.basics import HorovodBasics
    hvd = HorovodBasics()
    hvd.init()
    print("this is", hvd.rank())
    return base * factor + hvd.rank()
""",
    "horovod.run(work, args=(10,), num_proc=2)",
    "horovod.run(lambda: 1 / 0, num_proc=1)",
    "factor = 4; horovod.run(work, args=(10,), num_proc=2)",
]


def test_function_mode_in_a_notebook() -> None:
    """A kernel has a loop of its own, and streams that are no files."""
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    try:
        told: list[tuple[str, dict[str, Any]]] = []
        for cell in CELLS:
            client.execute_interactive(
                cell, timeout=120, output_hook=lambda each: told.append((each["msg_type"], each["content"]))
            )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    printed = {stream: "" for stream in ("stdout", "stderr")}
    for content in [content for kind, content in told if kind == "stream"]:
        printed[content["name"]] += content["text"]
    results = [content["data"]["text/plain"] for kind, content in told if kind == "execute_result"]
    assert results == ["[30, 31]", "[40, 41]"]
    assert sorted(printed["stdout"].splitlines()) == [f"[{rank}]<stdout>:this is {rank}" for rank in (0, 0, 1, 1)]
    assert "[0]<stderr>:ZeroDivisionError: division by zero" in printed["stderr"]
    (error,) = [content for kind, content in told if kind == "error"]
    assert (error["ename"], "Process name: 0" in error["evalue"]) == ("JobFailedError", True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_proc": 0}, "num_proc=0 must be > 0"),
        ({"num_proc": -2}, "num_proc=-2 must be > 0"),
        ({"num_proc": 2.0}, "num_proc=2.0 must be a whole number"),
        ({"num_proc": "2"}, "num_proc='2' must be a whole number"),
        ({"num_proc": True}, "num_proc=True must be a whole number"),
        ({"num_proc": 2, "min_num_proc": True}, "min_num_proc=True must be a whole number"),
        ({"num_proc": 2, "min_num_proc": 1, "reset_limit": "3"}, "reset_limit='3' must be a whole number"),
        ({"num_proc": 2, "start_timeout": "soon"}, "start_timeout='soon' must be a number of seconds"),
        ({"num_proc": 2, "start_timeout": float("nan")}, "start_timeout=nan must be a number of seconds"),
        ({"num_proc": 1, "hosts": ["localhost:1"]}, "hosts=['localhost:1'] must be a text"),
        ({"num_proc": 2, "ssh_port": True}, "ssh_port=True must be a whole number"),
        ({"num_proc": None}, "num_proc=None must be a whole number"),
        ({"num_proc": 2, "min_num_proc": 0}, "min_num_proc=0 must be > 0"),
        ({"num_proc": 2, "min_num_proc": 1, "max_num_proc": "4"}, "max_num_proc='4' must be a whole number"),
        ({"num_proc": 2, "min_num_proc": 1, "slots": 0}, "slots_per_host=0 must be > 0"),
    ],
)
def test_numbers_of_processes_that_are_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        horovod.run(lambda: 1, **options)


def test_numbers_of_other_types_of_whole_numbers() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert horovod.run(lambda: 1, num_proc=numpy.int64(1), verbose=2) == [1]


@pytest.mark.parametrize("options", [{}, {"min_num_proc": 1}], ids=["static", "elastic"])
def test_a_result_that_cannot_be_pickled(capfd: pytest.CaptureFixture[str], options: dict[str, Any]) -> None:
    def work() -> Any:
        import threading

        return {"lock": threading.Lock()}

    with pytest.raises(RuntimeError):
        horovod.run(work, num_proc=1, **options)
    told = capfd.readouterr().err
    assert "rank 0 returned builtins.dict, which can't be pickled: " in told
    assert "Return plain data" in told


def test_arguments_that_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match=r"horovod.run can't pickle the function, .*_thread.lock"):
        horovod.run(print, args=(threading.Lock(),), num_proc=1)


def test_a_result_that_cannot_be_unpickled() -> None:
    def work() -> Any:
        class Fragile:
            def __reduce__(self) -> tuple[Any, ...]:
                return int, ("no number",)

        return Fragile()

    with pytest.raises(RuntimeError, match="returned on rank 0 can't be unpickled here: .*no number"):
        horovod.run(work, num_proc=1)


@pytest.mark.parametrize("leave", ["sys.exit(0)", "os._exit(0)"])
def test_a_function_that_does_not_return(leave: str) -> None:
    def work() -> None:
        import os  # noqa: F401
        import sys  # noqa: F401

        exec(leave)  # noqa: S102 (the test's own)

    with pytest.raises(RuntimeError, match=r"Ranks \[0, 1\] ended with status 0 before the function returned"):
        horovod.run(work, num_proc=2)


def test_an_elastic_job_that_can_not_go_on_has_the_last_failure_as_its_cause() -> None:
    def work() -> None:
        from horovod.common import life_cycle as hvd
        from horovod.common.elastic import ObjectState, run_fn
        from horovod.common.objects import allgather_object, broadcast_object

        def reset() -> None:
            hvd.shutdown()
            hvd.init()

        def loop(state: Any) -> None:
            allgather_object(0)
            if hvd.rank() == 1:
                raise KeyError("label 17")
            allgather_object(0)

        hvd.init()
        run_fn(loop, reset)(ObjectState(broadcast_object, hvd.rank))

    with pytest.raises(RuntimeError, match="reset limit|resets") as caught:
        horovod.run(work, num_proc=2, min_num_proc=1, reset_limit=0)
    failure = caught.value.__cause__
    assert isinstance(failure, JobFailedError)
    assert isinstance(failure.__cause__, KeyError)
