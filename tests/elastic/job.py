"""An elastic job of workers (worker.py), its discovery script, and what its workers told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "hosts"))

from network import Network  # noqa: E402

_DISCOVERY = """#!/bin/sh
case $(cat {folder}/mode) in
fail) echo "no answer from the cluster" >&2; exit 1 ;;
hang) sleep 60 ;;
rubbish) head -c 300 /dev/urandom ;;
*) cat {folder}/hosts ;;
esac
"""


class JobError(AssertionError):
    """The job did something else than it should."""


class ElasticJob:
    """A running job; a context manager that leaves nothing behind.

    Parameters
    ----------
    hosts : mapping
        Slots by host, as discovery tells them at first.
    flags : sequence of str
        Of horovodrun.
    network : Network, optional
        Whose first host horovodrun runs on.
    **variables : str
        Of the environment.
    """

    def __init__(self, hosts: Mapping[str, int], *flags: str, network: Network | None = None, **variables: str) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="roda-elastic-")
        self.folder = Path(self._temporary.name)
        (self.folder / "workers").mkdir()
        self._read: dict[str, int] = {}
        self.told: list[dict[str, Any]] = []
        self.set_hosts(hosts)
        self.set_discovery("ok")
        script = self.folder / "discover"
        script.write_text(_DISCOVERY.format(folder=self.folder))
        script.chmod(0o755)
        worker = [sys.executable, str(Path(__file__).parent / "worker.py"), str(self.folder)]
        command = ["horovodrun", "--host-discovery-script", str(script), *flags, *worker]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        if network is not None:
            command = network.command(network.hosts[0], command)
            environment.update(network.environment())
        self.output = (self.folder / "output").open("w+")
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> ElasticJob:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        for pid in self.started():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.output.close()
        self._temporary.cleanup()

    # --- what it is given ---

    def _put(self, name: str, text: str) -> None:
        (self.folder / f"{name}.new").write_text(text)
        (self.folder / f"{name}.new").rename(self.folder / name)

    def set_hosts(self, hosts: Mapping[str, int]) -> None:
        """Have discovery tell these from now on."""
        self._put("hosts", "".join(f"{host}:{slots}\n" for host, slots in hosts.items()))

    def set_discovery(self, mode: str) -> None:
        """Have it fail, hang, print rubbish, or be ok."""
        self._put("mode", mode)

    # --- what it told ---

    def look(self) -> list[dict[str, Any]]:
        """Return what workers told since the last look, in the order of time; JobError for a wrong value."""
        news = []
        for path in (self.folder / "workers").iterdir():
            with path.open() as file:
                file.seek(self._read.get(path.name, 0))
                for line in file:
                    if not line.endswith("\n"):
                        break
                    self._read[path.name] = self._read.get(path.name, 0) + len(line)
                    news.append(json.loads(line))
        news.sort(key=lambda line: line["time"])
        self.told += news
        for line in news:
            if line["what"] == "wrong":
                raise JobError(f"a wrong value: {line}")
        return news

    def started(self) -> list[int]:
        """Return the ids of all processes so far."""
        return [int(path.name) for path in (self.folder / "workers").iterdir()]

    def last(self, *kinds: str) -> dict[int, dict[str, Any]]:
        """Return by process what it told last of these kinds, of those that live."""
        last = {line["pid"]: line for line in self.told if line["what"] in kinds}
        return {pid: line for pid, line in last.items() if is_alive(pid)}

    def text(self) -> str:
        """Return what horovodrun printed."""
        return (self.folder / "output").read_text(errors="replace")

    def wait_for(self, what: str, is_there: Callable[[], Any], seconds: float) -> Any:
        """Return what `is_there` returns once that is true; JobError when the job ends, or the time is over."""
        limit = time.monotonic() + seconds
        while True:
            self.look()
            found = is_there()
            if found:
                return found
            if self._process.poll() is not None:
                raise JobError(f"the job ended with {self._process.returncode} before {what}:\n{self.text()}")
            if time.monotonic() > limit:
                raise JobError(f"not within {seconds:g} s: {what}:\n{self.text()}")
            time.sleep(0.01)

    def wait_until_trained(self, size: int | None, since: float, seconds: float, without: set[int]) -> dict[int, Any]:
        """Wait until all workers but those step on together after that time; return what each told last."""

        def is_there() -> dict[int, Any]:
            now = {pid: line for pid, line in self.last("goes on", "step", "left").items() if pid not in without}
            trained = {pid: line for pid, line in now.items() if line["what"] != "left" and line["time"] > since}
            sizes = {line["size"] for line in trained.values()}
            is_whole = sizes == {len(trained)} and (size is None or size == len(trained))
            return trained if trained and is_whole else {}

        return self.wait_for(f"{size or 'all'} workers train together", is_there, seconds)

    def finish(self, seconds: float) -> int:
        """Have the workers finish; return horovodrun's status."""
        (self.folder / "finish").touch()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise JobError(f"the job does not end:\n{self.text()}") from None


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
