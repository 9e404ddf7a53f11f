"""A name of this host that differs between containers on one machine."""

from __future__ import annotations

import glob
import hashlib
import os
import socket


def _hash(string: str) -> str:
    return hashlib.md5(string.encode(), usedforsecurity=False).hexdigest()


def _namespaces() -> str:
    links = []
    for path in sorted(glob.glob("/proc/self/ns/*")):
        try:
            links.append(os.readlink(path))
        except OSError:
            links.append("")  # it may be hidden
    return " ".join(links)


def host_hash(salt: str | None = None) -> str:
    """Return the same text in all processes that share a host, its namespaces and CONTAINER_ID.

    Parameters
    ----------
    salt : str, optional
        Makes hosts of one machine differ.
    """
    hostname = socket.gethostname()
    parts = [hostname, _namespaces(), os.environ.get("CONTAINER_ID", ""), salt or ""]
    return f"{hostname.split('.')[0]}-{_hash(chr(0).join(parts))}"
