"""Puts values into a :class:`horovod.runner.http.http_server.KVStoreServer`, and gets them."""

from __future__ import annotations

import hmac
import urllib.error
import urllib.request
from typing import Any

import cloudpickle

from horovod.runner.http import get_secret

DIGEST_HEADER = "X-Horovod-Digest"
_SECONDS = 60.0


def digest(secret: bytes, method: str, path: str, body: bytes) -> str:
    """Return what proves that whoever wrote a request or an answer knows the secret."""
    return hmac.digest(secret, f"{method} {path}\n".encode() + body, "sha256").hex()


def _ask(method: str, addr: str, port: int, path: str, body: bytes) -> bytes:
    secret = get_secret()
    request = urllib.request.Request(  # noqa: S310 (http alone)
        f"http://{addr}:{port}{path}",
        data=body if method == "PUT" else None,
        method=method,
        headers={DIGEST_HEADER: digest(secret, method, path, body)},
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_SECONDS) as answer:
            data, proof = answer.read(), answer.headers.get(DIGEST_HEADER, "")
    except (urllib.error.URLError, OSError) as error:
        raise RuntimeError(f"{method} {path} at the KVStore server {addr}:{port} failed: {error}") from error
    if not hmac.compare_digest(proof.encode(), digest(secret, f"answer to {method}", path, data).encode()):
        raise RuntimeError(f"What answers at {addr}:{port} does not know this job's secret.")
    return data


def put_data_into_kvstore(addr: str, port: int, scope: str, key: str, value: Any) -> None:
    """Put a value, pickled, under a scope and a key; RuntimeError when that fails."""
    _ask("PUT", addr, port, f"/{scope}/{key}", cloudpickle.dumps(value))


def read_data_from_kvstore(addr: str, port: int, scope: str, key: str) -> Any:
    """Return the value under a scope and a key; RuntimeError when there is none."""
    return cloudpickle.loads(_ask("GET", addr, port, f"/{scope}/{key}", b""))
