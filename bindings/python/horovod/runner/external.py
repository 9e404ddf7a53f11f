"""Jobs that another launcher starts for us: mpirun, jsrun."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from horovod.runner.blame import Raised
from horovod.runner.common.util.settings import Settings
from horovod.runner.signals import EndingSignals, JobInterruptedError


class ExternalLauncherError(RuntimeError):
    """Another launcher ended with a non-zero status, its ranks' as a rule."""

    def __init__(self, program: str, status: int) -> None:
        super().__init__(f"{program} failed with exit code {status}")
        self.exit_code = status if status > 0 else 128 - status


def run_external(
    text: str,
    settings: Settings,
    env: Mapping[str, str],
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> None:
    """Run a launcher's command line by the shell, and wait for its end.

    In the main thread, SIGINT, SIGTERM and SIGHUP are handed on to it, once each: it ends its ranks.

    Raises
    ------
    ExternalLauncherError
        When it ended with a non-zero status.
    JobInterruptedError
        When a signal came.
    """
    if settings.verbose >= 2:
        print(text, file=sys.stderr)
    waiting: list[int] = []  # to be handed on
    started: list[subprocess.Popen[bytes]] = []

    def hand_on() -> None:
        while started and waiting:
            started[0].send_signal(waiting.pop(0))

    def take(number: int) -> None:
        waiting.append(number)
        hand_on()

    # Before it starts: a signal that came in between would end us, and leave it.
    signals = EndingSignals(take)
    signals.catch()
    try:
        started.append(_start(text, env, stdout, stderr))
        hand_on()
        status = started[0].wait()
    finally:
        signals.restore()
    if signals.arrived:
        raise JobInterruptedError(*signals.arrived)
    if status != 0:
        raise ExternalLauncherError(text.split()[0], status)


def _start(
    text: str, env: Mapping[str, str], stdout: IO[str] | None, stderr: IO[str] | None
) -> subprocess.Popen[bytes]:
    shell = shutil.which("sh") or "/bin/sh"
    return subprocess.Popen(  # not by horovod.child: the job's output goes on as it comes
        [shell, "-c", f"exec {text}"],
        env=dict(env),
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,  # a Ctrl-C on the terminal reaches us alone
    )


def launch_external(
    run: Callable[[Mapping[str, str]], None], settings: Settings, env: Mapping[str, str], function: bytes | None
) -> dict[int, bytes]:
    """Start a job of a command or function, and wait for its end.

    A function, and what it returns, travel by files: all hosts must see the folder for temporary files then.

    Parameters
    ----------
    run : callable
        ``run(environment)`` starts the job and waits for its end.
    settings : Settings
        How many processes there are.
    env : mapping
        The launcher's environment.
    function : bytes, optional
        A pickled call for ``horovod.runner.run_task``.

    Returns
    -------
    dict
        By rank: what ``run_task`` returned, pickled; without those that ended before their function returned.

    Raises
    ------
    ExternalLauncherError
        When the launcher failed; what the function raised is its cause, where a rank left that.
    RuntimeError
        When a result is missing.
    """
    environment = {**env, "PYTHONUNBUFFERED": "1"}
    if function is None:
        run(environment)
        return {}
    with tempfile.TemporaryDirectory(prefix="horovod-run-") as folder:
        Path(folder, "call").write_bytes(function)
        results = {rank: Path(folder, f"result.{rank}") for rank in range(settings.num_proc)}
        try:
            run({**environment, "_RODA_TASK_FOLDER": folder})
        except ExternalLauncherError as error:
            raise error from Raised.first({rank: path.read_bytes() for rank, path in results.items() if path.exists()})
        missing = [rank for rank, path in results.items() if not path.exists()]
        if missing:
            raise RuntimeError(
                f"ranks {missing} left no result in {folder}: with --mpi and --jsrun every host must see that folder "
                "(set TMPDIR)"
            )
        return {rank: path.read_bytes() for rank, path in results.items() if path.stat().st_size}
