"""Streams of the launcher that nobody reads, that are closed, and lines that don't end."""

from __future__ import annotations

import fcntl
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PYTHON, Launch, alive, launcher, sh
from horovod.runner.output import LineForwarder, LineStream

PATIENCE = 60  # seconds until a test says that something hangs
ELASTIC = pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]], ids=["static", "elastic"])


# --- long lines ---


def test_a_line_of_any_length_has_one_prefix_and_is_not_kept() -> None:
    written: list[str] = []
    forwarder = LineForwarder(written.append, 0, "stdout")
    for _ in range(1000):
        forwarder.feed(b"x" * 50_000)
        assert sum(map(len, written)) >= 50_000 * _ - (1 << 19)
    forwarder.feed(b"end\nnext\n")
    assert "".join(written) == "[0]<stdout>:" + "x" * 50_000_000 + "end\n[0]<stdout>:next\n"


def test_pieces_of_long_lines_of_several_ranks_do_not_mix() -> None:
    written: list[str] = []
    stream = LineStream(written.append)
    ranks: list[LineForwarder] = [
        LineForwarder(lambda text, rank=rank: stream.write(text, ranks[rank]), rank, "stdout") for rank in range(3)
    ]
    for _ in range(20):
        for rank, forwarder in enumerate(ranks):
            forwarder.feed(b"%d" % rank * 60_000)
    for forwarder in ranks:
        forwarder.end_line()
    stream.write("said\n")
    *lines, said, rest = "".join(written).split("\n")
    assert (said, rest) == ("said", "")
    told = {str(rank): "" for rank in range(3)}
    for line in lines:
        rank, text = re.fullmatch(r"\[(.)\]<stdout>:(.*)", line).groups()
        told[rank] += text
    assert told == {str(rank): str(rank) * 1_200_000 for rank in range(3)}


def test_the_rest_of_a_line_end_is_no_line_of_its_own_where_another_spoke_meanwhile() -> None:
    written: list[str] = []
    stream = LineStream(written.append)
    ranks: list[LineForwarder] = [
        LineForwarder(lambda text, rank=rank: stream.write(text, ranks[rank]), rank, "stdout") for rank in range(2)
    ]
    ranks[0].feed(b"10%\r")
    ranks[1].feed(b"spoke\n")
    ranks[0].feed(b"\n20%\r")
    ranks[0].feed(b"\n")
    assert "".join(written) == "[0]<stdout>:10%\r[1]<stdout>:spoke\n[0]<stdout>:20%\r\n"


@ELASTIC
def test_long_lines_in_a_job(horovodrun: Launch, tmp_path: Path, elastic: list[str]) -> None:
    code = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 600_000)"
    done = horovodrun("-np", "2", *elastic, "--output-filename", str(tmp_path), PYTHON, "-c", code)
    assert done.returncode == 0, done.stderr[-300:]
    assert (done.stdout.count("x"), done.stderr.count("y")) == (6_000_000, 1_200_000)
    assert all(re.match(r"\[[^x]+<stdout>:x", line) for line in done.stdout.splitlines())
    for rank in (0, 1):
        assert (tmp_path / f"rank.{rank}" / "stdout").stat().st_size == 3_000_000


@pytest.mark.parametrize("ending", ["", "\\r"])
def test_the_last_line_of_a_rank_does_not_run_into_the_launchers_words(ending: str) -> None:
    code = f"import sys; sys.stdout.write('half a line{ending}'); sys.exit(3)"
    done = subprocess.run(
        [*launcher(), "-np", "1", PYTHON, "-c", code],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[0] == "[0]<stdout>:half a line"
    assert not lines[1].startswith("[0]")


# --- streams that nobody reads ---


def fill(pipe: int) -> None:
    """Wait until a pipe that nobody reads is full."""
    capacity = fcntl.fcntl(pipe, 1032)  # F_GETPIPE_SZ
    held = bytearray(4)
    while int.from_bytes(held, sys.byteorder) < capacity - 4096:
        fcntl.ioctl(pipe, termios.FIONREAD, held)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    started: list[subprocess.Popen] = []

    def launch(*arguments: str, **streams: int) -> subprocess.Popen:
        started.append(subprocess.Popen([*launcher(), *arguments], **streams))
        return started[-1]

    yield launch
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("number", "stream", "elastic"),
    [
        (signal.SIGTERM, "stdout", []),
        (signal.SIGTERM, "stderr", ["--min-np", "2"]),
        (signal.SIGINT, "stderr", []),
        (signal.SIGHUP, "stdout", ["--min-np", "2"]),
    ],
)
def test_a_launcher_whose_output_nobody_reads_obeys_signals(
    start: Callable[..., subprocess.Popen], marker: str, elastic: list[str], stream: str, number: int
) -> None:
    target = "" if stream == "stdout" else ">&2"
    script = f"while :; do echo {'x' * 200}; done {target} & sleep {marker}"
    job = start("-np", "2", *elastic, *sh(script), **{stream: subprocess.PIPE})
    fill(getattr(job, stream).fileno())
    job.send_signal(number)
    assert job.wait(PATIENCE) == 128 + number
    assert not alive(marker)


def test_ranks_that_print_endlessly_and_do_not_end_are_killed(
    start: Callable[..., subprocess.Popen], marker: str
) -> None:
    script = f"trap '' TERM; (trap '' TERM; sleep {marker}) & while :; do echo {'x' * 200}; done"
    job = start("-np", "3", "--termination-grace-seconds", "1", *sh(script), stdout=subprocess.PIPE)
    fill(job.stdout.fileno())
    job.terminate()
    assert job.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not alive(marker)


def test_a_reader_that_is_late_gets_all(start: Callable[..., subprocess.Popen]) -> None:
    job = start("-np", "2", *sh("seq 300000; echo done >&2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fill(job.stdout.fileno())
    assert sorted(job.stdout.read().split()) == sorted(
        f"[{rank}]<stdout>:{i}".encode() for rank in (0, 1) for i in range(1, 300_001)
    )
    assert sorted(job.stderr.read().split()) == [b"[0]<stderr>:done", b"[1]<stderr>:done"]
    assert job.wait(PATIENCE) == 0


# --- streams that are closed ---


@ELASTIC
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_launcher_without_streams(tmp_path: Path, elastic: list[str], closed: str) -> None:
    job = [
        *launcher(),
        "-np",
        "2",
        *elastic,
        "--output-filename",
        str(tmp_path),
        *sh("echo out; echo err >&2; exit $0"),
    ]
    for status in ("0", "3"):
        command = ["sh", "-c", f'"$@" {closed}', "sh", *job, status]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == int(status), done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout.count("<stdout>:out\n") <= (0 if ">&-" in closed.split() else 2)
        if status == "0":
            assert done.stderr.count("<stderr>:err\n") == (0 if "2>&-" in closed else 2)
        assert (tmp_path / "rank.1" / "stdout").read_text() == "out\n"


WITHOUT = """
import sys
sys.stdout{how}
import horovod
def work():
    print("is printed")
    return 7
result = horovod.run(work, num_proc=2)
print(result, file=sys.stderr)
"""


@pytest.mark.parametrize("how", [" = None", ".close()"])
def test_a_program_without_stdout_that_runs_a_job(how: str) -> None:
    done = subprocess.run(
        [PYTHON, "-c", WITHOUT.format(how=how)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[7, 7]\n")
