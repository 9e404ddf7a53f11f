"""Ranks that somebody debugs: standard input, and a debugger that waits."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from conftest import PYTHON, Launch, launcher, sh
from horovod.runner import debugging

READS = sh("echo $HOROVOD_RANK: $(cat)")


@pytest.mark.parametrize(("whose", "told"), [("1", {"0:", "1: a b"}), ("all", {"0: a b", "1: a b"})])
def test_standard_input_goes_to_a_rank_or_to_all(horovodrun: Launch, whose: str, told: set[str]) -> None:
    done = horovodrun("-np", "2", "--stdin", whose, *READS, input="a\nb\n")
    assert {line.partition(":")[2].strip() for line in done.stdout.splitlines()} == told, done.stderr


def test_input_of_any_length_comes_from_a_file_whole_to_ranks_that_read_late(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "data").write_bytes(data)
    late = sh("if [ $HOROVOD_RANK = 0 ]; then head -c 1 > /dev/null; exec <&-; fi; sleep 0.$HOROVOD_RANK; sha256sum")
    with (tmp_path / "data").open("rb") as file:
        command = [*launcher(), "-np", "3", "--stdin", "all", *late]
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=60)
    assert done.stdout.count(hashlib.sha256(data).hexdigest()) == 2, "one rank has closed its input: it holds up none"


def test_a_question_is_seen_before_it_is_answered() -> None:
    asks = "import os; os.environ['HOROVOD_RANK'] == '0' and print('hello', input('name? '))"
    command = [*launcher(), "-np", "2", "--stdin", "0", PYTHON, "-c", asks]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        seen = b""
        while not seen.endswith(b"name? "):
            data = os.read(job.stdout.fileno(), 100)
            assert data, seen
            seen += data
        out, _ = job.communicate(b"Ada\n", timeout=60)
        assert seen + out == b"[0]<stdout>:name? hello Ada\n"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--stdin", "2"], "--stdin 2: there is no such rank; the ranks are 0 to 1"),
        (["--stdin", "first"], "--stdin: 'first' is neither a rank nor all"),
        (["--debug", "2"], "--debug 2: there is no such rank; the ranks are 0 to 1"),
    ],
)
def test_ranks_that_there_are_not(horovodrun: Launch, flags: list[str], told: str) -> None:
    done = horovodrun("-np", "2", *flags, "true")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert told in line


STAND_IN = """
import os, sys
print("debugpy", *sys.argv[1:], os.environ["HOROVOD_STALL_CHECK_DISABLE"])
"""


def test_one_rank_waits_for_a_debugger(horovodrun: Launch, tmp_path: Path) -> None:
    (tmp_path / "debugpy").mkdir()
    (tmp_path / "debugpy/__init__.py").touch()
    (tmp_path / "debugpy/__main__.py").write_text(STAND_IN)
    command = ["-np", "2", "--debug", "1", PYTHON, "-u", "-c", "print('plain')"]
    done = horovodrun(*command, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    port = done.stderr.partition("127.0.0.1:")[2].partition(";")[0]
    assert done.stderr == (
        f"horovodrun: rank 1 waits for a debugger at 127.0.0.1:{port}; the other ranks wait without a time-out\n"
    )
    assert sorted(done.stdout.splitlines()) == [
        "[0]<stdout>:plain",
        f"[1]<stdout>:debugpy --listen 127.0.0.1:{port} --wait-for-client -c print('plain') 1",
    ]


@pytest.mark.parametrize(
    ("command", "debugged"),
    [
        ("python train.py -x", "python DEBUGGER train.py -x"),
        ("/bin/python3.11 -X dev -u -m train", "/bin/python3.11 -X dev -u DEBUGGER -m train"),
    ],
)
def test_where_the_debugger_stands_in_a_command(command: str, debugged: str) -> None:
    debugger = "-m debugpy --listen 127.0.0.1:1 --wait-for-client"
    assert debugging._with_debugger(command.split(), 1) == debugged.replace("DEBUGGER", debugger).split()


def test_a_command_without_python_can_not_be_debugged() -> None:
    with pytest.raises(ValueError, match="needs a command that begins with python, and this one begins with ./train"):
        debugging._with_debugger(["./train"], 1)
