"""Horovod's name for :mod:`horovod.runner.compat.compute_service`, and the same module."""

import sys

from horovod.runner.compat import compute_service
from horovod.runner.compat.compute_service import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = compute_service
