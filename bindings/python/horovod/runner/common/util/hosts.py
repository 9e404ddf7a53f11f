"""Hosts, their slots, and which rank goes where."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from horovod.common.model import read_text, shown

_IPV6 = r"[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}(?:%[\w.-]+)?"
NAME = rf"\[{_IPV6}\]|[\w.-]+"
_HOST = re.compile(rf"^(?:{NAME}):[0-9]+$")
_BARE_IPV6 = re.compile(rf"^{_IPV6}$")
_SLOTS = re.compile(r"(?<![\w-])slots\s*=\s*(\S*)")
_BAD_HOST = "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2."
_MOST_BYTES = 1 << 24  # of a file
_MOST_DIGITS = 9
_LONGEST_NAME = 255
_SHOWN = 8  # hosts, in an error


def plain_name(name: str) -> str:
    """Return a host's name as other programs take it: an IPv6 address without its brackets.

    Raises
    ------
    ValueError
        When the name begins with ``-``.
    """
    if name.startswith("-"):
        raise ValueError(f"Host name {name!r} begins with '-': ssh and others would take it for an option.")
    return name[1:-1] if name.startswith("[") else name


def with_slots(name: str, slots: int) -> str:
    """Return ``name:slots``, an IPv6 address in brackets."""
    return f"[{name}]:{slots}" if ":" in name else f"{name}:{slots}"


@dataclass(frozen=True)
class HostInfo:
    """A host and how many processes may run on it."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """Parse ``name:slots``."""
        hostname, _, slots = host_string.strip().rpartition(":")
        return HostInfo(plain_name(hostname), int(slots))


@dataclass(frozen=True)
class SlotInfo:
    """The numbers of one process."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int | None = None
    local_size: int | None = None
    cross_size: int | None = None

    def to_response_string(self) -> str:
        """Return the numbers as an elastic worker asks for them."""
        return ",".join(
            str(v) for v in (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        )

    @staticmethod
    def from_response_string(response: str) -> SlotInfo:
        """Parse :meth:`to_response_string`."""
        rank, size, local_rank, local_size, cross_rank, cross_size = (int(v) for v in response.split(","))
        return SlotInfo("", rank, local_rank, cross_rank, size, local_size, cross_size)


INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    """Parse ``host:slots,host:slots``."""
    hosts = []
    for text in hosts_string.split(","):
        if not _HOST.match(text.strip()):
            raise ValueError(f"{_BAD_HOST} Got {text!r}.")
        hosts.append(HostInfo.from_string(text))
    return hosts


def parse_hosts_and_slots(hosts: str) -> tuple[list[str], dict[str, int]]:
    """Parse ``host:slots,host:slots`` into the names, each once and in order, and the slots by name."""
    slots: dict[str, int] = {}
    for info in parse_hosts(hosts):
        slots[info.hostname] = slots.get(info.hostname, 0) + info.slots
    return list(slots), slots


def parse_host_files(filename: str) -> str:
    """Return the hosts of a file as ``host:n,host:n``, each once, in the order in which they come first.

    Lines are ``<host> slots=<n>``, or as MPIs and batch systems write them: ``<host>:<n>``, ``<host> <n> ...`` (SGE),
    ``<host>`` once for each slot (PBS, LSF).

    Raises
    ------
    OSError
        When the file can't be read.
    ValueError
        When it is no text, names no host, or a line is none of these; the text names the file.
    """
    hosts: dict[str, int] = {}
    try:
        lines = read_text(Path(filename), _MOST_BYTES).splitlines()
    except ValueError as error:
        raise ValueError(f"{filename} {error}") from None
    for line in lines:
        text = line.partition("#")[0].strip()
        if not text:
            continue
        word = text.split()[0]
        is_bare = _BARE_IPV6.match(word) or word.endswith("]") or ":" not in word
        name, _, slots = (word, "", "") if is_bare else word.rpartition(":")
        told = _SLOTS.search(text)
        second = text.split()[1:2]
        if told is not None:
            slots = told[1]
        elif not slots:
            slots = second[0] if second and second[0].isdigit() else "1"
        if not slots.isdecimal() or len(slots) > _MOST_DIGITS:
            raise ValueError(f"{filename}: {shown(line.strip())}: {shown(slots)} is no number of slots")
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"{filename}: {shown(name)} is no name of a host: it has {len(name)} characters")
        name = plain_name(name)
        hosts[name] = hosts.get(name, 0) + int(slots)
    if not hosts:
        raise ValueError(f"{filename} names no host")
    return ",".join(with_slots(name, slots) for name, slots in hosts.items())


def lay_out(hostnames: Sequence[str]) -> list[SlotInfo]:
    """Return every rank's numbers, given every rank's host."""
    local_ranks = []
    ranks_on: dict[str, int] = defaultdict(int)
    for hostname in hostnames:
        local_ranks.append(ranks_on[hostname])
        ranks_on[hostname] += 1
    most = max(ranks_on.values(), default=0)
    hosts_with = [[host for host, ranks in ranks_on.items() if ranks > local] for local in range(most)]
    return [
        SlotInfo(
            hostname=hostname,
            rank=rank,
            local_rank=local_rank,
            cross_rank=hosts_with[local_rank].index(hostname),
            size=len(hostnames),
            local_size=ranks_on[hostname],
            cross_size=len(hosts_with[local_rank]),
        )
        for rank, (hostname, local_rank) in enumerate(zip(hostnames, local_ranks))
    ]


def too_few_slots(wanted: int, hosts: Sequence[HostInfo]) -> str:
    """Return the text of the error for a job that has more processes than slots."""
    there = ", ".join(with_slots(host.hostname, host.slots) for host in hosts[:_SHOWN])
    more = f" and {len(hosts) - _SHOWN} more hosts" if len(hosts) > _SHOWN else ""
    return (
        f"Requested more processes ({wanted}) than there are available slots ({sum(host.slots for host in hosts)}): "
        f"{there or 'no hosts'}{more}; name more hosts or slots, or ask for fewer processes"
    )


def get_host_assignments(
    hosts: Sequence[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    """Fill the slots of the hosts, in their order, with ranks.

    Parameters
    ----------
    hosts : sequence of HostInfo
        In the order in which ranks are given out.
    min_num_proc : int
        Least number of processes.
    max_num_proc : int, optional
        Most number of processes; by default all slots are filled.

    Raises
    ------
    ValueError
        When there are fewer slots than `min_num_proc`.
    """
    # A host may claim any number of slots.
    placed = list(islice((host.hostname for host in hosts for _ in range(host.slots)), max_num_proc))
    if len(placed) < min_num_proc:
        raise ValueError(too_few_slots(min_num_proc, hosts))
    return lay_out(placed)
