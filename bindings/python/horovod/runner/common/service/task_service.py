"""Horovod's name for :mod:`horovod.runner.compat.task_service`, and the same module."""

import sys

from horovod.runner.compat import task_service
from horovod.runner.compat.task_service import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = task_service
