"""What LSF says of the job that this process is in."""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections import Counter
from typing import Any

import yaml

from horovod import child
from horovod.runner.util import network
from horovod.runner.util.remote import get_remote_command

# IBM's Cluster System Management, beside LSF on machines with jsrun: knows what is in the hosts.
_ALLOCATION_QUERY = "/opt/ibm/csm/bin/csm_allocation_query"
_NODE_QUERY = "/opt/ibm/csm/bin/csm_node_attributes_query"
_ANSWER_SECONDS = 60.0


def _ask(command: str) -> str | None:
    done = child.run(["sh", "-c", command], _ANSWER_SECONDS, may_ask=True)
    return done.stdout if done.status == 0 else None


@functools.cache
def _ask_csm(command: str) -> dict[str, Any]:
    """Return what a query of CSM prints; nothing where there is no CSM."""
    if not os.access(shlex.split(command)[0], os.X_OK):
        return {}
    text = _ask(command)
    if text is None:
        raise RuntimeError(f"LSF: `{command}` failed. Name the hosts with -H, and -np.")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RuntimeError(f"LSF: what `{command}` prints is no YAML: {str(error).splitlines()[0]}") from None
    return found if isinstance(found, dict) else {}


def _slots_of_variables() -> dict[str, int]:
    """Return the slots by host that LSF put into variables."""
    words = os.environ.get("LSB_MCPU_HOSTS", "").split()
    if words:
        return {host: int(slots) for host, slots in zip(words[::2], words[1::2])}
    path = os.environ.get("LSB_DJOB_HOSTFILE")
    if path is not None and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return dict(Counter(file.read().split()))
    return dict(Counter(os.environ.get("LSB_HOSTS", "").split()))


class LSFUtils:
    """Questions about the LSF job around this process."""

    @staticmethod
    def using_lsf() -> bool:
        """Tell whether this process is in a job of LSF."""
        return "LSB_JOBID" in os.environ

    @staticmethod
    def get_compute_hosts_and_slots() -> dict[str, int]:
        """Return how many processes go on each host: as many as it has GPUs by CSM, else slots by LSF.

        Raises
        ------
        RuntimeError
            When nobody says which hosts there are.
        """
        query = _ask_csm(f"{_ALLOCATION_QUERY} -j {shlex.quote(os.environ.get('LSB_JOBID', ''))}")
        hosts = query.get("compute_nodes") or []
        slots = _slots_of_variables()
        if hosts:
            gpus = LSFUtils.get_num_gpus(hosts[0])
            return {host: gpus or slots.get(host, 1) for host in hosts}
        if not slots:
            raise RuntimeError(
                "LSF: none of LSB_MCPU_HOSTS, LSB_DJOB_HOSTFILE and LSB_HOSTS says which hosts this job has: name "
                "them with -H"
            )
        first, *others = slots
        is_launch_node = others and slots[first] == 1 and min(slots[host] for host in others) > 1
        return {host: slots[host] for host in others} if is_launch_node else slots

    @staticmethod
    def get_compute_hosts() -> list[str]:
        """Return the hosts that processes may run on, without the one that only launches."""
        return list(LSFUtils.get_compute_hosts_and_slots())

    @staticmethod
    def get_num_processes() -> int:
        """Return how many processes the job has room for."""
        return sum(LSFUtils.get_compute_hosts_and_slots().values())

    @staticmethod
    def get_num_gpus(host: str | None = None) -> int:
        """Return the GPUs of a compute host, by default the first; 0 where there is no CSM to say it."""
        if host is None:
            host = LSFUtils.get_compute_hosts()[0]
        record = _ask_csm(f"{_NODE_QUERY} -n {shlex.quote(host)}").get("Record_1") or {}
        return int(record.get("discovered_gpus", 0))

    @staticmethod
    def get_num_cores(host: str | None = None) -> int:
        """Return the cores of a compute host, by default the first."""
        topology = _topology_of(host or LSFUtils.get_compute_hosts()[0])
        return topology["Socket(s)"] * topology["Core(s) per socket"]

    @staticmethod
    def get_num_threads(host: str | None = None) -> int:
        """Return the hardware threads of a core of a compute host, by default the first."""
        return _topology_of(host or LSFUtils.get_compute_hosts()[0])["Thread(s) per core"]


@functools.cache
def _topology_of(host: str) -> dict[str, int]:
    command = "LC_ALL=C lscpu"
    if network.filter_local_addresses([host]):
        command = get_remote_command(shlex.quote(command), host, timeout_s=10)
    text = _ask(command) or ""
    found = {name: int(number) for name, number in re.findall(r"^([^:\n]+):\s+(\d+)$", text, re.MULTILINE)}
    missing = {"Socket(s)", "Core(s) per socket", "Thread(s) per core"} - found.keys()
    if missing:
        raise RuntimeError(
            f"LSF: `{command}` does not tell the cores of {host}. Give jsrun its resource sets by "
            '--binding-args="-n 8 -a 1 -c 7 -g 1", or the like.'
        )
    return found
