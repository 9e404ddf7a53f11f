"""``horovod.run``: a function as a job."""

from __future__ import annotations

from typing import Any

import horovod
import pytest


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


def test_function_mode_failures() -> None:
    def fail() -> None:
        raise KeyError("of the user")

    with pytest.raises(RuntimeError, match="one or more processes exited with non-zero status"):
        horovod.run(fail, num_proc=2)
    with pytest.raises(ValueError, match="hosts and hostfile"):
        horovod.run(fail, hosts="a:1", hostfile="b")
    with pytest.raises(ValueError, match="use_gloo and use_mpi"):
        horovod.run(fail, use_gloo=True, use_mpi=True)


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
