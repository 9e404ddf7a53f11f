"""One job: agents on its hosts, the ranks they run, what those print, and how it all ends."""

from __future__ import annotations

import json
import selectors
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from horovod.runner.blame import Blame, Raised
from horovod.runner.boot import framed
from horovod.runner.common.util.settings import Settings
from horovod.runner.connection import Connection as Connection, HostJob as HostJob, read_some, start_agent
from horovod.runner.debugging import StandardInput
from horovod.runner.failure import Cause, JobFailedError as JobFailedError, exit_code, signal_name
from horovod.runner.frames import FrameError
from horovod.runner.host_check import not_reached, shell_ended
from horovod.runner.job_output import JobOutput
from horovod.runner.output import make_output_files
from horovod.runner.printer import Printer
from horovod.runner.signals import EndingSignals, JobInterruptedError as JobInterruptedError, Waker

_EXIT = struct.Struct(">i")
_GREETING = b"roda-agent ready\n"  # after it, the agent speaks in frames alone
_ATTEMPTS = 5
_HANG_UP_SECONDS = 10.0
# When a rank has failed, the others learn of it from their engine: so long they may tell before they are signalled.
_LAST_WORDS_SECONDS = 1.0
_PRINT_SECONDS = 3.0  # after a signal, for whoever reads what ranks printed
_LOOK_SECONDS = 0.2  # between looks whether a signal came, where nothing wakes


class Job:
    """Runs a command or function as ranks on hosts.

    Parameters
    ----------
    settings : Settings
        Options of the job.
    hosts : sequence of HostJob
        Who runs what.
    command : sequence of str
        What every rank executes.
    environment : dict
        Variables that all ranks get.
    secret : bytes
        The job's; reaches the ranks through the agents' standard input and a descriptor without a name.
    function : bytes, optional
        A pickled call for ``horovod.runner.run_task``.
    """

    def __init__(
        self,
        settings: Settings,
        hosts: Sequence[HostJob],
        command: Sequence[str],
        environment: dict[str, str],
        secret: bytes,
        function: bytes | None = None,
    ) -> None:
        self.results: dict[int, bytes] = {}
        self._settings = settings
        if settings.output_filename:
            make_output_files(settings.output_filename, settings.num_proc)
        self._hosts = hosts
        self._spec = {
            "command": list(command),
            "environment": environment,
            "secret": secret.hex(),
            "function": None if function is None else function.hex(),
            "grace": settings.termination_grace,
        }
        self._selector = selectors.DefaultSelector()
        self._connections: list[Connection] = []
        self._wakers = selectors.DefaultSelector()  # those of the selector that are no agents
        self._waker = Waker()
        self._signals = EndingSignals()
        self._obeyed = 0  # of those that arrived
        self._patience_ends: float | None = None  # when a signal came: for readers of output, and for agents
        self._agents_end: float | None = None
        self._printer = Printer(self._waker.wake)
        self._output: JobOutput
        self._input: StandardInput | None = None
        self._failures: list[tuple[int, int]] = []  # rank and status, as they were reported
        self._blame = Blame()
        self._is_told = False  # which rank is at fault
        self._ended: set[int] = set()
        self._unreached: str | None = None  # why a host's ranks did not start
        self._stopping = False
        self._stop_at: float | None = None  # when the other ranks of a failed job are told to end
        self._asked_at: float | None = None  # when ranks were told to end

    def run(self) -> None:
        """Run to the end.

        Raises
        ------
        JobFailedError
            When a rank ended with a non-zero status; all others are ended first.
        JobInterruptedError
            When SIGINT, SIGTERM or SIGHUP came; all ranks are ended first.
        RuntimeError
            When a host cannot be reached, or none of this one's addresses from there.
        """
        self._begin()
        try:
            self._connect_all()
            self._send_specs()
            self._pump()
        finally:
            self._hang_up()
        if self._signals.arrived:
            raise JobInterruptedError(*self._signals.arrived)
        if self._unreached is not None:
            raise RuntimeError(self._unreached)
        if self._failures:
            rank, status = self._first_failure()
            hosts = (host.hostname for host in self._hosts for slot in host.slots if slot["rank"] == rank)
            raise self._failure(rank, status, next(hosts, ""))

    # --- signals ---

    def _begin(self) -> None:
        # Before signals are caught: what the program printed is written here.
        self._output = JobOutput(self._settings, self._printer, self._own_stream, self._name_of, self._copy_for)
        self._signals.catch()
        for waker in (self._waker, self._signals.waker):
            self._selector.register(waker, selectors.EVENT_READ)
            self._wakers.register(waker, selectors.EVENT_READ)

    @property
    def _interrupted(self) -> int | None:
        return self._signals.arrived[0] if self._signals.arrived else None

    def _is_called_off(self) -> bool:
        """Tell whether there is no use any more for an agent that starts; any thread."""
        return bool(self._signals.arrived)

    def _obey(self) -> None:
        """Obey signals that have arrived since the last look: a second one allows no grace."""
        for _ in self._signals.arrived[self._obeyed :]:
            now, is_first = time.monotonic(), self._obeyed == 0
            self._stop(b"T" if is_first else b"K")
            self._output.hurry()
            self._patience_ends = now + _PRINT_SECONDS if is_first else now
            self._agents_end = now + _HANG_UP_SECONDS + (self._settings.termination_grace if is_first else 0)
            self._obeyed += 1

    def _stop(self, command: bytes) -> None:
        self._stopping = True
        self._asked_at = self._asked_at or time.monotonic()
        for connection in self._connections:
            connection.send(command)

    # --- agents ---

    def _connect_all(self) -> None:
        deadline = time.monotonic() + self._settings.start_timeout
        todo = list(self._hosts)
        errors: dict[str, str] = {}
        for _ in range(_ATTEMPTS):
            started = [self._start_agent(host) for host in todo]
            todo = []
            for connection in started:
                error = self._await_hello(connection, deadline)
                if error is None:
                    self._connections.append(connection)
                else:
                    errors[connection.host.hostname] = error
                    todo.append(connection.host)
            if not todo or self._signals.arrived or time.monotonic() >= deadline:
                break
        if todo and not self._signals.arrived:
            raise not_reached({host.hostname: errors[host.hostname] for host in todo})

    def _start_agent(self, host: HostJob) -> Connection:
        return start_agent(self._settings, host)

    def _await_hello(self, connection: Connection, deadline: float) -> str | None:
        """Wait for the agent's greeting, past whatever the host's shell prints; return what went wrong, or None."""
        out = connection.process.stdout.fileno()  # type: ignore[union-attr]
        seen = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(out, selectors.EVENT_READ)
            while not seen.endswith(_GREETING):
                left = max(0.0, deadline - time.monotonic())
                if not waiting.select(min(left, _LOOK_SECONDS)):
                    if left > 0 and not self._is_called_off():
                        continue
                    connection.process.kill()
                    connection.process.wait()
                    return f"no answer within {self._settings.start_timeout:g} seconds (--start-timeout)"
                data = read_some(out, 4096)
                if not data:
                    return shell_ended(connection.process.wait(), connection.take_errors())
                seen = (seen + data)[-4096:]
        return None

    def _send_specs(self) -> None:
        for connection in self._connections:
            if not self._signals.arrived:
                self._send_spec(connection)
        with_input = [each for each in self._connections if any(slot.get("stdin") for slot in each.host.slots)]
        if with_input and not self._signals.arrived:
            self._input = StandardInput(self._selector, with_input, self._output.streams)

    def _send_spec(self, connection: Connection) -> None:
        host = connection.host
        spec: dict[str, Any] = dict(self._spec, slots=host.slots, add_to_environment=not host.is_local)
        if host.reach is not None:
            spec["reach"] = host.reach.order()
        connection.send_all(framed(json.dumps(spec)))
        self._selector.register(connection.process.stdout, selectors.EVENT_READ, connection)  # type: ignore[arg-type]

    def _hang_up(self) -> None:
        for connection in self._connections:
            connection.process.stdin.close()  # type: ignore[union-attr]
            connection.process.stdout.close()  # type: ignore[union-attr]
        for connection in self._connections:
            # An agent needs the grace time at most; a connection that hangs longer is given up.
            try:
                connection.process.wait(self._settings.termination_grace + _HANG_UP_SECONDS)
            except subprocess.TimeoutExpired:
                connection.process.kill()
                connection.process.wait()
        self._output.close()
        self._drain()
        self._printer.close()
        self._signals.restore()
        self._selector.close()
        self._wakers.close()
        self._waker.close()

    # --- the loop ---

    def _pump(self) -> None:
        while self._has_agents() and not self._is_late(self._agents_end):
            left = None if self._stop_at is None else max(0.0, self._stop_at - time.monotonic())
            self._take_in(left)
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                self._stop_at = None
                self._tell_failure()
                self._stop(b"T")

    def _has_agents(self) -> bool:
        return any(isinstance(key.data, Connection) for key in self._selector.get_map().values())

    def _take_in(self, limit: float | None) -> None:
        """Wait for so many seconds at most (None: for ever) for what agents say, for their ends, and for wake-ups.

        While whoever reads this process's output is behind, agents have to wait, and the ranks that print with them.
        """
        is_full = self._printer.is_full
        moments = [self._agents_end, self._patience_ends if is_full else None]
        limits = [when - time.monotonic() for when in moments if when is not None]
        limits += [*([] if limit is None else [limit]), *self._output.seconds_left()]
        for key, _ in (self._wakers if is_full else self._selector).select(max(0.0, min(limits)) if limits else None):
            if not isinstance(key.data, Connection):
                key.fileobj.calm()  # type: ignore[union-attr]
                continue
            data = read_some(key.fd, 1 << 16)
            try:
                for frame in key.data.frames(data):
                    self._handle(*frame)
            except FrameError as error:
                self._say(str(error))
                key.data.process.kill()
                data = b""
            if not data:
                self._selector.unregister(key.fileobj)
                if said := key.data.take_errors():
                    self._say(said.rstrip())
                self._agent_ended(key.data)
        self._output.settle()
        self._obey()
        for stream, lost in self._printer.errors():
            self._output.copy_lost(getattr(stream, "name", "what ranks print"), lost)
        if self._printer.is_full and self._is_late(self._patience_ends):
            self._printer.give_up()

    @staticmethod
    def _is_late(when: float | None) -> bool:
        return when is not None and time.monotonic() >= when

    def _drain(self) -> None:
        """Wait until what ranks printed is written; after a signal not for long."""
        while not self._printer.is_idle:
            if self._is_late(self._patience_ends):
                return self._printer.give_up()
            left = None if self._patience_ends is None else max(0.0, self._patience_ends - time.monotonic())
            for key, _ in self._wakers.select(left):
                key.fileobj.calm()  # type: ignore[union-attr]
            self._obey()
        return None

    def _handle(self, kind: bytes, rank: int, payload: bytes) -> None:
        if kind in (b"o", b"e"):
            self._output.feed(rank, kind, payload)
            if kind == b"e":
                self._blame.see(rank, payload)
        elif kind == b"i" and self._input is not None:
            self._input.taken()
        elif kind == b"c":
            self._blame.hear(rank, payload)
            if self._blame.is_another_missed():
                self._last_words_begin()
        elif kind == b"r":
            self.results[rank] = payload
        elif kind == b"x":
            (code,) = _EXIT.unpack(payload)
            self._output.end_lines(rank)
            if code != 0:
                self._output.flush()
                self._drain()  # the launcher's words come after the rank's
            self._rank_ended(rank, code)
        elif kind == b"u":
            name = payload.decode(errors="replace")
            reach = next((host.reach for host in self._hosts if host.hostname == name), None)
            self._unreached = reach.failure() if reach is not None else None
            self._stop(b"T")

    def _own_stream(self, stream: str) -> Any:
        return getattr(sys, stream)

    def _copy_for(self, rank: int, stream: str) -> Any:
        return self._output.open_copy(rank, stream)

    def _say(self, text: str) -> None:
        """Tell the user, below what ranks print."""
        self._output.say(text)

    def _name_of(self, rank: int) -> int | str:
        return rank

    def _rank_ended(self, rank: int, status: int) -> None:
        """Count a rank's end; a negative status is the signal that ended it."""
        self._ended.add(rank)
        if status == 0 or self._interrupted is not None:
            return
        if self._is_ended_by_us(status):
            self._failures.append((rank, 1))
            return
        self._failures.append((rank, status))
        self._blame.failed(rank)
        self._last_words_begin()
        if self._blame.culprit() in self._ended and self._stop_at is not None:
            self._tell_failure()

    def _is_ended_by_us(self, status: int) -> bool:
        """Tell whether a status is that of a rank that obeyed this launcher: no cause of anything."""
        if self._asked_at is None:
            return False
        waited = time.monotonic() - self._asked_at
        return status == -signal.SIGTERM or (status == -signal.SIGKILL and waited >= self._settings.termination_grace)

    def _last_words_begin(self) -> None:
        """Give ranks a moment to say why they end, before they are told to."""
        if not self._stopping:
            self._stopping = True
            self._stop_at = time.monotonic() + _LAST_WORDS_SECONDS

    def _tell_failure(self) -> None:
        """Say at once which rank is at fault; ranks that only quote its error may end before it."""
        culprit = self._blame.culprit()
        if self._is_told or (culprit is None and not self._failures):
            return
        self._is_told = True
        if culprit is not None and culprit not in self._ended:
            rank, how = culprit, "has not ended, and others have ended for it."
        else:
            rank, status = self._first_failure()
            how = f"exit with status code {exit_code(status)}."
            how += f" Rank {rank} was ended by {signal_name(-status)}." if status < 0 else ""
        self._say(f"Process {rank} {how}")
        self._say(f"Terminating remaining workers after failure of Process {rank}.")

    def _first_failure(self) -> tuple[int, int]:
        """Return the rank at fault and its status; where that has not failed itself, the first of those that have.

        The status is 0 of a rank that ended so while others waited for it, or that reported an error all the same:
        Python makes that of ``sys.exit(256)``.
        """
        culprit = self._blame.culprit()
        unseen = (culprit, 0) if culprit in self._ended else self._failures[0]
        return next((failure for failure in self._failures if failure[0] == culprit), unseen)

    def _failure(self, rank: int, status: int, host: str) -> JobFailedError:
        """Return the error of the job whose rank is at fault; what the rank's function raised is its cause."""
        raised = Raised.unpickled(self.results.get(rank))
        error, traceback = self._blame.words_on(rank)
        if raised is not None and not self._blame.has_told(rank):  # its function never called hvd.init()
            error, traceback = raised.summary, raised.text
        failure = JobFailedError(
            self._name_of(rank), status, Cause(host, error, traceback, self._blame.count_others(rank))
        )
        if raised is not None:
            failure.__cause__ = raised.noted(rank)
        return failure

    def _agent_ended(self, connection: Connection) -> None:
        """Count ranks that were never reported as failed: their host or its connection is gone."""
        lost = [slot["rank"] for slot in connection.host.slots if slot["rank"] not in self._ended]
        for rank in lost:
            if not self._stopping:
                self._say(f"The connection to host {connection.host.hostname} was lost.")
            self._rank_ended(rank, 255)
