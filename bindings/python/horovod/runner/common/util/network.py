"""Horovod's name for :mod:`horovod.runner.compat.network`, and the same module."""

import sys

from horovod.runner.compat import network
from horovod.runner.compat.network import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = network
