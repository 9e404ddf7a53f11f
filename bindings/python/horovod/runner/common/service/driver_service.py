"""Horovod's name for :mod:`horovod.runner.compat.driver_service`, and the same module."""

import sys

from horovod.runner.compat import driver_service
from horovod.runner.compat.driver_service import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = driver_service
