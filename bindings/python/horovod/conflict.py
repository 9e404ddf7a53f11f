"""Horovod itself in the same folder: its files and ours are then mixed, and neither works."""

from __future__ import annotations

import contextlib
import os


def find_horovod(folder: str) -> str | None:
    """Return the name of Horovod's own metadata in a folder of packages; None when there is none.

    Roda's distribution of that name (``packaging/horovod``) has ``roda`` in its version.
    """
    with contextlib.suppress(OSError):  # a package in an archive is alone there
        for name in os.listdir(folder):
            if name.startswith("horovod-") and name.endswith((".dist-info", ".egg-info")) and "roda" not in name:
                return name
    return None


def check() -> None:
    """Raise ImportError when Horovod is installed where this package is; the text has the line that mends it."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    other = find_horovod(folder)
    if other is not None:
        raise ImportError(
            f"Horovod is installed beside Roda ({os.path.join(folder, other)}), and their files are mixed. "
            "To keep Roda: pip uninstall -y horovod && pip install --force-reinstall --no-deps roda"
        )
