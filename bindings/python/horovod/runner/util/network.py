"""Addresses and interfaces of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import psutil


def get_local_host_addresses() -> set[str]:
    """Return every IPv4 address of this machine."""
    return {
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET
    }


def resolve_host_address(hostname: str) -> str | None:
    """Return the IPv4 address of `hostname`, or None when it has none."""
    try:
        return socket.gethostbyname(hostname)
    except OSError:
        return None


def filter_local_addresses(hostnames: Iterable[str]) -> list[str]:
    """Return the hosts that are not this machine, in order."""
    local = get_local_host_addresses()

    def is_local(name: str) -> bool:
        address = resolve_host_address(name)
        if address is None:  # a bare container has no /etc/hosts
            return name in ("localhost", socket.gethostname())
        return address in local or address.startswith("127.")

    return [name for name in hostnames if not is_local(name)]


def interface_address(nic: str) -> str:
    """Return the IPv4 address of an interface.

    Raises
    ------
    ValueError
        When there is no such interface or it has no address; the text lists those that there are.
    """
    found = {
        name: address.address
        for name, addresses in psutil.net_if_addrs().items()
        for address in reversed(addresses)
        if address.family == socket.AF_INET
    }
    if nic not in found:
        there = ", ".join(f"{name} ({address})" for name, address in found.items())
        raise ValueError(
            f"Network interface {nic!r} does not exist on this host or has no IPv4 address. There are: {there}."
        )
    return found[nic]


def loopback_interfaces() -> list[str]:
    """Return the interfaces that hold 127.0.0.1."""
    return sorted(
        nic
        for nic, addresses in psutil.net_if_addrs().items()
        if any(address.address == "127.0.0.1" for address in addresses)
    )


def outward_addresses() -> dict[str, str]:
    """Return the interface of each IPv4 address of this machine that is up and not the loopback's."""
    states = psutil.net_if_stats()
    return {
        address.address: nic
        for nic, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
        if nic in states and states[nic].isup
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
        raise RuntimeError("This host has no network interface that is up with an IPv4 address.")
    return next(iter(found))


def get_local_host_intfs() -> set[str]:
    """Return the names of this machine's interfaces."""
    return set(psutil.net_if_addrs())


def get_driver_ip(nics: Iterable[str] | None) -> str:
    """Return the IPv4 address under which others find this machine: of the first interface that is named, if any is.

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
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((hostname, 9))
        except OSError as error:
            raise RuntimeError(f"There is no route to host {hostname}: {error}") from error
        return probe.getsockname()[0]


def free_port(address: str) -> int:
    """Return a port of this machine that nothing uses at the moment."""
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])
