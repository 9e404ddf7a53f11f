"""Where an elastic job may run: what a script says each second, and which hosts and slots have failed."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from horovod.child import MOST_OF_OUTPUT, run
from horovod.runner.common.util.hosts import NAME, plain_name
from horovod.runner.elastic.worker import HostUpdateResult

_LINE = re.compile(rf"^({NAME})(?::([0-9]{{1,6}}))?$")
_SCRIPT_SECONDS = 10.0  # then a script counts as hanging
_SHOWN = 200  # characters of a script's output in an error
_COOLDOWN_BOUNDS = (1, 3600)


class DiscoveryError(RuntimeError):
    """The hosts could not be found out; the text names the script and what it did."""


class HostDiscovery:
    """The base of classes that say which hosts there are."""

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return the slots by host, in the order in which ranks are to be given out."""
        raise NotImplementedError


class FixedHosts(HostDiscovery):
    """Hosts that were given; :meth:`set` gives others.

    Parameters
    ----------
    available_hosts : mapping
        Slots by host.
    """

    def __init__(self, available_hosts: Mapping[str, int]) -> None:
        self._hosts = dict(available_hosts)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return the hosts that were given last."""
        return dict(self._hosts)

    def set(self, available_hosts: Mapping[str, int]) -> None:
        """Give other hosts."""
        self._hosts = dict(available_hosts)


def parse_hosts_and_slots(output: str, default_slots: int | None, source: str) -> dict[str, int]:
    """Return the slots by host of lines ``host`` or ``host:slots``; equal lines count once.

    Parameters
    ----------
    output : str
        The lines.
    default_slots : int, optional
        Of hosts whose line has none.
    source : str
        Whose output it is, for errors.

    Raises
    ------
    DiscoveryError
        When a line is neither, has no slots, or says something else of a host than one before it.
    """
    hosts: dict[str, int] = {}
    for line in filter(None, map(str.strip, output.splitlines())):
        match = _LINE.match(line)
        if match is None:
            raise DiscoveryError(f"{source} printed {line[:_SHOWN]!r}, which is neither `host` nor `host:slots`.")
        try:
            name = plain_name(match[1])
        except ValueError as error:
            raise DiscoveryError(f"{source} printed {line!r}. {error}") from None
        slots = default_slots if match[2] is None else int(match[2])
        if slots is None:
            raise DiscoveryError(f"{source} printed {line!r} without slots: print {line}:N, or give --slots-per-host.")
        if hosts.setdefault(name, slots) != slots:
            raise DiscoveryError(f"{source} printed two numbers of slots of {name}: {hosts[name]} and {slots}.")
    return hosts


class HostDiscoveryScript(HostDiscovery):
    """Runs a command that prints a line ``host`` or ``host:slots`` for each host.

    Parameters
    ----------
    discovery_script : str
        A command line for the shell.
    slots : int, optional
        Of hosts whose line has none.
    timeout : float
        Seconds after which it is ended, with all that it started.
    """

    def __init__(self, discovery_script: str, slots: int | None = None, timeout: float = _SCRIPT_SECONDS) -> None:
        self._script = discovery_script
        self._slots = slots
        self._timeout = timeout

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Run the command.

        Raises
        ------
        DiscoveryError
            When it fails, hangs, or prints something else.
        """
        named = f"Failed to execute discovery script: {self._script}"
        done = run(["/bin/sh", "-c", self._script], self._timeout)
        if done.status is None:
            raise DiscoveryError(f"{named} has not ended within {self._timeout:g} seconds.")
        if len(done.stdout) > MOST_OF_OUTPUT:
            raise DiscoveryError(f"{named} printed more than {MOST_OF_OUTPUT >> 20} MiB.")
        if done.status != 0:
            why = f": {done.stderr.strip()[-_SHOWN:]}" if done.stderr.strip() else ""
            hint = " Make it executable (chmod +x)." if done.status == 126 else ""
            raise DiscoveryError(f"{named} ended with status {done.status}{why}.{hint}")
        return parse_hosts_and_slots(done.stdout, self._slots, f"Discovery script {self._script}")


# --- what has failed ---


def check_cooldown_range(cooldown_range: Sequence[int] | None) -> None:
    """Refuse bounds that are out of order or out of range with a ValueError."""
    if cooldown_range is None:
        return
    least, most = cooldown_range
    low, high = _COOLDOWN_BOUNDS
    if not low <= least <= most <= high:
        raise ValueError(
            f"blacklist_cooldown_range={least} {most} must be two numbers of seconds, the smaller first, within "
            f"{low} and {high}"
        )


class Cooldown:
    """Tells when a slot that failed may be used again: never without a range, else after a time that doubles.

    Parameters
    ----------
    cooldown_range : pair of int, optional
        Least and most seconds.
    draw : callable
        Returns a number from 0 to 1: of the least time, so much is added, so that not all come back at once.
    """

    def __init__(self, cooldown_range: Sequence[int] | None = None, draw: Callable[[], float] = random.random) -> None:
        self._range = cooldown_range
        self._draw = draw
        self._failures = 0
        self.until: float | None = None  # when it may be used again; infinity for never

    def fail(self, now: float) -> None:
        """Note that the slot has failed, now."""
        if self._range is None:
            self.until = float("inf")
            return
        least, most = self._range
        self.until = now + min(max(least * 2**self._failures + self._draw() * least, least), most)
        self._failures += 1

    def is_usable(self, now: float) -> bool:
        """Tell whether the slot has not failed, or may be used again."""
        return self.until is None or now >= self.until


# --- for code that drives jobs of its own ---


class HostState:
    """Whether a host may be used, and an event for those that run there.

    Parameters
    ----------
    cooldown_range : pair of int, optional
        Least and most seconds after which a host that was blacklisted may be used again; never without.
    """

    def __init__(self, cooldown_range: Sequence[int] | None = None) -> None:
        check_cooldown_range(cooldown_range)
        self._cooldown = Cooldown(cooldown_range)
        self._event = threading.Event()
        self._is_blacklisted = False

    def get_event(self) -> threading.Event:
        """Return the event that is set when processes of the host must end; a new one once the host is usable again."""
        if self._event.is_set() and not self.is_blacklisted():
            self._event = threading.Event()
        return self._event

    def set_event(self) -> None:
        """Have the processes of the host end."""
        self._event.set()

    def blacklist(self) -> None:
        """Use the host no more, or not for a while, and have its processes end."""
        if not self.is_blacklisted():
            self._cooldown.fail(time.monotonic())
        self._is_blacklisted = True
        self.set_event()

    def is_blacklisted(self) -> bool:
        """Tell whether the host must not be used now."""
        return not self._cooldown.is_usable(time.monotonic())

    def is_resurrected(self) -> bool:
        """Tell whether the host was blacklisted and may be used again."""
        return self._is_blacklisted and not self.is_blacklisted()

    def whitelist(self) -> None:
        """Take note that a host which may be used again is used."""
        self._is_blacklisted = False


class DiscoveredHosts:
    """Hosts that were found, as they were then.

    Parameters
    ----------
    host_slots : mapping
        Slots by host.
    host_assignment_order : sequence of str
        The hosts in the order in which ranks are given out.
    """

    def __init__(self, host_slots: Mapping[str, int], host_assignment_order: Sequence[str]) -> None:
        self._host_slots = dict(host_slots)
        self._order = list(host_assignment_order)

    @property
    def host_slots(self) -> dict[str, int]:
        """Slots by host."""
        return self._host_slots

    @property
    def available_hosts(self) -> set[str]:
        """The hosts."""
        return set(self._order)

    @property
    def host_assignment_order(self) -> list[str]:
        """The hosts, those that have been there longest first."""
        return self._order

    def get_slots(self, host: str) -> int:
        """Return the slots of a host, 0 for one that is not there."""
        return self._host_slots.get(host, 0)

    def count_available_slots(self) -> int:
        """Return the slots of all hosts."""
        return sum(self.get_slots(host) for host in self._order)


class HostManager:
    """Asks a discovery for hosts and leaves out those that have failed. Any thread.

    Parameters
    ----------
    discovery : HostDiscovery
        Says which hosts there are.
    cooldown_range : pair of int, optional
        As of :class:`HostState`.
    """

    def __init__(self, discovery: HostDiscovery, cooldown_range: Sequence[int] | None = None) -> None:
        self._discovery = discovery
        self._cooldown_range = cooldown_range
        self._lock = threading.RLock()
        self._states: dict[str, HostState] = {}
        self._current = DiscoveredHosts({}, [])

    @property
    def current_hosts(self) -> DiscoveredHosts:
        """The hosts of the last update, without those that have been blacklisted since."""
        with self._lock:
            order = [host for host in self._current.host_assignment_order if not self.is_blacklisted(host)]
            return DiscoveredHosts(self._current.host_slots, order)

    def update_available_hosts(self) -> int:
        """Ask for the hosts; return the flags of :class:`HostUpdateResult` that say what changed."""
        found = self._discovery.find_available_hosts_and_slots()
        with self._lock:
            flags = HostUpdateResult.no_update
            before = self._current.host_slots
            if any(found.get(host, 0) < slots for host, slots in before.items()):
                flags |= HostUpdateResult.removed
            if any(before.get(host, 0) < slots for host, slots in found.items()):
                flags |= HostUpdateResult.added
            for host in found:
                if self._state(host).is_resurrected():
                    self._state(host).whitelist()
                    flags |= HostUpdateResult.added
            usable = {host: slots for host, slots in found.items() if not self.is_blacklisted(host)}
            order = self.order_available_hosts(usable, self._current.host_assignment_order)
            self._current = DiscoveredHosts(found, order)
            return flags

    def blacklist(self, host: str) -> None:
        """Use a host no more, or not for a while."""
        with self._lock:
            self._state(host).blacklist()

    def is_blacklisted(self, host: str) -> bool:
        """Tell whether a host must not be used now."""
        with self._lock:
            return self._state(host).is_blacklisted()

    def get_host_event(self, host: str) -> threading.Event:
        """Return the event that is set when processes of a host must end."""
        with self._lock:
            return self._state(host).get_event()

    @staticmethod
    def order_available_hosts(
        available_hosts: Mapping[str, int] | set[str], prev_host_order: Sequence[str]
    ) -> list[str]:
        """Return hosts in the order in which they came: those that stay, then the new ones."""
        staying = [host for host in prev_host_order if host in available_hosts]
        return [*staying, *(host for host in available_hosts if host not in staying)]

    def _state(self, host: str) -> HostState:
        return self._states.setdefault(host, HostState(self._cooldown_range))
