"""How the processes of a job find each other: the engine by torch's store, or torch's store by the engine."""

from __future__ import annotations

import importlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import _roda_torch
import torch.distributed as dist

from horovod import _roda
from horovod.common.basics import HorovodBasics
from horovod.common.mpi_comm import was_launched_by_mpi
from horovod.runner.common.util import secret
from horovod.runner.common.util.hosts import SlotInfo, lay_out
from horovod.runner.gloo_run import create_slot_env_vars
from horovod.runner.util import network

SCHEME = "roda"
_DYNAMIC = "dynamic"
_TIMEOUT = timedelta(minutes=30)  # torch's default

# The rendezvous of an engine that no launcher started; rank 0 keeps it while the process lives.
_server: _roda.RendezvousServer | None = None


def _launcher_knows() -> bool:
    return "HOROVOD_RANK" in os.environ or was_launched_by_mpi()


# --- the engine, from torch's store ---


def start_engine(store: dist.Store, rank: int, size: int) -> None:
    """Start the engine unless it runs: as its launcher says, else by the store; collective.

    Raises
    ------
    ValueError
        When torch and the launcher disagree on this process's rank or the number of ranks.
    """
    basics = HorovodBasics()
    if not _roda.is_initialized():
        if not _launcher_knows() and size > 1:
            _describe_job(store, rank, size)
        basics.init(process_sets=_DYNAMIC)
    if (basics.rank(), basics.size()) != (rank, size):
        raise ValueError(
            f"torch.distributed says that this is rank {rank} of {size}, but the job's launcher says rank "
            f"{basics.rank()} of {basics.size()}. Leave RANK and WORLD_SIZE unset, or give the same numbers."
        )


def _describe_job(store: dist.Store, rank: int, size: int) -> None:
    """Set the variables that a launcher of ours would set."""
    store.set(f"roda/host/{rank}", _host_identity())
    if rank == 0:
        hosts = [store.get(f"roda/host/{other}").decode() for other in range(size)]
        slots = [asdict(slot) for slot in lay_out(hosts)]
        store.set("roda/job", json.dumps({**_serve(single_host=len(set(hosts)) == 1), "slots": slots}))
    job = json.loads(store.get("roda/job"))
    numbers = create_slot_env_vars(SlotInfo(**job["slots"][rank]))
    del numbers["HOROVOD_HOSTNAME"]  # the engine finds it
    os.environ.update(numbers)
    os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = job["address"]
    os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(job["port"])
    secret.hand_over(bytes.fromhex(job["secret"]))


def _host_identity() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"


def _serve(single_host: bool) -> dict[str, Any]:
    global _server
    master = None if single_host else os.environ.get("MASTER_ADDR", "").strip("[]") or socket.gethostname()
    address = network.loopback_address() if master is None else network.resolve_host_address(master)
    if address is None:
        raise RuntimeError(f"the name of this host, {master}, does not resolve: set MASTER_ADDR to its address")
    key = secret.make_secret_key()
    _server = _roda.RendezvousServer(address, 0, key)
    return {"address": address, "port": _server.port, "secret": key.hex()}


# --- torch's store, from the engine ---


def _own_address(basics: HorovodBasics) -> str:
    if basics.local_size() == basics.size():
        return network.loopback_address()
    launcher = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    return network.outward_address() if launcher is None else network.address_towards(launcher)


def _make_store(basics: HorovodBasics, timeout: timedelta) -> dist.Store:
    from horovod.torch.functions import broadcast_object

    place, server = None, None
    if basics.rank() == 0:
        listener = network.listen(_own_address(basics))  # not on all interfaces, as the store itself would
        place = listener.getsockname()[:2]
        server = dist.TCPStore(
            *place, basics.size(), True, timeout, wait_for_workers=False, master_listen_fd=listener.detach()
        )
    host, port = broadcast_object(place, name="torch.distributed.store")
    return server or dist.TCPStore(host, port, basics.size(), False, timeout)


def _by_engine(basics: HorovodBasics, timeout: timedelta) -> tuple[dist.Store, int, int]:
    if not _roda.is_initialized():
        basics.init(process_sets=_DYNAMIC)
    return _make_store(basics, timeout), basics.rank(), basics.size()


def _numbers_are_the_engines(url: str) -> bool:
    """Tell whether what torch is given is what the engine knows by itself: nothing, or horovodrun's numbers."""
    given = parse_qs(urlsplit(url).query)
    rank = given.get("rank", [os.environ.get("RANK")])[0]
    size = given.get("world_size", [os.environ.get("WORLD_SIZE")])[0]
    if rank is None:  # without a launcher, and with nobody to join, it is a job of one
        return bool(_roda.launcher()) or (size in (None, "1") and _roda_torch.is_asked_for())
    return (rank, size) == (os.environ.get("HOROVOD_RANK"), os.environ.get("HOROVOD_SIZE"))


def register(basics: HorovodBasics) -> None:
    """Add the method ``roda://``, and let ``env://`` use it where the engine knows the job; once."""
    torch_rendezvous = importlib.import_module("torch.distributed.rendezvous")
    # torch offers no other way to say what env:// does; without this table only roda:// works under horovodrun.
    handlers: dict[str, Callable[..., Iterator[Any]]] = getattr(torch_rendezvous, "_rendezvous_handlers", {})
    if SCHEME in handlers:
        return

    def by_engine(_: str, timeout: timedelta = _TIMEOUT, **__: Any) -> Iterator[Any]:
        yield _by_engine(basics, timeout)
        raise RuntimeError("A store that was made by roda:// cannot be made anew.")

    torch_rendezvous.register_rendezvous_handler(SCHEME, by_engine)
    by_environment = handlers.get("env")
    if by_environment is None:
        return

    def env(url: str, **options: Any) -> Iterator[Any]:
        return (by_engine if _numbers_are_the_engines(url) else by_environment)(url, **options)

    handlers["env"] = env
