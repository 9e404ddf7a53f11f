"""Horovod's name for :mod:`horovod.runner.compat.driver`, and the same module."""

import sys

from horovod.runner.compat import driver
from horovod.runner.compat.driver import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = driver
