"""Puts values into a :class:`horovod.runner.compat.http_server.KVStoreServer`, and gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cloudpickle

from horovod.runner.compat.network import BasicClient, NoValidAddressesFound
from horovod.runner.compat.secret import get_secret

STORE_NAME = "KVStore"
_SECONDS = 60.0


@dataclass(frozen=True)
class GetRequest:
    """Asks for a value, pickled; None for none."""

    scope: str
    key: str


@dataclass(frozen=True)
class PutRequest(GetRequest):
    """Leaves a value."""

    value: bytes


def _ask(addr: str, port: int, req: GetRequest) -> bytes | None:
    where = f"/{req.scope}/{req.key} at the KVStore server {addr}:{port}"
    try:
        client = BasicClient(STORE_NAME, {"": [(addr, port)]}, get_secret(), probe_timeout=_SECONDS, attempts=1)
        return client._send(req)  # type: ignore[no-any-return]
    except (OSError, EOFError, NoValidAddressesFound) as error:
        raise RuntimeError(f"{type(req).__name__[:3].upper()} {where} failed: {error}") from error


def put_data_into_kvstore(addr: str, port: int, scope: str, key: str, value: Any) -> None:
    """Put a value, pickled, under a scope and a key; RuntimeError when that fails."""
    _ask(addr, port, PutRequest(scope, key, cloudpickle.dumps(value)))


def read_data_from_kvstore(addr: str, port: int, scope: str, key: str) -> Any:
    """Return the value under a scope and a key; RuntimeError when there is none."""
    value = _ask(addr, port, GetRequest(scope, key))
    if value is None:
        raise RuntimeError(f"GET /{scope}/{key} at the KVStore server {addr}:{port} failed: there is no such value")
    return cloudpickle.loads(value)
