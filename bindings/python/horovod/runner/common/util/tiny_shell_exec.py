"""Horovod's way to run a command for what it prints. This package uses :mod:`horovod.child`, which has a limit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


def execute(command: str | Sequence[str], env: Mapping[str, str] | None = None) -> tuple[str, int] | None:
    """Run a command, and return what it prints on both streams with its exit code; None where it can't be started.

    Parameters
    ----------
    command : str or sequence of str
        For the shell; a sequence is run without one.
    env : mapping, optional
        Its whole environment; without it, this process's.
    """
    try:
        done = subprocess.run(
            command,
            shell=isinstance(command, str),  # noqa: S602 (what this function is for)
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return None
    return done.stdout, done.returncode
