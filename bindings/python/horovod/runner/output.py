"""What ranks print, on its way to the launcher's own streams and to files."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

_LINE = re.compile(r"[^\r\n]*[\r\n]")


class MultiFile:
    """Writes to several files at once."""

    def __init__(self, files: Sequence[Any]) -> None:
        self._files = files

    def write(self, text: Any) -> None:
        """Write to all of them."""
        for file in self._files:
            file.write(text)

    def flush(self) -> None:
        """Flush all of them."""
        for file in self._files:
            file.flush()

    def close(self) -> None:
        """Close all of them."""
        for file in self._files:
            file.close()


class LineForwarder:
    """Turns the bytes of one stream of one rank into whole, prefixed lines.

    Parameters
    ----------
    write : callable
        Takes text.
    index : int, str or None
        The rank, or what stands for it; None: no prefix.
    stream : str or None
        ``stdout`` or ``stderr``; None: no prefix.
    with_timestamp : bool
        Put the time before the prefix.
    copy : binary file, optional
        Gets the bytes as they come. One that can't be written is given up: what is forwarded goes on.
    copy_lost : callable
        ``copy_lost(path, error)``: told when that happens.
    """

    def __init__(
        self,
        write: Callable[[str], Any],
        index: int | str | None,
        stream: str | None,
        with_timestamp: bool = False,
        copy: IO[bytes] | None = None,
        copy_lost: Callable[[str, OSError], None] = lambda _path, _error: None,
    ) -> None:
        self._write = write
        self._stream = stream
        self._prefix = "" if index is None or stream is None else f"[{index}]<{stream}>:"
        self._with_timestamp = with_timestamp and bool(self._prefix)
        self._copy = copy
        self._copy_lost = copy_lost
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial = ""

    def rename(self, index: int) -> None:
        """Prefix lines so from now on: a worker of an elastic job has another rank."""
        if self._prefix:
            self._prefix = f"[{index}]<{self._stream}>:"

    def feed(self, data: bytes) -> None:
        """Forward the lines that `data` completes; a carriage return ends a line as a line feed does."""
        self._save(data)
        text = self._partial + self._decoder.decode(data)
        lines = _LINE.findall(text)
        self._partial = text[sum(map(len, lines)) :]
        if lines:
            stamp = time.asctime() if self._with_timestamp else ""
            self._write("".join(f"{stamp}{self._prefix}{line}" for line in lines))

    def close(self) -> None:
        """Forward a last line that has no end."""
        rest = self._partial + self._decoder.decode(b"", final=True)
        self._partial = ""
        if rest:
            stamp = time.asctime() if self._with_timestamp else ""
            self._write(f"{stamp}{self._prefix}{rest}")
        if self._copy is not None:
            try:
                self._copy.close()
            except OSError as error:  # some file systems tell of a full disk at last
                self._copy_lost(self._copy.name, error)

    def _save(self, data: bytes) -> None:
        if self._copy is None:
            return
        try:
            while data:
                data = data[self._copy.write(data) :]
        except OSError as error:
            copy, self._copy = self._copy, None
            self._copy_lost(copy.name, error)
            with contextlib.suppress(OSError):
                copy.close()


def stream_writer(stream: Any, lost: Callable[[OSError], None]) -> Callable[[str], None]:
    """Return what writes text to a stream of this process, or tells that it could not: a disk may be full."""
    binary = getattr(stream, "buffer", None)
    # What stays in a buffer that can't be flushed would be this process's end at its exit.
    raw = getattr(binary, "raw", binary)

    def write(text: str) -> None:
        try:
            stream.flush()
            if raw is None:
                stream.write(text)
                stream.flush()
                return
            data = text.encode("utf-8")  # whatever the locale: ranks print UTF-8
            while data:
                data = data[raw.write(data) or 0 :]  # nothing, while a pipe that does not block is full
        except BrokenPipeError:  # nobody reads: that ends other programs, too
            raise
        except OSError as error:
            lost(error)

    return write


def make_output_folder(path: str) -> None:
    """See that a folder is there before anything starts: a wrong name would be told when much has been printed."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--output-filename {path}: {error.strerror}") from error


def open_rank_file(folder: str, rank: int, num_proc: int, stream: str) -> IO[bytes]:
    """Open ``<folder>/rank.<R>/<stream>``, the rank padded with zeros to the width of the largest one.

    Nothing is buffered: what can't be written is told by the write, and by that alone.
    """
    padded = str(rank).zfill(len(str(max(0, num_proc - 1))))
    path = os.path.join(folder, f"rank.{padded}")
    os.makedirs(path, exist_ok=True)
    return open(os.path.join(path, stream), "wb", buffering=0)
