"""Horovod's release whose interfaces this package has, and Roda's own release."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

__version__ = "0.28.1"  # exactly: programs compare it
roda_version = "0.1.0"


def add_version(parser: ArgumentParser) -> None:
    """Give a tool of Roda's the option ``--version``."""
    parser.add_argument("--version", action="version", version=f"Roda {roda_version}", help="print Roda's version")
