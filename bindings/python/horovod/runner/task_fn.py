"""What Horovod's launcher starts on each host to find the interfaces in common. Ours needs no such thing."""

from __future__ import annotations

from horovod.runner.common.util.absent import absent_class

_task_fn = absent_class(
    "horovod.runner.task_fn",
    "Each host finds by itself which of the launcher's addresses answers; --network-interfaces names one.",
)

if __name__ == "__main__":
    _task_fn()
