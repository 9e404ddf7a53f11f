"""The common part of this package's command lines: help, wrong usage, colour, and an end without a traceback."""

from __future__ import annotations

import argparse
import difflib
import errno
import functools
import io
import os
import re
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Optional, TextIO

_BROKEN_PIPE = 128 + 13  # as of a program that the signal ends
_INTERRUPTED = 128 + 2

_WORDS = (  # argparse's, and what the native programs say in their place
    (r"\bargument (?=\S+(?:: |$))", ""),
    (r"invalid int value: (.*)", r"\1 is no whole number"),
    (r"invalid float value: (.*)", r"\1 is no number"),
    (r"invalid choice: (\S+) \(choose from (.*)\)", lambda odd: f"{odd[1]} is none of {odd[2].replace(chr(39), '')}"),
    (r"expected (?:one|\d+|at least one) arguments?", "a value is missing"),
    (r"the following arguments are required: (.*)", lambda odd: f"{odd[1].upper()} is missing"),
)

Main = Callable[..., Optional[int]]


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with a short usage and examples, and that says in a line what is wrong.

    Parameters
    ----------
    examples : sequence of (str, str), optional
        Command lines, and what each does.
    **more
        Those of :class:`argparse.ArgumentParser`.
    """

    def __init__(self, *, examples: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(**more)
        self._examples = examples

    def format_help(self) -> str:
        """Return what ``--help`` prints."""
        usage, text = self.format_usage(), super().format_help()
        width = max((len(line) for line, _ in self._examples), default=0)
        examples = "".join(f"  {line:{width}}  {about}\n" for line, about in self._examples)
        return f"{usage}\nexamples:\n{examples}{text[len(usage) :]}" if examples else text

    def print_help(self, file: Any = None) -> None:
        """Print the help, with bold headings where that is a terminal."""
        file = file or sys.stdout
        paint = paints(file)
        file.write(re.sub(r"(?m)^(?:\S.*:$|usage:)", lambda heading: paint(heading[0], "1"), self.format_help()))

    def error(self, message: str) -> NoReturn:
        """Exit with a line that names what is wrong."""
        name = paints(sys.stderr)(f"{self.prog}:", "1;31")
        for pattern, words in _WORDS:
            message = re.sub(pattern, words, message)
        self.exit(2, f"{name} {message}{self._nearest(message)} (`{self.prog} --help` prints the options)\n")

    def _nearest(self, message: str) -> str:
        unknown = re.match(r"unrecognized arguments: (?:.*?\s)?(-[^\s=]+)", message)
        close = difflib.get_close_matches(unknown[1], self._option_string_actions, 1) if unknown else []
        return f"; did you mean {close[0]}?" if close else ""


def in_words(error: BaseException) -> str:
    """Return an error's text; of one of the system why, and the name of the file, without the error's number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def fail(program: str, error: BaseException) -> None:
    """Print what a program ends for, on standard error."""
    print(paints(sys.stderr)(f"{program}:", "1;31"), in_words(error), file=sys.stderr)


def is_unread(error: BaseException) -> bool:
    """Tell whether an error is that nobody reads what this process prints any more, not that of another pipe."""
    poll = select.poll()
    poll.register(1, 0)
    return isinstance(error, BrokenPipeError) and any(events & select.POLLERR for _, events in poll.poll(0))


def _print_no_more() -> None:
    """Drop what Python would flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def tool(main: Main) -> Main:
    """Have a tool end in silence when nobody reads what it prints any more, or when it is interrupted.

    Characters that standard output can't encode, as on a terminal that is not UTF-8, are printed as question marks.
    """

    @functools.wraps(main)
    def run(*arguments: Any) -> int | None:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="replace")
        try:
            try:
                return main(*arguments)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except BrokenPipeError as error:
            if not is_unread(error):
                raise
            _print_no_more()
            return _BROKEN_PIPE
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            fail(os.path.basename(sys.argv[0]), error)
            _print_no_more()
            return 1
        except KeyboardInterrupt:
            return _INTERRUPTED

    return run


def paints(stream: TextIO | None) -> Callable[[str, str], str]:
    """Return what colours a text (``31`` is red, ``1`` bold) where the stream is a terminal and NO_COLOR is unset."""
    is_shown = stream is not None and not getattr(stream, "closed", False) and getattr(stream, "isatty", bool)()
    if not is_shown or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda text, _: text
    return lambda text, code: f"\033[{code}m{text}\033[0m"
