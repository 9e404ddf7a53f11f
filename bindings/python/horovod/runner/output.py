"""What ranks print, on its way to the launcher's own streams and to files."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import IO, Any

from horovod.command_line import paints
from horovod.runner.fold import Speaker

_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])")
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # red is that of errors
_LONGEST = 1 << 18  # characters of a line that are kept until its end has come


def prefix_of(index: int | str, stream: str) -> str:
    """Return what stands before a line of a rank: ``[3]<stdout>:``."""
    return f"[{index}]<{stream}>:"


def painted(target: Any) -> Callable[[int | str, str], str]:
    """Return a prefix as a stream of this process shows it: on a terminal each rank has a colour."""
    paint = paints(target)

    def prefix(index: int | str, stream: str) -> str:
        number = int(index) if str(index).isdigit() else sum(map(ord, str(index)))
        return paint(prefix_of(index, stream), str(_COLOURS[number % len(_COLOURS)]))

    return prefix


def timestamp() -> str:
    """Return the local time, with milliseconds, for the begin of a line."""
    return f"{datetime.now().isoformat(timespec='milliseconds')} "


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

    A line that grows too long to be kept is passed on in pieces, with one prefix.

    Parameters
    ----------
    write : callable
        Takes text.
    index : int, str or None
        The rank, or what stands for it; None: no prefix.
    stream : str or None
        ``stdout`` or ``stderr``; None: no prefix.
    stamp : callable, optional
        Returns what stands before the prefix: the time.
    copy : binary file, optional
        Gets the bytes as they come. One that can't be written is given up: what is forwarded goes on.
    copy_lost : callable
        ``copy_lost(path, error)``: told when that happens.
    prefix : callable
        Returns the prefix of an index and a stream.
    waits_for_ends : bool
        Keep the begin of a line until its end comes; else somebody may be asked something by it.
    """

    def __init__(
        self,
        write: Callable[[str], Any],
        index: int | str | None,
        stream: str | None,
        stamp: Callable[[], str] | None = None,
        copy: IO[bytes] | None = None,
        copy_lost: Callable[[str, OSError], None] = lambda _path, _error: None,
        prefix: Callable[[int | str, str], str] = prefix_of,
        waits_for_ends: bool = True,
    ) -> None:
        self._target = write
        self._stream = stream
        self._prefix_of = prefix
        self._most = _LONGEST if waits_for_ends else 0
        self._prefix = "" if index is None or stream is None else prefix(index, stream)
        self._stamp = stamp if self._prefix else None
        self._copy = copy
        self._copy_lost = copy_lost
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial: list[str] = []  # of a line whose end has not come
        self._kept = 0  # characters of that
        self._is_within = False  # a line of which a piece was passed on
        self._last = "\n"  # character on the line that stands there
        self._may_go_on = False  # a carriage return came last, and a line feed belongs to the same line end

    def rename(self, index: int) -> None:
        """Prefix lines so from now on: a worker of an elastic job has another rank."""
        if self._prefix and self._stream is not None:
            self._prefix = self._prefix_of(index, self._stream)

    def feed(self, data: bytes) -> None:
        """Forward the lines that `data` completes; a carriage return ends a line as a line feed does."""
        self._save(data)
        decoded = self._decoder.decode(data)
        text = self._end_carriage_return(decoded)
        self._may_go_on = decoded.endswith("\r") if decoded else self._may_go_on
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        if end:
            lines = _LINE.findall("".join((*self._take_partial(), text[:end])))
            begin = self._begin()
            self._write(("" if self._is_within else begin) + begin.join(lines))
            self._is_within = False
        self._partial.append(text[end:])
        self._kept += len(text) - end
        if self._kept > self._most:
            self._pass_on()

    def end_line(self) -> None:
        """Forward an unfinished last line, and end it: another source begins to write."""
        self._pass_on(self._decoder.decode(b"", final=True))
        self._is_within = False
        if self._last != "\n":
            self._write("\n")

    def cut(self) -> bool:
        """Begin the next text with the prefix: another source writes. Tell whether this one's line is unfinished."""
        has_no_end = self._last not in "\r\n"
        self._is_within, self._last = False, "\n"
        return has_no_end

    def close(self) -> None:
        """Forward an unfinished last line."""
        self._pass_on(self._decoder.decode(b"", final=True))
        if self._copy is not None:
            try:
                self._copy.close()
            except OSError as error:  # some file systems tell of a full disk at last
                self._copy_lost(self._copy.name, error)

    def _end_carriage_return(self, text: str) -> str:
        """Pass on the line feed of a line end whose carriage return came before; return the rest of the text."""
        if not (self._may_go_on and text.startswith("\n")):
            return text
        if self._last == "\r":  # nobody else has spoken
            self._write("\n")
        return text[1:]

    def _begin(self) -> str:
        return ("" if self._stamp is None else self._stamp()) + self._prefix

    def _take_partial(self) -> list[str]:
        partial, self._partial, self._kept = self._partial, [], 0
        return partial

    def _pass_on(self, more: str = "") -> None:
        rest = "".join((*self._take_partial(), more))
        if rest:
            self._write(("" if self._is_within else self._begin()) + rest)
            self._is_within = True

    def _write(self, text: str) -> None:
        self._last = text[-1]
        self._target(text)

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


class LineStream:
    """Writes lines of several sources below one another: an unfinished line is ended when another source writes.

    Parameters
    ----------
    write : callable
        Takes the text.
    """

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write = write
        self._open: LineForwarder | Speaker | None = None  # whose line stands there without a line feed

    def write(self, text: str, source: LineForwarder | Speaker | None = None) -> None:
        """Write lines, or a piece of one; without a source it is the launcher that speaks."""
        if self._open is not None and self._open is not source:
            text = f"\n{text}" if self._open.cut() else text
        self._open = None if text.endswith("\n") else source
        self._write(text)

    def end_line(self) -> None:
        """Note that the unfinished line is ended: somebody typed a line feed."""
        if self._open is not None:
            self._open.cut()
            self._open = None


def make_output_files(folder: str, num_proc: int) -> None:
    """Make a folder, and the ranks' files, before anything starts: a wrong name would be told when much was printed.

    A file that can't be made is told when its rank prints.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--output-filename {folder}: {error.strerror}") from error
    for rank, stream in itertools.product(range(num_proc), ("stdout", "stderr")):
        with contextlib.suppress(OSError):
            open_rank_file(folder, rank, num_proc, stream).close()


def open_rank_file(folder: str, rank: int, num_proc: int, stream: str) -> IO[bytes]:
    """Open ``<folder>/rank.<R>/<stream>``, the rank padded with zeros to the width of the largest one.

    Nothing is buffered: what can't be written is told by the write, and by that alone.
    """
    padded = str(rank).zfill(len(str(max(0, num_proc - 1))))
    path = os.path.join(folder, f"rank.{padded}")
    os.makedirs(path, exist_ok=True)
    return open(os.path.join(path, stream), "wb", buffering=0)
