"""Launching over the engine's own rendezvous (what Horovod calls the Gloo launcher)."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence

from horovod import _roda
from horovod.runner.common.util import secret
from horovod.runner.common.util.env import exportable
from horovod.runner.common.util.hosts import SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.common.util.settings import Settings
from horovod.runner.debugging import prepare
from horovod.runner.elastic.discovery import FixedHosts
from horovod.runner.elastic.generation import Place
from horovod.runner.elastic.job import ElasticJob
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.elastic.worker import TELLS_STRAGGLERS
from horovod.runner.job import HostJob, Job
from horovod.runner.output import MultiFile as MultiFile
from horovod.runner.reach import Reach, ReachPort, candidates
from horovod.runner.util import network


def create_slot_env_vars(slot_info: SlotInfo) -> dict[str, str]:
    """Return the variables that tell a worker its numbers."""
    return {
        "HOROVOD_HOSTNAME": slot_info.hostname,
        "HOROVOD_RANK": str(slot_info.rank),
        "HOROVOD_SIZE": str(slot_info.size),
        "HOROVOD_LOCAL_RANK": str(slot_info.local_rank),
        "HOROVOD_LOCAL_SIZE": str(slot_info.local_size),
        "HOROVOD_CROSS_RANK": str(slot_info.cross_rank),
        "HOROVOD_CROSS_SIZE": str(slot_info.cross_size),
    }


def create_nics_env_vars(nics: Sequence[str]) -> dict[str, str]:
    """Return the variables that name the interfaces to use; none for none."""
    return {"HOROVOD_GLOO_IFACE": nics[0], "NCCL_SOCKET_IFNAME": ",".join(nics)} if nics else {}


def create_run_env_vars(server_ip: str, nics: Sequence[str], port: int, elastic: bool = False) -> dict[str, str]:
    """Return the variables that are the same for all workers.

    Without named interfaces none is forced on the workers: they use those by which they find each other.
    """
    variables = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": server_ip,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "PYTHONUNBUFFERED": "1",
        **create_nics_env_vars(nics),
    }
    if elastic:
        variables["HOROVOD_ELASTIC"] = "1"
    return variables


def get_run_command(
    command: Sequence[str], server_ip: str, nics: Sequence[str], port: int, elastic: bool = False
) -> str:
    """Return a shell command that runs `command` with the variables of :func:`create_run_env_vars`."""
    variables = create_run_env_vars(server_ip, nics, port, elastic)
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), *map(shlex.quote, command)]
    )


def create_torch_env_vars(slot_info: SlotInfo, master: str, port: int) -> dict[str, str]:
    """Return what torchrun would tell a worker: PyTorch, Lightning and others look for it."""
    return {
        "RANK": str(slot_info.rank),
        "WORLD_SIZE": str(slot_info.size),
        "LOCAL_RANK": str(slot_info.local_rank),
        "LOCAL_WORLD_SIZE": str(slot_info.local_size),
        "NODE_RANK": str(slot_info.cross_rank),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
    }


def _own_address(nics: Sequence[str], remote_hosts: Sequence[str]) -> str:
    if not remote_hosts:
        return network.loopback_address()
    if nics:
        return network.interface_address(nics[0])
    # A remote shell may know names that the resolver does not.
    resolvable = [name for name in remote_hosts if network.resolve_host_address(name) is not None]
    return network.address_towards(resolvable[0]) if resolvable else network.outward_address()


def _master_address(first_host: str, is_local: bool, own_address: str) -> str:
    """Return where rank 0 is found: on this host, which another reaches by `own_address`, or on one of its own."""
    return own_address if is_local else network.resolve_host_address(first_host) or first_host


def _host_jobs(
    slots: Sequence[SlotInfo], remote_hosts: Sequence[str], own_address: str, addresses: dict[str, str], own_port: int
) -> list[HostJob]:
    first = slots[0].hostname
    master = _master_address(first, first not in remote_hosts, own_address)
    port = network.free_port(own_address)  # on this host: a guess for the first rank's, if that is another one
    ours = ["HOROVOD_GLOO_RENDEZVOUS_ADDR", *([] if first in remote_hosts else ["MASTER_ADDR"])]
    jobs: dict[str, HostJob] = {}
    for slot in slots:
        is_local = slot.hostname not in remote_hosts
        reach = None if is_local else Reach(slot.hostname, own_port, addresses, ours)
        job = jobs.setdefault(slot.hostname, HostJob(slot.hostname, is_local, [], reach))
        variables = {**create_torch_env_vars(slot, master, port), **create_slot_env_vars(slot)}
        job.slots.append({"rank": slot.rank, "environment": variables})
    return list(jobs.values())


class NoCommandError(RuntimeError):
    """The command to run is not on this host, on which all ranks would have been."""

    exit_code = 127  # as of a shell

    def __init__(self, command: str) -> None:
        super().__init__(
            f"cannot start {command}: {os.strerror(errno.EACCES if os.path.exists(command) else errno.ENOENT)}"
        )


def launch_gloo(
    command: Sequence[str], settings: Settings, env: Mapping[str, str], function: bytes | None = None
) -> dict[int, bytes]:
    """Start exactly ``settings.num_proc`` processes and wait for their end.

    Parameters
    ----------
    command : sequence of str
        What every process executes.
    settings : Settings
        Hosts and options.
    env : mapping
        The launcher's environment; what is exportable reaches the workers.
    function : bytes, optional
        A pickled call for ``horovod.runner.run_task``.

    Returns
    -------
    dict
        By rank: what ``run_task`` returned, pickled.

    Raises
    ------
    ValueError
        When there are too few slots, or a named interface does not exist.
    RuntimeError
        When a host cannot be reached or a process failed; see :class:`horovod.runner.job.Job`. NoCommandError where it
        is known before that no process can start.
    """
    slots = get_host_assignments(parse_hosts(settings.hosts), settings.num_proc, settings.num_proc)
    hostnames = list(dict.fromkeys(slot.hostname for slot in slots))
    remote_hosts = network.filter_local_addresses(hostnames)
    if not remote_hosts and shutil.which(command[0], path=env.get("PATH")) is None:
        raise NoCommandError(command[0])
    for nic in settings.nics if not remote_hosts else settings.nics[:1]:  # the others may be those of other hosts
        network.interface_address(nic)
    address = _own_address(settings.nics, remote_hosts)
    key = secret.make_secret_key()
    addresses = candidates(settings.nics, address) if remote_hosts else {}
    listens_at = network.any_address() if len(addresses) > 1 else address
    server = _roda.RendezvousServer(listens_at, 0, key)
    reached = ReachPort(listens_at)
    try:
        is_told = bool(settings.nics or env.get("HOROVOD_GLOO_IFACE") or remote_hosts)
        nics = settings.nics if is_told else sorted(network.get_local_intfs())
        environment = {**exportable(env), **create_run_env_vars(address, nics, server.port)}
        hosts = _host_jobs(slots, remote_hosts, address, addresses, reached.number)
        prepare(hosts, settings, command)
        job = Job(settings, hosts, command, environment, key, function)
        job.run()
        return job.results
    finally:
        reached.close()
        server.stop()


def _get_min_start_hosts(settings: ElasticSettings) -> int:
    """Return on how many hosts there must be slots before an elastic job starts: one will do, whatever the settings."""
    del settings
    return 1


def _listening_address(settings: ElasticSettings) -> str:
    if isinstance(settings.discovery, FixedHosts):
        hosts = settings.discovery.find_available_hosts_and_slots()
        if not network.filter_local_addresses(hosts):
            return _own_address([], [])
    return network.interface_address(settings.nics[0]) if settings.nics else network.any_address()


class ElasticPlaces:
    """Where the workers of an elastic job find the rendezvous and one another.

    Parameters
    ----------
    settings : ElasticSettings
        With the discovery of hosts, and the interfaces to use.
    key : bytes
        The job's secret.
    listens_at : str, optional
        The rendezvous's address here; by default one that the hosts, if they are fixed, or the interfaces ask for.
    """

    def __init__(self, settings: ElasticSettings, key: bytes, listens_at: str | None = None) -> None:
        self._nics = settings.nics
        self._tells = {} if settings.slow_seconds is None else {TELLS_STRAGGLERS: "1"}
        self._address = listens_at or _listening_address(settings)
        self.server: _roda.RendezvousServer | None = _roda.RendezvousServer(self._address, 0, key)
        self._port = self.server.port
        self._reach_port: ReachPort | None = None
        self._reached: dict[str, str] = {}  # by host: the address that answered there

    def retire(self, generation: int, reason: str) -> None:
        """Refuse workers that still come to that generation."""
        if self.server is not None:
            self.server.retire(generation, reason)

    def close(self) -> None:
        """End the rendezvous; threads that are still busy may hold this object."""
        if self.server is not None:
            self.server.stop()
        self.server = None
        if self._reach_port is not None:
            self._reach_port.close()

    def is_local(self, hostname: str) -> bool:
        """Tell whether a host is this one."""
        return not network.filter_local_addresses([hostname])

    def address_for(self, hostname: str) -> str:
        """Return the launcher's address for a host: the one that answered there, before that the likely one."""
        if hostname in self._reached or not network.is_any(self._address):
            return self._reached.get(hostname, self._address)
        return _own_address([], network.filter_local_addresses([hostname]))

    def reach_for(self, hostname: str) -> Reach | None:
        """Return the addresses that a host tries; None for this one."""
        if self.is_local(hostname):
            return None
        self._reach_port = self._reach_port or ReachPort(self._address)
        self._reach_port.forget()
        addresses = candidates(self._nics, self.address_for(hostname))
        return Reach(hostname, self._reach_port.number, addresses, ["HOROVOD_GLOO_RENDEZVOUS_ADDR"])

    def reached_at(self, hostname: str, address: str) -> None:
        """Take note of the address that answered at a host."""
        self._reached[hostname] = address

    def environment_of(self, hostname: str) -> dict[str, str]:
        """Return the variables of a host's workers."""
        variables = create_run_env_vars(self.address_for(hostname), self._nics, self._port, elastic=True)
        return {**variables, **self._tells, "HOROVOD_HOSTNAME": hostname}

    def master_for(self, hostname: str, first: str) -> str:
        """Return where a host finds rank 0, which is on the host `first`."""
        return _master_address(first, self.is_local(first), self.address_for(hostname))

    def place_of(self, place: Place) -> dict[str, str]:
        """Return the variables that tell a worker its numbers in a generation."""
        master = self.master_for(place.worker.host, place.first_host)
        port = 20_000 + (self._port + place.generation) % 10_000  # a guess: nobody has asked that host
        return {**create_torch_env_vars(place.slot, master, port), **create_slot_env_vars(place.slot)}


def launch_gloo_elastic(
    command: Sequence[str], settings: ElasticSettings, env: Mapping[str, str], function: bytes | None = None
) -> dict[int, bytes]:
    """Start workers wherever there are slots, and go on while there are enough; wait for the end.

    Parameters
    ----------
    command : sequence of str
        What every worker executes.
    settings : ElasticSettings
        Options, with the discovery of hosts.
    env : mapping
        The launcher's environment; what is exportable reaches the workers.
    function : bytes, optional
        A pickled call for ``horovod.runner.run_task``.

    Returns
    -------
    dict
        By rank of the last generation: what ``run_task`` returned, pickled.

    Raises
    ------
    RuntimeError
        When the job could not start or go on; see :class:`horovod.runner.elastic.job.ElasticJob`.
    """
    key = secret.make_secret_key()
    places = ElasticPlaces(settings, key)
    try:
        job = ElasticJob(
            settings,
            command,
            dict(exportable(env)),
            key,
            is_local=places.is_local,
            environment_of=places.environment_of,
            reach_for=places.reach_for,
            reached_at=places.reached_at,
            place_of=places.place_of,
            retire=places.retire,
            function=function,
        )
        job.run()
        return job.results
    finally:
        places.close()


def gloo_run_elastic(settings: ElasticSettings, env: Mapping[str, str], command: Sequence[str]) -> None:
    """Launch with Horovod's signature."""
    launch_gloo_elastic(command, settings, env)


def gloo_run(
    settings: Settings, nics: Sequence[str], env: Mapping[str, str], server_ip: str | None, command: Sequence[str]
) -> None:
    """Launch with Horovod's signature: `nics` replace those of the settings; the address is found anew."""
    del server_ip
    if nics:
        settings.nics = list(nics)
    launch_gloo(command, settings, env)
