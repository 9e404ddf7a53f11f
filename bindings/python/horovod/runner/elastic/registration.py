"""Horovod's name for :mod:`horovod.runner.compat.registration`, and the same module."""

import sys

from horovod.runner.compat import registration
from horovod.runner.compat.registration import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = registration
