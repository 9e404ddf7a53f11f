"""Runs the job of one trial, and looks for what it leaves behind."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from horovod import _roda
from trials import LINK, Rank, Trial

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hosts"))
from network import WIRE, Network  # noqa: E402

WORKER = Path(__file__).with_name("worker.py")
HANG_SECONDS = 60  # from the job's start; nothing in it needs half of that
TIMEOUTS = {  # seconds; what only time can tell of is told within the first or the last, or their sum
    "HOROVOD_GLOO_TIMEOUT_SECONDS": 6,
    "HOROVOD_ABORT_TIMEOUT_SECONDS": 3,
    "HOROVOD_STALL_CHECK_TIME_SECONDS": 2,
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 4,
}
SHM = "64m"  # of each host
SECRET = "the-secret-of-a-trial-0123456789"  # noqa: S105
MARK = "RODA_FAULTS_TRIAL"  # in every process's environment, to find what is left by
SLOW = f"tc qdisc replace dev {WIRE} root tbf rate 4mbit burst 16kb latency 2s"
_CLONE_NEWNET = 0x40000000


def serve(network: Network | None) -> tuple[_roda.RendezvousServer, str]:
    """Start a rendezvous on the first host; return it with its address."""
    if network is None:
        return _roda.RendezvousServer("127.0.0.1", 0, SECRET.encode()), "127.0.0.1"
    made: list[_roda.RendezvousServer] = []
    host = network.hosts[0]

    def serve_there() -> None:  # a socket belongs to the namespace of the thread that makes it
        with Path(f"/run/netns/{host.namespace}").open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET) == 0:
                made.append(_roda.RendezvousServer(host.address, 0, SECRET.encode()))

    thread = threading.Thread(target=serve_there)
    thread.start()
    thread.join()
    return made[0], host.address


class Job:
    """The processes of one trial."""

    def __init__(self, trial: Trial, network: Network | None) -> None:
        self.trial = trial
        self._network = network
        self._folder = Path(tempfile.mkdtemp(prefix="roda-faults-"))
        self._mark = f"{os.getpid()}-{trial.number}-{time.monotonic_ns()}"
        self._hosts: list[subprocess.Popen[bytes]] = []
        self._server: _roda.RendezvousServer | None = None

    def run(self) -> tuple[list[Rank], float | None, list[str]]:
        """Return how all ranks ended, when the fault was met, and what was left behind."""
        trial = self.trial
        facts = {**dataclasses.asdict(trial), "steps": trial.steps, "endless": trial.endless}
        (self._folder / "trial.json").write_text(json.dumps(facts))
        deadline = time.monotonic() + HANG_SECONDS
        try:
            when = self._touch_link() if trial.phase == "launch" else None
            self._start()
            if trial.fault in LINK and trial.phase != "launch":
                self._wait(lambda: all(self._has_told(rank, trial.phase) for rank in range(trial.size)), deadline)
                time.sleep(trial.delay)
                when = self._touch_link()
            (self._folder / "go").touch()
            patient = [rank for rank in range(trial.size) if rank != trial.victim or not trial.endless]
            self._wait(lambda: all(self._status(rank) for rank in patient), deadline)
            if trial.victim >= 0 and trial.phase == "shutdown":  # which may be over before the fault
                self._wait(lambda: self._has_told(trial.victim, "fault"), deadline)
            ranks = [self._rank(rank) for rank in range(trial.size)]
            met = ranks[trial.victim].last("fault") if trial.victim >= 0 else None
            self._end_ranks()
            self._wait(self._has_ended, time.monotonic() + (2 if trial.transport == "mpi" else 10))
            if not self._has_ended() and trial.transport == "mpi":
                self._end_mpirun()
            return ranks, met["time"] if met else when, self._left()
        finally:
            self._close()

    # --- starting ---

    def _start(self) -> None:
        (self._folder / "secret").touch(mode=0o600)
        (self._folder / "secret").write_text(SECRET)
        common = {
            **{name: str(value) for name, value in TIMEOUTS.items()},
            MARK: self._mark, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }  # fmt: skip
        if self.trial.transport != "default":
            common["HOROVOD_CPU_OPERATIONS"] = self.trial.transport
        if self.trial.transport == "mpi":
            self._begin_host(0, self._under_mpirun(common))
            return
        self._server, address = serve(self._network)
        common |= {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": address, "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self._server.port),
            "HOROVOD_CONTROLLER": "gloo", "HOROVOD_SECRET_FILE": str(self._folder / "secret"),
        }  # fmt: skip
        if self._network is None:
            common["HOROVOD_GLOO_IFACE"] = "lo"
        for host in range(self.trial.hosts):
            self._begin_host(host, "\n".join(self._rank_line(rank, common) for rank in self.trial.ranks_on(host)))

    def _rank_line(self, rank: int, common: dict[str, str]) -> str:
        """Return a line of shell that starts a rank and notes its process and its status."""
        trial, host = self.trial, self.trial.host_of(rank)
        mine, other = trial.ranks_on(host), trial.ranks_on(1 - host) if trial.hosts == 2 else []
        local = mine.index(rank)
        variables = {
            **common,
            "HOROVOD_RANK": rank, "HOROVOD_SIZE": trial.size, "HOROVOD_LOCAL_RANK": local,
            "HOROVOD_LOCAL_SIZE": len(mine), "HOROVOD_CROSS_RANK": host if local < len(other) else 0,
            "HOROVOD_CROSS_SIZE": 2 if local < len(other) else 1,
            "HOROVOD_HOSTNAME": self._network.hosts[host].address if self._network else "localhost",
        }  # fmt: skip
        words = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
        return f"( env {words} sh -c {shlex.quote(self._noted(str(rank)))}; echo $? >{self._folder}/status.{rank} ) &"

    def _noted(self, rank: str) -> str:
        command = shlex.join([sys.executable, str(WORKER), str(self._folder)])
        return f"echo $$ >{self._folder}/pid.{rank}; exec {command} >{self._folder}/out.{rank} 2>&1"

    def _under_mpirun(self, common: dict[str, str]) -> str:
        """Return a line of shell that has Open MPI start the ranks, and leave the others alone when one ends."""
        rank = "$OMPI_COMM_WORLD_RANK"
        # On the other host nobody has made it small.
        script = f"mount -o remount,size={SHM} /dev/shm; sh -c {shlex.quote(self._noted(rank))}"
        script += f"; echo $? >{self._folder}/status.{rank}"
        slots = "localhost:4"
        if self._network is not None:
            slots = self._network.host_list(*(len(self.trial.ranks_on(host)) for host in range(2)))
        words = [
            "mpirun.openmpi", "-np", str(self.trial.size), "-H", slots, "--bind-to", "none", "--map-by", "slot",
            "-mca", "orte_enable_recovery", "1", "-mca", "pml", "ob1", "-mca", "btl", "^openib",
            *(("-mca", "oob_tcp_if_include", WIRE, "-mca", "btl_tcp_if_include", WIRE) if self._network else ()),
            *(word for name, value in common.items() for word in ("-x", f"{name}={value}")), "sh", "-c", script,
        ]  # fmt: skip
        return f"{MARK}={self._mark} {shlex.join(words)} >{self._folder}/out.mpirun 2>&1 &"

    def _begin_host(self, host: int, lines: str) -> None:
        """Run shell lines where the host's ranks are to live: it has a /dev/shm and temporary files of its own."""
        temporary = self._folder / f"tmp.{host}"
        temporary.mkdir()
        script = f"""
mount -t tmpfs -o size={SHM} shm /dev/shm
export TMPDIR={temporary}
{lines}
wait
rm -f /dev/shm/filler
ls -A /dev/shm $TMPDIR >{self._folder}/left.{host}
"""
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self._network is not None:
            command = self._network.command(self._network.hosts[host], ["sh", "-c", script])
            environment |= self._network.environment()
        self._hosts.append(
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=(self._folder / f"err.{host}").open("wb"),
            )
        )  # fmt: skip

    # --- watching ---

    def _touch_link(self) -> float | None:
        if self._network is None or self.trial.fault not in LINK:
            return None
        when = time.monotonic()
        if self.trial.fault == "cut link":
            self._network.set_link(self._network.hosts[1], False)
            return when
        for host in self._network.hosts:
            subprocess.run(["ip", "netns", "exec", host.namespace, *SLOW.split()], check=True)  # noqa: S603, S607
        return when

    def _wait(self, is_so: object, deadline: float) -> None:
        while not is_so() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _lines(self, rank: int) -> list[dict]:
        try:
            text = (self._folder / f"told.{rank}").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _has_told(self, rank: int, what: str) -> bool:
        return bool(self._status(rank)) or any(line["what"] == what for line in self._lines(rank))

    def _status(self, rank: int) -> str:
        try:
            return (self._folder / f"status.{rank}").read_text().strip()
        except FileNotFoundError:
            return ""

    def _rank(self, rank: int) -> Rank:
        status = self._status(rank)
        path = self._folder / f"out.{rank}"
        output = path.read_text(errors="replace")[-1500:] if path.exists() else ""
        return Rank(rank, bool(status), status, self._lines(rank), output)

    # --- ending ---

    def _end_ranks(self) -> None:
        """End the ranks that are left: a victim that was stopped, and whoever hangs."""
        for path in self._folder.glob("pid.*"):
            if not self._status(int(path.suffix[1:])):
                self._kill(int(path.read_text() or 0))

    def _has_ended(self) -> bool:
        return all(host.poll() is not None for host in self._hosts)

    def _end_mpirun(self) -> None:
        """End Open MPI's processes, which wait for a host that is cut off, or go on after a rank was killed."""
        for pid in self._processes():
            if Path(f"/proc/{pid}/comm").read_text().strip() in ("orterun", "orted", "mpirun", "mpirun.openmpi"):
                self._kill(pid)
        self._wait(self._has_ended, time.monotonic() + 10)

    @staticmethod
    def _kill(pid: int) -> None:
        if pid > 1:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def _processes(self) -> list[int]:
        """Return the processes that belong to the job."""
        found, mark = [], f"{MARK}={self._mark}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def _left(self) -> list[str]:
        self._wait(lambda: not self._processes(), time.monotonic() + 5)
        left = [f"process {pid}" for pid in self._processes()]
        for host in range(len(self._hosts)):
            path = self._folder / f"left.{host}"
            lines = path.read_text().splitlines() if path.exists() else [f"host {host} did not end"]
            # Open MPI's folder for its own daemons stays where those are killed.
            left += [line for line in lines if line and not line.endswith(":") and not line.startswith("ompi.")]
        return left

    def _close(self) -> None:
        for pid in self._processes():
            self._kill(pid)
        for host in self._hosts:
            host.kill()
            host.wait()
        if self._server is not None:
            self._server.stop()
        if self._network is not None and self.trial.fault == "cut link":
            self._network.set_link(self._network.hosts[1], True)
        if self._network is not None and self.trial.fault == "slow link":
            for host in self._network.hosts:
                command = ["ip", "netns", "exec", host.namespace, "tc", "qdisc", "del", "dev", WIRE, "root"]
                subprocess.run(command, check=False, capture_output=True)  # noqa: S603
        shutil.rmtree(self._folder, ignore_errors=True)
