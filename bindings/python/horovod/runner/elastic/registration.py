"""What has become of an elastic job's workers. In ours :class:`horovod.runner.elastic.membership.Membership` knows."""

from __future__ import annotations

from horovod.runner.common.util.absent import absent_class

WorkerStateRegistry = absent_class(
    "WorkerStateRegistry", "horovod.runner.elastic.membership.Membership keeps the workers and decides what follows."
)
