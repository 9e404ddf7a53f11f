"""Exceptions that user code catches."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed on the ranks together: they disagreed, a peer died, or the engine was shut down.

    Elastic mode answers it with a reset. An in-place output is undefined afterwards.

    Attributes
    ----------
    lost_rank : int or None
        The rank that does not answer, where that is the cause.
    """

    lost_rank: int | None = None


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts of an elastic job changed.

    Parameters
    ----------
    skip_sync : bool
        True when hosts were only removed, so that the state of the survivors needs no synchronisation.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Return what a :class:`HorovodVersionMismatchError` says."""
    return f"{name} {version} was expected, but {installed_version} is installed."


class HorovodVersionMismatchError(ImportError):
    """A framework's version differs from the one that a binding was built for.

    Roda's bindings compile against no framework and never raise it; the name is kept for code that catches it.
    """

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
