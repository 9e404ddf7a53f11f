"""Sees which hosts can be reached, before a launcher of others that would not name them."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from horovod.runner.common.util.settings import Settings
from horovod.runner.util.cache import Cache
from horovod.runner.util.remote import remote_arguments
from horovod.runner.util.threads import execute_function_multithreaded

CACHE_FOLDER = os.path.join(os.path.expanduser("~"), ".horovod")
CACHE_STALENESS_THRESHOLD_MINUTES = 60
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.5
_AT_ONCE = 64


def make_cache(settings: Settings) -> Cache:
    """Return the cache for checks of a job like this."""
    job = (settings.num_proc, settings.hosts, settings.ssh_port, settings.ssh_identity_file, settings.remote_shell)
    return Cache(CACHE_FOLDER, CACHE_STALENESS_THRESHOLD_MINUTES, hashlib.sha256(repr(job).encode()).hexdigest())


def _failure_of(settings: Settings, deadline: float, hostname: str) -> str | None:
    """Return why nothing can be run on a host, or None."""
    error = ""
    for attempt in range(_ATTEMPTS):
        left = deadline - time.monotonic()
        if attempt and left <= _PAUSE_SECONDS:
            break
        time.sleep(_PAUSE_SECONDS if attempt else 0)
        try:
            done = subprocess.run(
                remote_arguments(settings, hostname, "true"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(0.1, left),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return error or f"no answer within {settings.start_timeout:g} seconds (--start-timeout)"
        except OSError as failure:
            return f"{failure.filename}: {failure.strerror}"
        if done.returncode == 0:
            return None
        said = (done.stderr or done.stdout).strip().splitlines()
        error = f"the remote shell ended with status {done.returncode}" + (f": {said[-1]}" if said else "")
    return error


def check_hosts(settings: Settings, hostnames: Sequence[str], cache: Cache | None = None) -> None:
    """Run a command on each host, all at once, and tell of every one where that fails.

    Parameters
    ----------
    settings : Settings
        How hosts are reached, and for how long.
    hostnames : sequence of str
        Hosts that are not this one.
    cache : Cache, optional
        Hosts that it knows are not asked again.

    Raises
    ------
    RuntimeError
        When any host can't be reached.
    """
    asked = [name for name in hostnames if cache is None or cache.get(name) is None]
    check = functools.partial(_failure_of, settings, time.monotonic() + settings.start_timeout)
    found = execute_function_multithreaded(check, [(name,) for name in asked], max_concurrent_executions=_AT_ONCE)
    failures = {name: (found or {})[i] for i, name in enumerate(asked)}
    for name, failure in failures.items():
        if failure is not None:
            print(f"Could not reach host {name}: {failure}", file=sys.stderr)
        elif cache is not None:
            cache.put(name, True)
    if any(failure is not None for failure in failures.values()):
        raise RuntimeError("could not connect to some hosts via ssh")
