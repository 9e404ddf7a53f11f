"""Which of the launcher's addresses its hosts can use: each host's agent tries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod.runner.util import network


@dataclass
class Reach:
    """Where hosts may find the launcher: an agent takes the first address that answers.

    Attributes
    ----------
    port : int
        On which something listens at every address.
    addresses : dict
        The interface of each, the likely one first.
    variables : list of str
        Those that are set to the address.
    """

    port: int
    addresses: dict[str, str]
    variables: list[str]

    def order(self) -> dict[str, object]:
        """Return what an agent is told."""
        return {**vars(self), "addresses": list(self.addresses)}

    def failure(self, hostname: str) -> str:
        """Return what the user is told when a host's agent reached none of the addresses."""
        tried = ", ".join(f"{nic} ({address})" for address, nic in self.addresses.items())
        return (
            f"Unable to find a set of common task-to-task communication interfaces: from {hostname} nothing answers at "
            f"{tried}. Name an interface that it reaches with --network-interfaces, or let its connections through the "
            "firewalls."
        )


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
