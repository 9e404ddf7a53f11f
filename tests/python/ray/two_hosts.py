"""Two hosts (tests/hosts/network.py), each with a Ray node of its own, one of which can be lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parents[2] / "hosts"))

from network import Network, NoNamespacesError  # noqa: E402, F401 (for tests)

PORT = 6379
LIMIT = 150  # seconds for what takes some
# A node that says nothing is given up after three seconds, not half a minute; one that starts slowly may take its time.
_SETTINGS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_raylet_start_wait_time_s": str(LIMIT),
}


class RayHosts:
    """The hosts, and what runs on them; a context manager that ends all.

    Parameters
    ----------
    cpus : sequence of int
        Ray's CPUs on each: the head's, and the other's.

    Attributes
    ----------
    address : str
        The head's, with its port.

    Raises
    ------
    NoNamespacesError
        On entry.
    """

    def __init__(self, *cpus: int) -> None:
        self._network = Network(len(cpus))
        self._cpus = cpus
        self._folder = tempfile.TemporaryDirectory(prefix="ray-")  # short: the name of a socket has a limit

    def __enter__(self) -> RayHosts:
        self._network.__enter__()
        head, self._other = self._network.hosts
        self.address = f"{head.address}:{PORT}"
        names = "".join(f"{host.address} {host.name}\n" for host in self._network.hosts)
        Path(self._folder.name, "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        try:
            self._start_node(
                0, "--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", self._folder.name
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._network.__exit__()
        self._folder.cleanup()

    def start(self, host: int, command: Sequence[str], output: IO[str], **variables: str) -> subprocess.Popen[str]:
        """Start a command on a host, where names resolve, and where the nodes' files are its own."""
        folder = self._folder.name
        script = f'mount --bind {folder}/hosts /etc/hosts; [ {host} = 0 ] || mount -t tmpfs own {folder}; exec "$@"'
        return subprocess.Popen(
            self._network.command(self._network.hosts[host], ["sh", "-ec", script, "sh", *command]),
            env={**os.environ, **_SETTINGS, **variables}, text=True, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _start_node(self, host: int, *options: str) -> None:
        ray = Path(sys.executable).parent / "ray"
        address = self._network.hosts[host].address
        command = [
            str(ray), "start", "--block", "--node-ip-address", address, "--num-cpus", str(self._cpus[host]), *options
        ]  # fmt: skip
        said = Path(self._folder.name, f"said{host}")
        with said.open("w") as output:
            process = self.start(host, command, output)
        wait_until(lambda: "Ray runtime started" in said.read_text(), process, said)

    def join(self) -> None:
        """Start the other host's node."""
        self._network.set_link(self._other, True)
        self._start_node(1, "--address", self.address)

    def lose(self) -> None:
        """Pull the other host's cable, so that nobody hears of its end, and kill all on it."""
        self._network.set_link(self._other, False)
        self._network.kill_all(self._other)


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str], said: Path) -> None:
    """Wait until something is so because of a process, which has not ended then."""
    limit = time.monotonic() + LIMIT
    while not is_so():
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < limit, said.read_text()
        time.sleep(0.05)
