"""Which of the launcher's addresses its hosts can use: each host's agent tries them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from horovod.runner.util import network

_MOST_HOSTS = 4096  # that connect between two looks


@dataclass
class Reach:
    """Where a host may find the launcher: its agent takes the first address that answers.

    Attributes
    ----------
    hostname : str
        The host.
    port : int
        On which something listens at every address.
    addresses : dict
        The interface of each, the likely one first.
    variables : list of str
        Those that are set to the address.
    """

    hostname: str
    port: int
    addresses: dict[str, str]
    variables: list[str]

    def order(self) -> dict[str, object]:
        """Return the part of an agent's order that tells the addresses."""
        return {**vars(self), "addresses": list(self.addresses)}

    def failure(self) -> str:
        """Return the error of an agent that reached none of the addresses."""
        tried = ", ".join(f"{nic} ({address})" for address, nic in self.addresses.items())
        return (
            "Unable to find a set of common task-to-task communication interfaces: "
            f"from {self.hostname} nothing answers at {tried}. Name an interface that it reaches with "
            "--network-interfaces, or let its connections through the firewalls."
        )


class ReachPort:
    """A port at which agents try addresses: a connection that the kernel takes is all that they look for.

    Parameters
    ----------
    address : str
        Where it listens.

    Attributes
    ----------
    number : int
        The port's.
    """

    def __init__(self, address: str) -> None:
        self._socket = network.listen(address, _MOST_HOSTS)
        self._socket.setblocking(False)
        self.number = int(self._socket.getsockname()[1])

    def forget(self) -> None:
        """Close the connections that came, which nobody reads, to make room."""
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()

    def close(self) -> None:
        """Take no more."""
        self._socket.close()


def candidates(nics: Sequence[str], likely: str) -> dict[str, str]:
    """Return the addresses at which other hosts may look for this one, each with its interface.

    Parameters
    ----------
    nics : sequence of str
        Interfaces that the user named: then it is the first of them.
    likely : str
        The address to try first.
    """
    found = network.outward_addresses()
    return {likely: nics[0]} if nics else {likely: found.get(likely, "the route there"), **found}
