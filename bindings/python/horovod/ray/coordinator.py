"""How the workers of a job find one another: their numbers, and the rendezvous."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import ray

from horovod import _roda
from horovod.runner.common.util import secret
from horovod.runner.common.util.hosts import SlotInfo, lay_out
from horovod.runner.common.util.timeout import Timeout
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
from horovod.runner.util import network

_TIMEOUT_TEXT = (
    "Timed out after {timeout} s waiting for {activity}. Check that the nodes can reach each other, or wait longer "
    "(timeout_s)."
)


@dataclass
class MiniSettings:
    """Options of a job on Ray.

    Attributes
    ----------
    nics : sequence of str or None
        Network interfaces to use; by default those that lead to the driver.
    timeout_s : float
        Seconds for workers to start in a placement group that was there before.
    placement_group_timeout_s : float
        Seconds to wait for the cluster to have room.
    verbose, key, ssh_port, ssh_identity_file, ssh_str
        Without effect: there is no ssh, and each job makes a secret of its own.
    """

    nics: Any = None
    verbose: int = 1
    key: Any = field(default=None, repr=False)
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    ssh_str: str | None = field(default=None, repr=False)
    timeout_s: float = 300
    placement_group_timeout_s: float = 100

    @property
    def start_timeout(self) -> Timeout:
        """The deadline for a job that starts now."""
        return Timeout(self.timeout_s, _TIMEOUT_TEXT)


class Coordinator:
    """Collects where the workers of a job are, and serves their rendezvous.

    Parameters
    ----------
    settings : MiniSettings
        Or any object with `nics`.
    """

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.key = secret.make_secret_key()
        self.node_id_by_rank: dict[int, str] = {}
        self._hostnames: dict[int, str] = {}
        self._server: _roda.RendezvousServer | None = None

    @property
    def world_size(self) -> int:
        """Workers that were registered."""
        return len(self.node_id_by_rank)

    @property
    def hostnames(self) -> set[str]:
        """The names of their machines."""
        return set(self._hostnames.values())

    @property
    def node_id_string(self) -> str:
        """The nodes with their numbers of workers: ``node:2,other:1``."""
        return ",".join(f"{node}:{count}" for node, count in Counter(self.node_id_by_rank.values()).items())

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        """Take note of a worker: ranks on one node share that."""
        self._hostnames[world_rank] = hostname
        self.node_id_by_rank[world_rank] = node_id

    def slots(self) -> list[SlotInfo]:
        """Return all numbers of every worker, by rank."""
        return lay_out([self.node_id_by_rank[rank] for rank in range(self.world_size)])

    def finalize_registration(self) -> dict[int, dict[str, Any]]:
        """Return, by rank, the variables that tell a worker its numbers."""
        return {
            slot.rank: {name: getattr(slot, name[8:].lower()) for name in create_slot_env_vars(slot)}
            for slot in self.slots()
        }

    def serve(self) -> dict[str, str]:
        """Start the rendezvous; return what tells workers where it is, and not its secret."""
        nics = list(self.settings.nics or ())
        is_local = set(self.node_id_by_rank.values()) == {ray.get_runtime_context().get_node_id()}
        if nics:
            address = network.interface_address(nics[0])
        else:
            address = network.loopback_address() if is_local else ray.util.get_node_ip_address()
        self._server = _roda.RendezvousServer(address, 0, self.key)
        return create_run_env_vars(
            address, nics or (sorted(network.get_local_intfs()) if is_local else []), self._server.port
        )

    def establish_rendezvous(self) -> dict[str, str]:
        """Start the rendezvous; return all that workers need, for code that sets variables and nothing else."""
        return {**self.serve(), secret.HOROVOD_SECRET_KEY: base64.b64encode(self.key).decode()}

    def stop(self) -> None:
        """End the rendezvous."""
        if self._server is not None:
            self._server.stop()
            self._server = None
