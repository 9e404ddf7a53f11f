"""Horovod's name for :mod:`horovod.runner.compat.task_fn`, and the same module."""

import sys

from horovod.runner.compat import task_fn
from horovod.runner.compat.task_fn import *  # noqa: F403 (for who reads types)

if __name__ == "__main__":
    task_fn.main(sys.argv[1:])
else:
    sys.modules[__name__] = task_fn
