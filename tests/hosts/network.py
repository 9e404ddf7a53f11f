#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces joined by virtual cables, each with a host name of its own.

    tests/hosts/network.py [--hosts 2] [--rate 1gbit] -- command …

runs a command on the first of the hosts, with HOSTS (``address:2,address:2``), HOST_ADDRESSES, HOROVOD_RSH_AGENT and
OMPI_MCA_plm_rsh_agent set, so that ``horovodrun -np 4 -H $HOSTS …`` and ``mpirun -np 4 -H $HOSTS …`` span them. Each
host has its own loopback, interfaces, /sys, /dev/shm, folder for temporary files and host name; no name resolves. They
share the kernel with its boot id, the processors, the process ids and the file system.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WIRE = "wire0"  # every host's only interface but the loopback and what comes before it
DEAD_END = ("docker0", "172.17.0.1/16")  # what each host may have first, with an address that all of them have
_PREFIX = "roda-host"
_NAMES = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "hazel", "juniper")

# Called as `<agent> <host> <shell command>`, like ssh.
_AGENT = """#!/bin/sh
host=$1
shift
case $host in
{cases}
*) echo "agent: unknown host $host" >&2; exit 255 ;;
esac
exec ip netns exec "$namespace" unshare --uts --mount --propagation private sh -c '
  hostname "$0" && mount -t tmpfs -o size=50% shm /dev/shm && TMPDIR=$1 && export TMPDIR && exec sh -c "$2"
' "$name" "$folder" "$*"
"""


class NoNamespacesError(RuntimeError):
    """This machine, or this user, can't have network namespaces."""


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode != 0:
        raise NoNamespacesError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _kill_all(namespace: str) -> None:
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)  # noqa: S603, S607
    for pid in found.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


def _remove_namespace(name: str) -> None:
    """End what still runs there, and remove it; one that is not there is no error."""
    _kill_all(name)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)  # noqa: S603, S607


def _remove_orphans() -> None:
    """Remove what a test run left that was killed: the names tell whose it was."""
    for path in Path("/run/netns").glob(f"{_PREFIX}-*"):
        owner = path.name.split("-")[2]
        if not Path(f"/proc/{owner}").exists():
            _remove_namespace(path.name)


@dataclass(frozen=True)
class Host:
    """One of the hosts."""

    name: str
    address: str
    namespace: str


class Network:
    """Hosts on one wire; a context manager that always removes them.

    Parameters
    ----------
    count : int
        Number of hosts: two are joined directly, more over a bridge.
    rate : str, optional
        What each host may send, as ``tc`` writes it.
    names : sequence of str, optional
        The hosts' names; several may be equal.
    has_dead_ends : bool
        Whether each host's first interface is an empty bridge that leads nowhere.
    is_ipv6 : bool
        The hosts have IPv6 addresses, and no other, not even on the loopback.

    Raises
    ------
    NoNamespacesError
        On entry, with the reason.
    """

    _made = 0

    def __init__(
        self,
        count: int,
        rate: str | None = None,
        names: Sequence[str] = _NAMES,
        has_dead_ends: bool = False,
        is_ipv6: bool = False,
    ) -> None:
        Network._made += 1
        stem = f"{_PREFIX}-{os.getpid()}-{Network._made}"
        number = 78 + os.getpid() % 100
        subnet = f"fd00:{number:x}:{Network._made:x}::" if is_ipv6 else f"10.{number}.{Network._made}."
        self.hosts = [Host(names[i], f"{subnet}{i + 1}", f"{stem}-{i}") for i in range(count)]
        self._is_ipv6 = is_ipv6
        self._switch = f"{stem}-switch"
        self._rate = rate
        self._has_dead_ends = has_dead_ends
        self.folder = Path()

    def __enter__(self) -> Network:
        _remove_orphans()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-"))
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*(host.namespace for host in self.hosts), self._switch]:
            _remove_namespace(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self) -> None:
        if os.geteuid() != 0:
            raise NoNamespacesError("network namespaces need root")
        for program in ("ip", "tc", "unshare"):
            if shutil.which(program) is None:
                raise NoNamespacesError(f"there is no program {program}")
        for host in self.hosts:
            _ip("netns", "add", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            if self._is_ipv6:
                _ip("-n", host.namespace, "-4", "addr", "flush", "dev", "lo")
            if self._has_dead_ends:
                name, address = DEAD_END
                _ip("-n", host.namespace, "link", "add", name, "type", "bridge")
                _ip("-n", host.namespace, "addr", "add", address, "dev", name)
                _ip("-n", host.namespace, "link", "set", name, "up")
        self._lay_wires()
        for host in self.hosts:
            kind = ["/64", "nodad"] if self._is_ipv6 else ["/24"]
            _ip("-n", host.namespace, "addr", "add", f"{host.address}{kind[0]}", "dev", WIRE, *kind[1:])
            self.set_link(host, True)
            if self._rate is not None:
                shape = f"netns exec {host.namespace} tc qdisc add dev {WIRE} root tbf rate {self._rate}"
                _ip(*shape.split(), "burst", "256kb", "latency", "50ms")
        self._await_wires()
        self.agent.write_text(_AGENT.format(cases="\n".join(map(self._case, self.hosts))))
        self.agent.chmod(0o700)

    def _case(self, host: Host) -> str:
        folder = self.folder / host.namespace
        folder.mkdir()
        return f"{host.address}) namespace={host.namespace} name={host.name} folder={shlex.quote(str(folder))} ;;"

    def _lay_wires(self) -> None:
        ends = [host.namespace for host in self.hosts]
        if len(ends) == 2:
            _ip("link", "add", WIRE, "netns", ends[0], "type", "veth", "peer", "name", WIRE, "netns", ends[1])
            return
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge0", "up")
        for i, end in enumerate(ends):
            port = f"port{i}"
            _ip("link", "add", WIRE, "netns", end, "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", self._switch, "link", "set", port, "master", "bridge0", "up")

    def _await_wires(self) -> None:
        """Wait until the kernel says that they carry something, up to a second after the fact: UCX takes no others."""
        limit = time.monotonic() + 20
        for host in self.hosts:
            while "state UP" not in _ip("-n", host.namespace, "-o", "link", "show", WIRE):
                if time.monotonic() > limit:
                    raise NoNamespacesError(f"the wire of {host.name} does not come up")
                time.sleep(0.02)

    @property
    def agent(self) -> Path:
        """The program that stands in for ssh."""
        return self.folder / "agent"

    def set_link(self, host: Host, up: bool) -> None:
        """Plug a host's cable in, or pull it."""
        _ip("-n", host.namespace, "link", "set", WIRE, "up" if up else "down")

    def kill_all(self, host: Host) -> None:
        """Kill whatever runs on a host."""
        _kill_all(host.namespace)

    def host_list(self, *slots: int) -> str:
        """Write ``address:slots,…``, as -H takes it."""
        form = "[{}]:{}" if self._is_ipv6 else "{}:{}"
        return ",".join(form.format(host.address, count) for host, count in zip(self.hosts, slots))

    def environment(self, *slots: int) -> dict[str, str]:
        """Return what a launcher on one of the hosts needs in its environment."""
        return {
            "HOSTS": self.host_list(*(slots or [2] * len(self.hosts))),
            "HOST_ADDRESSES": " ".join(host.address for host in self.hosts),
            "HOROVOD_RSH_AGENT": str(self.agent),
            "OMPI_MCA_plm_rsh_agent": str(self.agent),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def command(self, host: Host, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on a host."""
        return [str(self.agent), host.address, shlex.join(command)]


def main() -> int:
    """Run a command on the first host."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2, choices=(2, 3, 4), help="how many")
    parser.add_argument("--rate", help="what each may send, as tc writes it: 1gbit; not limited by default")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command …")
    options = parser.parse_args()
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        parser.error("the command is missing")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the hosts go then, too
    with Network(options.hosts, options.rate) as network:
        environment = {**os.environ, **network.environment()}
        return subprocess.run(network.command(network.hosts[0], words), env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoNamespacesError as error:
        sys.exit(f"no hosts can be made: {error}")
