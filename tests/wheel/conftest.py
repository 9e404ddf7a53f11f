"""The wheel that tools/build_wheels.sh made, or the one that RODA_WHEEL names."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

BUILT = Path(__file__).resolve().parents[2] / "build" / "wheels" / "dist"


def built_wheels() -> list[Path]:
    """Those for this machine's processor."""
    return sorted(BUILT.glob(f"roda_horovod-*{platform.machine()}.whl"))


@pytest.fixture(scope="session")
def wheel() -> Path:
    named = os.environ.get("RODA_WHEEL")
    found = [Path(named)] if named else built_wheels()
    if not found:
        pytest.skip("there is no wheel: tools/build_wheels.sh makes it")
    return found[-1]
