"""Bare root file systems of releases of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

LIMIT_S = 900  # debootstrap fetches 100 MB
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

needs_debootstrap = pytest.mark.skipif(
    shutil.which("debootstrap") is None or os.geteuid() != 0, reason="debootstrap is not installed, or this is not root"
)


def make_root(release: str, root: Path) -> None:
    """Python and what pip needs to trust its registry, and nothing else; skips where the release can't be had."""
    packages = "--include=python3,python3-venv,ca-certificates"
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", packages, release, root], capture_output=True, timeout=LIMIT_S, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"debootstrap can't make {release}")
    shutil.copy(CERTIFICATES, root / CERTIFICATES.lstrip("/"))
