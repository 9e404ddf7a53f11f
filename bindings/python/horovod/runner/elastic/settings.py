"""The options of an elastic job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod.runner.common.util.settings import Settings
from horovod.runner.elastic.discovery import HostDiscovery


@dataclass
class ElasticSettings(Settings):
    """Options of an elastic job, besides those of every job.

    Attributes
    ----------
    discovery : HostDiscovery
        Says where it may run; asked each second.
    min_num_proc, max_num_proc : int or None
        With how many workers it goes on, at least and at most; by default ``num_proc`` and any number. It starts with
        ``num_proc`` at least.
    elastic_timeout : float
        Seconds to wait for enough slots.
    reset_limit : int or None
        How often workers may form anew.
    cooldown_range : pair of int or None
        Seconds after which a slot that has failed is used again; never without.
    has_fixed_hosts : bool
        Discovery finds the same hosts each time.
    slow_seconds : float or None
        For how long the others wait for a host until slots that are free elsewhere take its place; None: for ever.
    """

    discovery: HostDiscovery | None = None
    min_num_proc: int | None = None
    max_num_proc: int | None = None
    elastic_timeout: float = 600.0
    reset_limit: int | None = None
    cooldown_range: Sequence[int] | None = None
    has_fixed_hosts: bool = False
    slow_seconds: float | None = None
