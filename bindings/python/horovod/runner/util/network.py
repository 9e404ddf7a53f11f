"""Addresses and interfaces of this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any


def _psutil() -> Any:
    import psutil  # here, so that the build can ask the tools for their help without it

    return psutil


def addresses() -> list[tuple[str, str]]:
    """Return the addresses of this machine, behind their interfaces, IPv4 first, without those of one link alone."""
    found = [
        (nic, address.address)
        for family in (socket.AF_INET, socket.AF_INET6)
        for nic, addresses in _psutil().net_if_addrs().items()
        for address in addresses
        if address.family == family
    ]
    return [(nic, address) for nic, address in found if "%" not in address]


def is_loopback(address: str) -> bool:
    """Tell whether a numeric address leads to this machine from anywhere."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def host_of_url(address: str) -> str:
    """Return an address as a URL has it: an IPv6 one in brackets."""
    return f"[{address}]" if ":" in address else address


def get_local_host_addresses() -> set[str]:
    """Return every address of this machine."""
    return {
        address.address.partition("%")[0]
        for addresses in _psutil().net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }


def _resolve(hostname: str) -> list[str]:
    """Return the numeric addresses of `hostname`, IPv4 first."""
    try:
        found = socket.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # the second: no name at all
        return []
    return sorted((str(entry[4][0]) for entry in found), key=lambda address: ":" in address)


def resolve_host_address(hostname: str) -> str | None:
    """Return the address of `hostname`, an IPv4 one if it has any, or None when it has none."""
    return next(iter(_resolve(hostname)), None)


def filter_local_addresses(hostnames: Iterable[str]) -> list[str]:
    """Return the hosts that are not this machine, in order."""
    local = get_local_host_addresses()

    def is_local(name: str) -> bool:
        addresses = _resolve(name)
        if not addresses:  # a bare container has no /etc/hosts
            return name in ("localhost", socket.gethostname())
        return any(address.partition("%")[0] in local or is_loopback(address) for address in addresses)

    return [name for name in hostnames if not is_local(name)]


def interface_address(nic: str) -> str:
    """Return the address of an interface, an IPv4 one if it has any.

    Raises
    ------
    ValueError
        When there is no such interface or it has no address; the text lists those that there are.
    """
    found: dict[str, str] = {}
    for name, address in addresses():
        found.setdefault(name, address)
    if nic not in found:
        there = ", ".join(f"{name} ({address})" for name, address in found.items())
        raise ValueError(
            f"Network interface {nic!r} does not exist on this host or has no address. There are: {there}."
        )
    return found[nic]


def loopback_address() -> str:
    """Return 127.0.0.1, or ::1 where that alone is there."""
    there = get_local_host_addresses()
    return "::1" if "::1" in there and not any(address.startswith("127.") for address in there) else "127.0.0.1"


def any_address() -> str:
    """Return the address for a listener that takes connections at all addresses of this machine."""
    is_ipv6_there = any(":" in address for address in [loopback_address(), *outward_addresses()])
    return "::" if is_ipv6_there and socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 (who is to come is unknown)


def is_any(address: str) -> bool:
    """Tell whether an address is one that :func:`any_address` returns."""
    return address in ("0.0.0.0", "::")  # noqa: S104 (it is no use of it)


def get_local_intfs(nic: str | None = None) -> set[str]:
    """Return the interfaces that hold the loopback address: all, or `nic` if it is one."""
    loopback = loopback_address()
    return {name for name, address in addresses() if address == loopback and nic in (None, name)}


def outward_addresses() -> dict[str, str]:
    """Return the interface of each address of this machine that is up and not the loopback's, IPv4 first."""
    states = _psutil().net_if_stats()
    return {
        address: nic for nic, address in addresses() if not is_loopback(address) and nic in states and states[nic].isup
    }


def outward_address() -> str:
    """Return the first of :func:`outward_addresses`.

    Raises
    ------
    RuntimeError
        When there is none.
    """
    found = outward_addresses()
    if not found:
        raise RuntimeError("This host has no network interface that is up with an address.")
    return next(iter(found))


def get_local_host_intfs() -> set[str]:
    """Return the names of this machine's interfaces."""
    return set(_psutil().net_if_addrs())


def get_driver_ip(nics: Iterable[str] | None) -> str:
    """Return the address under which others find this machine: of the first interface that is named, if any is.

    Raises
    ------
    ValueError
        When there is no such interface.
    RuntimeError
        When none is named, and no interface is up.
    """
    first = next(iter(nics or ()), None)
    return outward_address() if first is None else interface_address(first)


def address_towards(hostname: str) -> str:
    """Return the address of this machine that packets to `hostname` leave from; nothing is sent."""
    reason: object = "it has no address"
    for address in _resolve(hostname):
        with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, 9))
                return str(probe.getsockname()[0])
            except OSError as error:
                reason = error
    raise RuntimeError(f"There is no route to host {hostname}: {reason}")


def listen(address: str, backlog: int | None = None, port: int = 0) -> socket.socket:
    """Return a socket that listens, on a free port by default; at ``::`` for IPv4, too."""
    return socket.create_server(
        (address, port), family=family_of(address), backlog=backlog, dualstack_ipv6=address == "::"
    )


def free_port(address: str) -> int:
    """Return a port of this machine that nothing uses at the moment."""
    with listen(address) as server:
        return int(server.getsockname()[1])
