"""A job's other hosts: a child on each, through a remote shell, that says what it sees in lines of JSON."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from horovod.common.model import printable
from horovod.observe import flight
from horovod.runner.common.util.settings import Settings
from horovod.runner.options import add_ssh
from horovod.runner.util.remote import remote_arguments

_MOST_OF_ERRORS = 1 << 16
_MOST_CHARACTERS = 1 << 28  # of a line; a longer one is cut, and none of JSON then
_ANSWER_SECONDS = 20.0  # for what a host says first, and next
# Names that a host may have: they stand in the memory of processes that may be somebody else's.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")

Answer = TypeVar("Answer")


def add_others(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which hosts are asked, and how they are reached."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-H", "--hosts", default="", help="hosts to ask by ssh: host1,host2 (default: the job's)")
    which.add_argument("--here", action="store_true", help="look at this host alone")
    add_ssh(parser)
    parser.add_argument("--marked", help=argparse.SUPPRESS)  # what another host asks: ranks with this variable


class _Child(Generic[Answer]):
    """The answers of one host; a thread reads them, so that nobody waits for a host that hangs."""

    def __init__(self, command: Sequence[str], parse: Callable[[str], Answer]) -> None:
        self.answer: Answer | None = None  # the latest
        self.why = ""  # it is of no use
        self.told = threading.Event()  # an answer, or the end
        self.has_ended = False
        self._heard = time.monotonic()
        self._parse = parse
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (the thread closes it)
        # Not by horovod.child: the other host's answers are read one by one, as they come.
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            errors="replace", start_new_session=True,  # without a terminal to ask for a password at
        )  # fmt: skip
        threading.Thread(target=self._read, name="roda-other-host", daemon=True).start()

    def _read(self) -> None:
        for line in iter(lambda: self._process.stdout.readline(_MOST_CHARACTERS), ""):  # type: ignore[union-attr]
            if not line.startswith("{"):  # what a shell greets with
                continue
            try:
                self.answer, self.why = self._parse(line), ""
            except flight.NoRecordError as error:
                self.why = str(error)
            self._heard = time.monotonic()
            self.told.set()
        status = self._process.wait()
        with self._errors as errors:
            errors.seek(0)
            lines = printable(errors.read(_MOST_OF_ERRORS)).strip().splitlines()
        if status != 0 or self.answer is None:
            self.why = lines[-1] if lines else self.why or f"the remote shell ended with status {status}"
        self.has_ended = True
        self.told.set()

    def unknown(self) -> str:
        """Return why nothing is known of the host; nothing when something is."""
        silent = time.monotonic() - self._heard
        if not self.why and not self.has_ended and silent >= _ANSWER_SECONDS:
            return f"it has said nothing for {silent:.0f} s"
        return self.why or ("" if self.told.is_set() else "it has not answered yet")

    def end(self) -> None:
        """End the child, with the remote shell's own children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Others(Generic[Answer]):
    """The other hosts of one job; a context manager that ends the children.

    Parameters
    ----------
    options : argparse.Namespace
        With those of `add_others`.
    command : sequence of str
        What says something there: a module of ours, and its arguments.
    parse : callable
        Makes an answer of a line; NoRecordError when it is none.
    """

    def __init__(self, options: argparse.Namespace, command: Sequence[str], parse: Callable[[str], Answer]) -> None:
        self._is_alone = options.here
        self._named = [host.split(":")[0] for host in options.hosts.split(",") if host]
        self._settings = Settings(
            0, "", ssh_port=options.ssh_port, ssh_identity_file=options.ssh_identity_file,
            remote_shell=options.rsh_agent or os.environ.get("HOROVOD_RSH_AGENT"),
        )  # fmt: skip
        self._command = [sys.executable, "-m", *command, "--marked"]
        self._parse = parse
        self._children: dict[str, _Child[Answer]] = {}
        self._refused: dict[str, str] = {}  # why a host can't be asked

    def __enter__(self) -> Others[Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children.values():
            child.end()

    def ask(self, hosts: Iterable[str], ranks: Sequence[flight.Rank]) -> None:
        """Ask the hosts that the user named, else those of the job that these ranks of this host are in.

        Who has been asked is not asked again, and who has left the job no more.
        """
        here = {rank.host for rank in ranks}
        others = [host for host in hosts if host[: flight.HOST_CHARACTERS] not in here]
        wanted = [] if self._is_alone else self._named or others
        for host in self._children.keys() - set(wanted):
            self._children.pop(host).end()
        self._refused = {host: why for host, why in self._refused.items() if host in wanted}
        for host in set(wanted) - self._children.keys() - self._refused.keys():
            try:
                self._children[host] = _Child(self._command_for(host, ranks), self._parse)
            except (OSError, flight.NoRecordError) as error:
                self._refused[host] = str(error)

    def _command_for(self, host: str, ranks: Sequence[flight.Rank]) -> list[str]:
        if not _NAME.fullmatch(host):
            raise flight.NoRecordError("that is no name of a host")
        return remote_arguments(self._settings, host, shlex.join([*self._command, flight.mark_of_job(ranks)]))

    def wait(self) -> None:
        """Wait until each host has said something, or has had the time for it."""
        limit = time.monotonic() + _ANSWER_SECONDS
        for child in self._children.values():
            child.told.wait(max(0.0, limit - time.monotonic()))

    def answers(self) -> list[Answer]:
        """Return what each host said last."""
        known = [child for child in self._children.values() if not child.unknown()]
        return [child.answer for child in known if child.answer is not None]

    def unknown(self) -> dict[str, str]:
        """Return the hosts of which nothing is known, and why."""
        why = {**self._refused, **{host: child.unknown() for host, child in self._children.items()}}
        return {host: text for host, text in sorted(why.items()) if text}

    def are_over(self) -> bool:
        """Tell whether no host has anything more to say."""
        return all(child.has_ended or child.unknown() for child in self._children.values())
