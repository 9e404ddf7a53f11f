from __future__ import annotations

import errno
import io
import os
import re
import resource
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import Launch, launcher
from horovod.common.util import ranks_in_brief
from horovod.runner.fold import Fold
from horovod.runner.output import LineForwarder, LineStream, MultiFile, open_rank_file, painted, timestamp


def forwarded(*chunks: bytes, index: int | None = 3, stream: str | None = "stdout") -> list[str]:
    written: list[str] = []
    forwarder = LineForwarder(written.append, index, stream)
    for chunk in chunks:
        forwarder.feed(chunk)
    forwarder.close()
    return written


def test_whole_lines_get_a_prefix() -> None:
    assert forwarded(b"one\ntwo\n") == ["[3]<stdout>:one\n[3]<stdout>:two\n"]


def test_lines_are_put_together_before_they_are_written() -> None:
    assert forwarded(b"on", b"e\nt", b"wo\n") == ["[3]<stdout>:one\n", "[3]<stdout>:two\n"]


def test_carriage_returns_end_lines() -> None:
    assert "".join(forwarded(b"10%\r20%\r\n")) == "[3]<stdout>:10%\r[3]<stdout>:20%\r\n"


@pytest.mark.parametrize("text", [b"10%\r20%\r\nend\r\n", b"\r\n\r\n\n\r", b"a\rb\n", b"\xe2\x82\xac\r\n"])
def test_a_line_end_of_two_characters_may_be_cut_in_two(text: bytes) -> None:
    whole = "".join(forwarded(text))
    for cut in range(len(text)):
        assert "".join(forwarded(text[:cut], text[cut:])) == whole
    assert "".join(forwarded(*(text[at : at + 1] for at in range(len(text))))) == whole


def test_the_last_line_may_have_no_end() -> None:
    assert forwarded(b"rest") == ["[3]<stdout>:rest"]


def test_characters_may_be_cut_in_two() -> None:
    text = "schön €\n".encode()
    for cut in range(len(text)):
        assert "".join(forwarded(text[:cut], text[cut:])) == "[3]<stdout>:schön €\n"


def test_bytes_that_are_no_text_do_not_end_the_job() -> None:
    assert "".join(forwarded(b"\xff\xfe\n")).startswith("[3]<stdout>:")


def test_no_prefix_without_index_or_stream() -> None:
    assert forwarded(b"x\n", index=None) == ["x\n"]
    assert forwarded(b"x\n", stream=None) == ["x\n"]


def test_timestamp_comes_first() -> None:
    written: list[str] = []
    LineForwarder(written.append, 0, "stderr", timestamp).feed(b"x\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} \[0\]<stderr>:x\n", written[0])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_ranks_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert painted(Terminal())(0, "stdout") == "\033[36m[0]<stdout>:\033[0m"
    assert painted(Terminal())("node[1]", "stdout") != painted(Terminal())("node[2]", "stdout")
    assert painted(io.StringIO())(0, "stdout") == "[0]<stdout>:"


def test_ranks_are_told_in_brief() -> None:
    assert ranks_in_brief([7, 2, 0, 1]) == "0-2,7"
    assert ranks_in_brief(["b[0]", "a[1]", 3]) == "3,a[1],b[0]"


def folded(*said: tuple[int, str], size: int = 2, seconds: float = 0.0) -> list[str]:
    """What two ranks' lines become; afterwards so many seconds pass."""
    told: list[str] = []
    now = [0.0]

    def write(groups: Iterable[tuple[str, Iterable[str]]], _source: object) -> None:
        told.extend(f"[{ranks}]{line}" for ranks, lines in groups for line in lines)

    fold = Fold(write, size, lambda: now[0])
    for rank, text in said:
        fold.take(rank, text)
    now[0] = seconds
    fold.settle()
    return told


def test_equal_lines_of_ranks_are_one() -> None:
    assert folded((0, "a\n"), (1, "a\n")) == ["[0-1]a\n"]
    assert folded((0, "a\n")) == []
    assert folded((0, "a\n"), seconds=1) == ["[0]a\n"]
    assert folded((0, "a\nb\n"), (1, "b\n")) == [], "the lines of a rank keep their order"
    assert folded((0, "a\nb\n"), (1, "b\n"), seconds=1) == ["[0]a\n", "[0-1]b\n"]
    assert folded((0, "a\n"), (0, "a\n"), (1, "a\n"), seconds=1) == ["[0-1]a\n", "[0]a\n"]
    assert folded((0, "a"), (1, "a\n"), (0, "\n")) == ["[0-1]a\n"], "an end that comes late"
    assert folded((0, "10%\r20%\r\n"), (1, "10%\r"), seconds=1) == ["[0-1]10%\r", "[0]20%\r\n"]
    assert folded((0, "a\r"), (0, "\n"), seconds=1) == ["[0]a\r\n"], "a line end that comes in two pieces"
    assert folded((0, "a\r"), (1, "a\r"), (0, "\n"), (1, "\n"), seconds=1) == ["[0-1]a\r", "[]\n"]


def test_folded_lines_of_any_length_are_whole() -> None:
    told: list[str] = []
    stream = LineStream(told.append)

    def write(groups: Iterable[tuple[str, Iterable[str]]], source: Any) -> None:
        stream.write(
            "".join((f"[{ranks}]" if ranks else "") + line for ranks, lines in groups for line in lines), source
        )

    fold = Fold(write, 3)
    piece = "x" * 300_000
    for rank, text in ((0, "before\n"), (0, piece), (0, piece), (0, "end\nnext\n"), (1, piece), (2, "other\n")):
        fold.take(rank, text)
    fold.flush()
    fold.take(1, "end\n")
    fold.flush()
    lines = "".join(told).splitlines()
    assert lines == ["[0]before", f"[0]{piece}{piece}end", "[0]next", f"[1]{piece}", "[2]other", "[1]end"]


def test_a_flood_of_short_lines_is_written_in_few_pieces() -> None:
    pieces: list[Counter[str]] = []

    def write(groups: Iterable[tuple[str, Iterable[str]]], _source: object) -> None:
        pieces.append(Counter({ranks: len(list(lines)) for ranks, lines in groups}))

    fold = Fold(write, 2, clock=lambda: 0.0)  # a busy machine takes longer than lines wait
    for rank in (0, 1):
        fold.take(rank, "\n" * 65536)
    fold.end()
    fold.take(1, "\n" * 65536)
    assert sum(pieces, Counter()) == {"0": 65036, "0-1": 500, "1": 65036 + 65536}
    assert len(pieces) <= 5


def test_folded_output_of_a_job(horovodrun: Launch) -> None:
    done = horovodrun("-np", "3", "--fold", "sh", "-c", "echo all; echo rank $HOROVOD_RANK; echo last >&2; exit 3")
    own: dict[int, list[str]] = {rank: [] for rank in range(3)}
    for ranks, text in re.findall(r"^\[([-,\d]+)\]<stdout>:(.*)$", done.stdout, re.MULTILINE):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranks):
            for rank in range(int(first), int(last or first) + 1):
                own[rank].append(text)
    assert own == {rank: ["all", f"rank {rank}"] for rank in range(3)}
    assert sum("last" in line for line in done.stderr.splitlines()) >= 1
    assert done.stderr.index("last") < done.stderr.index("exit with status code 3")


def test_files_are_padded_to_the_width_of_the_largest_rank(tmp_path: Path) -> None:
    for num_proc, rank, name in ((1, 0, "rank.0"), (10, 9, "rank.9"), (11, 3, "rank.03"), (101, 7, "rank.007")):
        open_rank_file(str(tmp_path), rank, num_proc, "stdout").close()
        assert (tmp_path / name / "stdout").exists()


def test_a_copy_that_cannot_be_written_is_told_once_and_nothing_else_changes() -> None:
    written: list[str] = []
    told: list[tuple[str, str | None]] = []
    with Path("/dev/full").open("wb", buffering=0) as full:
        forwarder = LineForwarder(
            written.append, 0, "stdout", None, full, lambda path, error: told.append((path, error.strerror))
        )
        forwarder.feed(b"one\n")
        forwarder.feed(b"two\n")
        forwarder.close()
    assert written == ["[0]<stdout>:one\n", "[0]<stdout>:two\n"]
    assert told == [("/dev/full", "No space left on device")]


def test_a_copy_that_is_told_to_be_lost_when_it_is_closed() -> None:
    class Late(io.BytesIO):
        name = "late"

        def close(self) -> None:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    told: list[str] = []
    forwarder = LineForwarder(list[str]().append, 0, "stdout", None, Late(), lambda path, _: told.append(path))
    forwarder.feed(b"one\n")
    forwarder.close()
    assert told == ["late"]


def test_multi_file(tmp_path: Path) -> None:
    files = [(tmp_path / name).open("w") for name in "ab"]
    multi = MultiFile(files)
    multi.write("hello")
    multi.flush()
    multi.close()
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "hello"


# --- in jobs ---


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_output_files(horovodrun: Launch, tmp_path: Path) -> None:
    done = horovodrun(
        "-np",
        "2",
        "--output-filename",
        str(tmp_path / "logs"),
        *sh("echo out $HOROVOD_RANK; echo err $HOROVOD_RANK >&2"),
    )
    for rank in (0, 1):
        assert (tmp_path / "logs" / f"rank.{rank}" / "stdout").read_text() == f"out {rank}\n"
        assert (tmp_path / "logs" / f"rank.{rank}" / "stderr").read_text() == f"err {rank}\n"
        assert f"[{rank}]<stdout>:out {rank}" in done.stdout
    horovodrun("-np", "2", "--output-filename", str(tmp_path / "logs"), *sh("echo again"))
    assert [path.read_text() for path in sorted(tmp_path.glob("logs/*/*"))] == ["", "again\n"] * 2


@pytest.mark.parametrize("elastic", [[], ["--min-np", "2"]])
def test_output_files_that_grow_no_more_end_no_job(horovodrun: Launch, tmp_path: Path, elastic: list[str]) -> None:
    limit = 1 << 16
    done = horovodrun(
        "-np", "2", *elastic, "--output-filename", str(tmp_path), *sh("seq 20000"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(">:20000\n") == 2
    assert [len((tmp_path / f"rank.{rank}" / "stdout").read_bytes()) for rank in (0, 1)] == [limit, limit]
    told = rf"Cannot write {tmp_path}/rank\.\d/stdout: File too large\. The job goes on; .*\n"
    assert re.fullmatch(told, done.stderr)


def test_output_files_that_cannot_be_made(horovodrun: Launch, tmp_path: Path) -> None:
    (tmp_path / "rank.0").write_text("")
    done = horovodrun("-np", "2", "--output-filename", str(tmp_path), *sh("echo $HOROVOD_RANK"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:0", "[1]<stdout>:1"]
    assert done.stderr.startswith(f"Cannot write {tmp_path}/rank.0: File exists. The job goes on; ")
    assert (tmp_path / "rank.1" / "stdout").read_text() == "1\n"

    done = horovodrun("-np", "2", "--output-filename", str(tmp_path / "rank.0" / "in"), *sh("echo never"))
    assert done.returncode == 2
    assert done.stderr == f"horovodrun: --output-filename {tmp_path}/rank.0/in: Not a directory\n"
    assert "never" not in done.stdout


def test_streams_of_the_launcher_that_cannot_be_written_end_no_job(tmp_path: Path) -> None:
    tell = [*launcher(), "-np", "2", *sh("seq 20000; echo end >&2")]
    limit = 1 << 16
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            tell, stdout=log, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "log").stat().st_size == limit
    lines = sorted(done.stderr.splitlines())
    assert lines[0].startswith("Cannot write <stdout>: File too large. The job goes on; ")
    assert lines[1:] == ["[0]<stderr>:end", "[1]<stderr>:end"]
    with open("/dev/full", "wb") as full:
        assert subprocess.run(tell, stdout=full, stderr=full, timeout=120, check=False).returncode == 0
