"""A process on a host that runs one command for a driver elsewhere, and hands over its output, status and a result.

Our own launcher has agents, which it starts by ssh: this is for code that builds on Horovod's.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod.runner.common.util.timeout import Timeout
from horovod.runner.compat import safe_shell_exec
from horovod.runner.compat.driver_service import wait_for
from horovod.runner.compat.network import AckResponse, AckStreamResponse, BasicClient, BasicService
from horovod.runner.compat.streams import Pipe
from horovod.runner.util.threads import in_thread


@dataclass(frozen=True)
class RunCommandRequest:
    """Asks for a command to be run: the first one is."""

    command: str
    env: Mapping[str, str]
    capture_stdout: bool = False
    capture_stderr: bool = False
    prefix_output_with_timestamp: bool = False


@dataclass(frozen=True)
class StreamCommandOutputRequest:
    """Asks for what the command writes, once. One that comes before the command waits for it."""

    stream: str  # stdout or stderr


@dataclass(frozen=True)
class CommandOutputNotCaptured:
    """There is no such output to be had: it was not asked for when the command was run, or it is handed out already."""


@dataclass(frozen=True)
class AbortCommandRequest:
    """Ends the command."""


@dataclass(frozen=True)
class CommandExitCodeRequest:
    """Asks for the command's status."""

    wait: bool = False  # until it has ended


@dataclass(frozen=True)
class CommandExitCodeResponse:
    """The command's status, if it has ended."""

    terminated: bool
    exit_code: int | None


@dataclass(frozen=True)
class NotifyInitialRegistrationCompleteRequest:
    """All tasks are there."""


@dataclass(frozen=True)
class RegisterCodeResultRequest:
    """The result of the function that the command runs."""

    result: Any


class BasicTaskService(BasicService):
    """Runs one command. Any thread.

    Parameters
    ----------
    name : str
        The service's name.
    index : int
        Begins the lines of its output.
    key : bytes
        The job's secret. Who knows it has any command run here.
    nics : iterable of str, optional
        Interfaces to name.
    command_env : mapping, optional
        Variables of the command, over this process's and under the request's; None takes one away.
    verbose : int
        From 2 on, the command is shown.
    """

    def __init__(
        self,
        name: str,
        index: int,
        key: bytes,
        nics: Iterable[str] | None = None,
        command_env: Mapping[str, str | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self._index, self._command_env, self._verbose = index, dict(command_env or {}), verbose
        self._is_registered = False
        self._has_begun = False
        self._exit_code: int | None = None
        self._result: Any = None
        self._abort = threading.Event()
        self._streams: dict[str, Pipe[str]] = {}  # that nobody has asked for
        super().__init__(name, key, nics)

    def _handle(self, req: Any, client_address: tuple[str, int]) -> Any:
        if isinstance(req, StreamCommandOutputRequest):
            with self._changed:
                self._changed.wait_for(lambda: self._has_begun or self._is_ending)
                stream = self._streams.pop(req.stream, None)
            return (AckStreamResponse(), stream) if stream is not None else CommandOutputNotCaptured()
        if isinstance(req, AbortCommandRequest):
            self._abort.set()
            return AckResponse()
        with self._changed:
            if isinstance(req, RunCommandRequest):
                self._begin(req)
            elif isinstance(req, NotifyInitialRegistrationCompleteRequest):
                self._is_registered = True
            elif isinstance(req, RegisterCodeResultRequest):
                self._result = req.result
            elif isinstance(req, CommandExitCodeRequest):
                if req.wait:
                    self._changed.wait_for(lambda: self._exit_code is not None or self._has_no_future())
                    if self._exit_code is None:
                        raise ConnectionError("the task has ended without a command")
                return CommandExitCodeResponse(self._exit_code is not None, self._exit_code)
            else:
                return super()._handle(req, client_address)
            self._changed.notify_all()
        return AckResponse()

    def _has_no_future(self) -> bool:
        return self._is_ending and not self._has_begun

    def _begin(self, req: RunCommandRequest) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        if self._verbose >= 2:
            print(f"Task service {self._index} executes command: {req.command}", file=sys.stderr, flush=True)
        variables = {**os.environ, **self._command_env, **req.env}
        env = {name: value for name, value in variables.items() if value is not None}
        captured = {"stdout": req.capture_stdout, "stderr": req.capture_stderr}
        self._streams = {name: Pipe() for name, is_wanted in captured.items() if is_wanted}
        in_thread(self._run, (req, env, dict(self._streams)), name="horovod-task")

    def _run(self, req: RunCommandRequest, env: Mapping[str, str], streams: Mapping[str, Pipe[str]]) -> None:
        status = 1
        try:
            status = self._run_command(
                req.command, env, self._abort, streams.get("stdout"), streams.get("stderr"), self._index,
                req.prefix_output_with_timestamp,
            )  # fmt: skip
        finally:
            for stream in streams.values():
                stream.close()
            with self._changed:
                self._exit_code = status
                self._changed.notify_all()

    def _run_command(
        self,
        command: str,
        env: Mapping[str, str],
        event: threading.Event,
        stdout: Any = None,
        stderr: Any = None,
        index: int | None = None,
        prefix_output_with_timestamp: bool = False,
    ) -> int:
        """Run the command and return its status; subclasses may do it otherwise."""
        return safe_shell_exec.execute(
            command, env, stdout, stderr, index, [event], prefix_output_with_timestamp=prefix_output_with_timestamp
        )

    def shutdown(self) -> None:
        """Take no more requests, and return once those under way are answered: some wait for the command's end."""
        with self._changed:
            unread, self._streams = self._streams, {}
        for stream in unread.values():
            stream.close()  # nobody can ask for it any more, and the command must not wait for that
        super().shutdown()

    def fn_result(self) -> Any:
        """Return the result that was registered, or None."""
        with self._changed:
            return self._result

    def wait_for_initial_registration(self, timeout: Timeout | float) -> None:
        """Wait until the driver says that all tasks are there; TimeoutException when it does not in time."""
        with self._changed:
            wait_for(self._changed, lambda: self._is_registered, timeout, lambda: "tasks to register")

    def wait_for_command_start(self, timeout: Timeout | float) -> None:
        """Wait for a command; TimeoutException when there is none in time."""
        with self._changed:
            wait_for(self._changed, lambda: self._has_begun, timeout, lambda: "command to run")

    def check_for_command_start(self, seconds: float) -> bool:
        """Wait so long for a command, and tell whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self._has_begun, seconds)

    def wait_for_command_termination(self) -> None:
        """Wait until the command has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._exit_code is not None)

    def command_exit_code(self) -> int | None:
        """Return the command's status, None before it has ended."""
        with self._changed:
            return self._exit_code

    def command_terminated(self) -> bool:
        """Tell whether the command has ended."""
        return self.command_exit_code() is not None


class BasicTaskClient(BasicClient):
    """Asks a :class:`BasicTaskService`; the parameters are those of :class:`BasicClient`."""

    def __init__(
        self,
        service_name: str,
        task_addresses: Mapping[str, Sequence[tuple[str, int]]],
        key: bytes,
        verbose: int = 0,
        match_intf: bool = False,
        attempts: int = 3,
    ) -> None:
        super().__init__(service_name, task_addresses, key, verbose, match_intf, attempts=attempts)

    def run_command(
        self,
        command: str,
        env: Mapping[str, str],
        capture_stdout: bool = False,
        capture_stderr: bool = False,
        prefix_output_with_timestamp: bool = False,
    ) -> None:
        """Have a command run by a shell; what is captured must be read (:meth:`stream_command_output`), or it waits."""
        self._send(RunCommandRequest(command, env, capture_stdout, capture_stderr, prefix_output_with_timestamp))

    def stream_command_output(
        self, stdout: Any = None, stderr: Any = None
    ) -> tuple[threading.Thread | None, threading.Thread | None]:
        """Write the command's output to streams, each in a thread that is returned and ends with it."""
        return self.stream_command_stdout(stdout), self.stream_command_stderr(stderr)

    def stream_command_stdout(self, stream: Any) -> threading.Thread | None:
        """Write what the command writes to stdout to a stream, in a thread; None for none."""
        return self._stream("stdout", stream)

    def stream_command_stderr(self, stream: Any) -> threading.Thread | None:
        """Write what the command writes to stderr to a stream, in a thread; None for none."""
        return self._stream("stderr", stream)

    def _stream(self, name: str, stream: Any) -> threading.Thread | None:
        if stream is None:
            return None
        return in_thread(self._send, (StreamCommandOutputRequest(name), stream), name=f"horovod-{name}", silent=True)

    def abort_command(self) -> None:
        """Have the command ended, with all that it started."""
        self._send(AbortCommandRequest())

    def notify_initial_registration_complete(self) -> None:
        """Tell that all tasks are there."""
        self._send(NotifyInitialRegistrationCompleteRequest())

    def register_code_result(self, result: Any) -> None:
        """Leave a function's result."""
        self._send(RegisterCodeResultRequest(result))

    def command_result(self) -> tuple[bool, int | None]:
        """Return whether the command has ended, and its status."""
        answer = self._send(CommandExitCodeRequest())
        return answer.terminated, answer.exit_code

    def command_terminated(self) -> bool:
        """Tell whether the command has ended."""
        return self.command_result()[0]

    def wait_for_command_exit_code(self, delay: float = 1.0) -> int:
        """Wait until the command has ended, and return its status; a task that is lost is asked again after `delay`."""
        try:
            return int(self._send(CommandExitCodeRequest(wait=True)).exit_code)
        except EOFError:
            time.sleep(delay)
            return int(self._send(CommandExitCodeRequest(wait=True)).exit_code)

    def wait_for_command_termination(self, delay: float = 1.0) -> None:
        """Wait until the command has ended."""
        self.wait_for_command_exit_code(delay)
