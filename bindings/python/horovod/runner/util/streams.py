"""Horovod's name for :mod:`horovod.runner.compat.streams`, and the same module."""

import sys

from horovod.runner.compat import streams
from horovod.runner.compat.streams import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = streams
