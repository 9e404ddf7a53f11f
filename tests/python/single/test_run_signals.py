"""Signals that come while ``horovod.run`` runs inside another program."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import PYTHON

PATIENCE = 60  # seconds until a test says that something hangs

PROGRAM = """
import asyncio, os, signal, sys, threading, horovod

def work(path, deaf):
    import os, signal, time
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("rank", os.getpid(), flush=True)
    while not os.path.exists(path):
        time.sleep(0.05)
    return os.environ["HOROVOD_RANK"]

def run(deaf=False):
    try:
        print("result", horovod.run(work, args=(sys.argv[1], deaf), num_proc=2, **options), flush=True)
    except BaseException as error:
        print("raised", type(error).__name__, flush=True)
        raise

options = {options}
{body}
print("went on", flush=True)
"""


ASYNCIO = """
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print("handled", flush=True))
    try:
        run()
    except RuntimeError:
        await asyncio.sleep(0)
asyncio.run(main())
"""


class Program:
    """A program that has begun to run a job."""

    def __init__(self, path: Path, body: str, options: str = "{}", **environment: str) -> None:
        self.release = path / "release"
        self.process = subprocess.Popen(
            [PYTHON, "-c", PROGRAM.format(body=body, options=options), str(self.release)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, **environment},
        )  # fmt: skip
        self.ranks = [self._rank() for _ in range(2)]

    def _rank(self) -> psutil.Process:
        line = self.process.stdout.readline()
        assert ":rank " in line
        return psutil.Process(int(line.split()[-1]))

    def signal(self, *numbers: int) -> None:
        for number in numbers:
            self.process.send_signal(number)

    def end(self) -> tuple[int, list[str]]:
        """Return the status, and what was printed."""
        printed = self.process.communicate(timeout=PATIENCE)[0].splitlines()
        _, left = psutil.wait_procs(self.ranks, timeout=PATIENCE)
        assert not left
        return self.process.returncode, printed


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def begin(*arguments: str, **environment: str) -> Program:
        programs.append(Program(tmp_path, *arguments, **environment))
        return programs[-1]

    yield begin
    for program in programs:
        program.process.kill()
        program.process.wait()


@pytest.mark.parametrize("options", ["{}", "dict(min_num_proc=2)"], ids=["static", "elastic"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_a_program_ends_it_after_the_job(
    start: Callable[..., Program], number: int, options: str
) -> None:
    program = start("try:\n    run()\nexcept Exception:\n    pass", options)
    program.signal(number)
    assert program.end() == (-number, [])


def test_an_interrupt_is_one(start: Callable[..., Program]) -> None:
    program = start("try:\n    run()\nexcept KeyboardInterrupt:\n    pass")
    program.signal(signal.SIGINT)
    assert program.end() == (0, ["raised KeyboardInterrupt", "went on"])


def test_a_second_signal_does_not_wait_for_ranks_that_do_not_end(start: Callable[..., Program]) -> None:
    body = "try:\n    run(deaf=True)\nexcept KeyboardInterrupt:\n    pass"
    program = start(body, HOROVOD_TERMINATION_GRACE_SECONDS="10000")
    program.signal(signal.SIGINT, signal.SIGTERM)
    assert program.end()[0] == -signal.SIGTERM


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_handler_of_the_programs_own_is_called_after_the_job(start: Callable[..., Program], name: str) -> None:
    body = f"""
signal.signal(signal.{name}, lambda *_: print("handled", flush=True))
try:
    run()
except RuntimeError:
    pass
"""
    program = start(body)
    program.signal(getattr(signal, name))
    assert program.end() == (0, ["handled", "raised JobInterruptedError", "went on"])


def test_a_handler_of_asyncio_is_called_after_the_job(start: Callable[..., Program]) -> None:
    program = start(ASYNCIO)
    program.signal(signal.SIGTERM)
    assert program.end() == (0, ["raised JobInterruptedError", "handled", "went on"])


def test_a_signal_that_the_program_ignores_ends_no_job(start: Callable[..., Program]) -> None:
    program = start("signal.signal(signal.SIGHUP, signal.SIG_IGN)\nrun()")
    program.signal(signal.SIGHUP)
    program.release.touch()
    assert program.end() == (0, ["result ['0', '1']", "went on"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_job_in_another_thread_ends_with_its_program(start: Callable[..., Program], number: int) -> None:
    program = start("thread = threading.Thread(target=run)\nthread.start()\nthread.join()")
    program.signal(number)
    assert program.end() == (-number, [])


def test_an_interrupt_reaches_the_main_thread_of_a_job_in_another(start: Callable[..., Program]) -> None:
    body = "threading.Thread(target=run, daemon=True).start()\nthreading.Event().wait()"
    program = start(body)
    program.signal(signal.SIGINT)
    assert program.end() == (-signal.SIGINT, [])
