"""A check which hosts can be reached, before another launcher whose errors would not name them."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Mapping, Sequence

from horovod import child
from horovod.runner.common.util.settings import Settings
from horovod.runner.util import network
from horovod.runner.util.cache import Cache
from horovod.runner.util.remote import remote_arguments
from horovod.runner.util.threads import execute_function_multithreaded

CACHE_FOLDER = os.path.join(os.path.expanduser("~"), ".horovod")
CACHE_STALENESS_THRESHOLD_MINUTES = 60
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.5
_AT_ONCE = 64


def not_reached(failures: Mapping[str, str]) -> RuntimeError:
    """Return the error of a job whose hosts can't be reached, by name and why."""
    lines = []
    for name, failure in failures.items():
        unknown = "resolve" not in failure and network.resolve_host_address(name) is None
        hint = ". This name does not resolve here either: check it, or give the address" if unknown else ""
        lines.append(f"Could not reach host {name}: {failure}{hint}")
    return RuntimeError("\n".join(lines))


def shell_ended(status: int, said: str) -> str:
    """Return why a host can't be reached whose remote shell has ended."""
    lines = said.strip().splitlines()
    return f"the remote shell ended with status {status}" + (f": {lines[-1]}" if lines else "")


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
        done = child.run(remote_arguments(settings, hostname, "true"), max(0.1, left), may_ask=True)
        if done.status is None:
            return error or f"no answer within {settings.start_timeout:g} seconds (--start-timeout)"
        if done.status == 0:
            return None
        error = shell_ended(done.status, done.stderr or done.stdout)
    return error


def check_hosts(settings: Settings, hostnames: Sequence[str], cache: Cache | None = None) -> None:
    """Run a command on each host, all at once.

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
        When any host can't be reached; the text names each, and why.
    """
    asked = [name for name in hostnames if cache is None or cache.get(name) is None]
    check = functools.partial(_failure_of, settings, time.monotonic() + settings.start_timeout)
    found = execute_function_multithreaded(check, [(name,) for name in asked], max_concurrent_executions=_AT_ONCE)
    failures = {name: (found or {})[i] for i, name in enumerate(asked)}
    if cache is not None:
        for name in (name for name, failure in failures.items() if failure is None):
            cache.put(name, True)
    unreached = {name: failure for name, failure in failures.items() if failure is not None}
    if unreached:
        raise not_reached(unreached)
