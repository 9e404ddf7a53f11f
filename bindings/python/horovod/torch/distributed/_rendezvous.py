"""How the processes of a job find each other: the engine by torch's store, or torch's store by the engine."""

from __future__ import annotations

import importlib
import itertools
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

# Rendezvous of engines that no launcher started; rank 0 keeps them while the process lives.
_servers: list[_roda.RendezvousServer] = []
_is_ours = False  # no launcher has started this process's engine, or will
_generations = itertools.count()  # of default groups
_variables: dict[str, str] = {}  # of the engine's job, as a launcher of ours would set them


def _launcher_knows() -> bool:
    return "HOROVOD_RANK" in os.environ or was_launched_by_mpi()


# --- the engine, from torch's store ---


def start_engine(store: dist.Store, rank: int, size: int) -> None:
    """Start the engine unless it runs: as its launcher says, else by the store; collective.

    Without a launcher an engine with other numbers, of this process or another's, makes way.

    Raises
    ------
    ValueError
        When torch and the launcher disagree on this process's rank or the number of ranks.
    """
    global _is_ours
    basics = HorovodBasics()
    _is_ours = _is_ours or not (_roda.is_initialized() or _launcher_knows())
    if _is_ours:
        _settle(basics, store, rank, size)
    if not _roda.is_initialized():
        basics.init(process_sets=_DYNAMIC)
    if (basics.rank(), basics.size()) != (rank, size):
        raise ValueError(
            f"torch.distributed says that this is rank {rank} of {size}, but the job's launcher says rank "
            f"{basics.rank()} of {basics.size()}. Leave RANK and WORLD_SIZE unset, or give the same numbers."
        )


def _meeting(store: dist.Store, what: str, size: int) -> str:
    """Return a prefix that all ranks get: a store may be met again, and all come to it equally often."""
    return f"{what}/{(store.add(f'{what}/arrivals', 1) - 1) // size}"


def next_generation(store: dist.Store, rank: int, size: int) -> int:
    """Return a number that rank 0 has given to no default group before; collective."""
    generation = next(_generations)
    if size == 1:
        return generation
    key = _meeting(store, "roda/generation", size)
    if rank == 0:
        store.set(key, str(generation))
    return int(store.get(key))


def _settle(basics: HorovodBasics, store: dist.Store, rank: int, size: int) -> None:
    """Keep the engines that run where all are of one job and these numbers; else end them and describe a new one."""
    fits = _roda.is_initialized() and (basics.rank(), basics.size()) == (rank, size)
    job: dict[str, Any] | None = None if fits else {}
    if size > 1:
        prefix = _meeting(store, f"roda/{size}", size)
        present = _variables.get("HOROVOD_GLOO_RENDEZVOUS_PORT") if fits else None
        store.set(f"{prefix}/{rank}", json.dumps([_host_identity(), present]))
        if rank == 0:
            hosts, jobs = zip(*(json.loads(store.get(f"{prefix}/{other}")) for other in range(size)))
            if None in jobs or len(set(jobs)) > 1:
                job = {**_serve(single_host=len(set(hosts)) == 1), "slots": [asdict(slot) for slot in lay_out(hosts)]}
            store.set(f"{prefix}/job", json.dumps(job))
        job = json.loads(store.get(f"{prefix}/job"))
    elif not fits and os.environ.get("WORLD_SIZE", "1") != "1":  # the engine would take torchrun's numbers
        job = {"slots": [asdict(slot) for slot in lay_out([_host_identity()])]}
    if job is None:
        return
    if _roda.is_initialized():
        basics.shutdown()
    for name in _variables:
        os.environ.pop(name, None)
    _variables.clear()
    if job:
        _variables.update(create_slot_env_vars(SlotInfo(**job["slots"][rank])))
        del _variables["HOROVOD_HOSTNAME"]  # the engine finds it
        if "port" in job:
            _variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = job["address"]
            _variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(job["port"])
            secret.hand_over(bytes.fromhex(job["secret"]))
        os.environ.update(_variables)


def _host_identity() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"


def _serve(single_host: bool) -> dict[str, Any]:
    master = None if single_host else os.environ.get("MASTER_ADDR", "").strip("[]") or socket.gethostname()
    address = network.loopback_address() if master is None else network.resolve_host_address(master)
    if address is None:
        raise RuntimeError(f"the name of this host, {master}, does not resolve: set MASTER_ADDR to its address")
    key = secret.make_secret_key()
    _servers.append(_roda.RendezvousServer(address, 0, key))
    return {"address": address, "port": _servers[-1].port, "secret": key.hex()}


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
