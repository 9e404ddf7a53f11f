from __future__ import annotations

import errno
import io
import os
from pathlib import Path

from horovod.runner.output import LineForwarder, MultiFile, open_rank_file


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
    assert "".join(forwarded(b"10%\r20%\r\n")) == "[3]<stdout>:10%\r[3]<stdout>:20%\r[3]<stdout>:\n"


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
    LineForwarder(written.append, 0, "stderr", with_timestamp=True).feed(b"x\n")
    stamp, _, rest = written[0].partition("[0]")
    assert rest == "<stderr>:x\n"
    assert len(stamp.split()) == 5


def test_files_are_padded_to_the_width_of_the_largest_rank(tmp_path: Path) -> None:
    for num_proc, rank, name in ((1, 0, "rank.0"), (10, 9, "rank.9"), (11, 3, "rank.03"), (101, 7, "rank.007")):
        open_rank_file(str(tmp_path), rank, num_proc, "stdout").close()
        assert (tmp_path / name / "stdout").exists()


def test_a_copy_that_cannot_be_written_is_told_once_and_nothing_else_changes() -> None:
    written: list[str] = []
    told: list[tuple[str, str | None]] = []
    with Path("/dev/full").open("wb", buffering=0) as full:
        forwarder = LineForwarder(
            written.append, 0, "stdout", False, full, lambda path, error: told.append((path, error.strerror))
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
    forwarder = LineForwarder(list[str]().append, 0, "stdout", False, Late(), lambda path, _: told.append(path))
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
