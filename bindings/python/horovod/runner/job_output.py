"""All that the ranks of a job print, on its way to the launcher's own streams and to files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from horovod.runner.common.util.settings import Settings
from horovod.runner.fold import Fold
from horovod.runner.output import LineForwarder, LineStream, open_rank_file, painted, timestamp
from horovod.runner.printer import Printer

_STREAMS = {b"o": "stdout", b"e": "stderr"}  # by the kind of an agent's frame


class JobOutput:
    """Puts lines of ranks, and what the launcher says itself, below one another. Not thread-safe.

    Parameters
    ----------
    settings : Settings
        Options of the job.
    printer : Printer
        Writes to streams of this process.
    own_stream : callable
        ``own_stream("stdout")``: this process's stream of that name, or what stands for it.
    name_of : callable
        ``name_of(rank)``: what stands before a rank's lines.
    copy_for : callable
        ``copy_for(rank, "stdout")``: the file that gets the same, or None.
    """

    def __init__(
        self,
        settings: Settings,
        printer: Printer,
        own_stream: Callable[[str], Any],
        name_of: Callable[[int], int | str],
        copy_for: Callable[[int, str], Any],
    ) -> None:
        self._settings = settings
        self._name_of, self._copy_for = name_of, copy_for
        self._stamp = timestamp if settings.prefix_output_with_timestamp else None
        self._forwarders: dict[tuple[int, bytes], LineForwarder] = {}
        self._folds: dict[str, Fold] = {}  # by stream, where equal lines are told once
        self._is_copy_lost = False  # a file of what ranks print can't be written, and that has been told
        self._prefixes = {stream: painted(own_stream(stream)) for stream in _STREAMS.values()}
        self._lines = {stream: LineStream(printer.writer(own_stream(stream))) for stream in _STREAMS.values()}
        if settings.fold:
            for stream in self._lines:
                self._folds[stream] = Fold(partial(self._write_folded, stream), settings.num_proc or 0)

    @property
    def streams(self) -> Collection[LineStream]:
        """The streams on which the user sees the job's output."""
        return self._lines.values()

    def feed(self, rank: int, kind: bytes, data: bytes) -> None:
        """Take a rank's output; kinds are those of agents' frames."""
        self._forwarder(rank, kind).feed(data)

    def rename(self, rank: int, name: int) -> None:
        """Put another name before a rank's lines from now on."""
        for kind in _STREAMS:
            self._forwarder(rank, kind).rename(name)

    def end_lines(self, rank: int) -> None:
        """End a rank's last lines: it prints no more."""
        for kind in _STREAMS:
            if (rank, kind) in self._forwarders:
                self._forwarders[rank, kind].end_line()

    def say(self, text: str) -> None:
        """Tell the user, below what ranks print."""
        self.flush()
        self._lines["stderr"].write(f"{text}\n")

    def flush(self) -> None:
        """Write the lines that wait for equal ones."""
        for fold in self._folds.values():
            fold.flush()

    def settle(self) -> None:
        """Write the lines that have waited long enough for equal ones."""
        for fold in self._folds.values():
            fold.settle()

    def seconds_left(self) -> list[float]:
        """Return the seconds until :meth:`settle` is due, of each stream where lines wait."""
        waits = (fold.seconds_left() for fold in self._folds.values())
        return [wait for wait in waits if wait is not None]

    def hurry(self) -> None:
        """Compare lines no more: the job is to end, and ranks may have printed millions."""
        for fold in self._folds.values():
            fold.end()

    def close(self) -> None:
        """Write the rest."""
        for forwarder in self._forwarders.values():
            forwarder.end_line()
            forwarder.close()
        self.flush()

    def copy_lost(self, path: str, error: OSError) -> None:
        """Tell of the first output file that can't be written; others mostly fail for the same reason."""
        if self._is_copy_lost:
            return
        self._is_copy_lost = True
        self.say(
            f"Cannot write {path}: {error.strerror}. The job goes on; what ranks print is no longer kept in this "
            "file, nor in others that can't be written."
        )

    def open_copy(self, rank: int, stream: str) -> Any:
        """Open the file that the settings ask for, if any."""
        folder = self._settings.output_filename
        try:
            return open_rank_file(folder, rank, self._settings.num_proc, stream) if folder else None
        except OSError as error:
            self.copy_lost(error.filename, error)
            return None

    def _forwarder(self, rank: int, kind: bytes) -> LineForwarder:
        forwarder = self._forwarders.get((rank, kind))
        if forwarder is None:
            stream = _STREAMS[kind]
            lines, has_input = self._lines[stream], self._settings.stdin in ("all", str(rank))
            fold = None if has_input else self._folds.get(stream)

            def write(text: str) -> None:
                if fold is None:
                    lines.write(text, forwarder)
                else:
                    fold.take(self._name_of(rank), text)

            forwarder = LineForwarder(
                write,
                self._name_of(rank) if fold is None else None,
                stream,
                self._stamp,
                self._copy_for(rank, stream),
                self.copy_lost,
                self._prefixes[stream],
                not has_input,
            )
            self._forwarders[(rank, kind)] = forwarder
        return forwarder

    def _write_folded(self, stream: str, groups: Iterable[tuple[str, Iterable[str]]], source: Any) -> None:
        stamp = "" if self._stamp is None else self._stamp()
        text = ""
        for ranks, lines in groups:
            begin = stamp + self._prefixes[stream](ranks, stream) if ranks else ""
            text += begin + begin.join(lines)
        self._lines[stream].write(text, source)
