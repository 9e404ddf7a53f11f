"""Where the parts of this installation lie."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from horovod.conflict import DISTRIBUTION

PACKAGE = Path(__file__).parent


def headers_folder() -> Path | None:
    """Return the folder of the installed headers; None when they were not installed."""
    for file in metadata.files(DISTRIBUTION) or ():
        if not file.match("roda/abi/types.h"):
            continue
        parts = (part for part in file.parts if part != "..")
        below = PACKAGE.parent.joinpath(*parts)  # pip install --target
        return (below if below.exists() else Path(file.locate()).resolve()).parents[2]
    return None


def users_folder() -> Path:
    """Return where plugins of this user lie (``plugins/loader/loader.cc`` looks there)."""
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "roda" / "plugins"
