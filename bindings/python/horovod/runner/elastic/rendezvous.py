"""Horovod's name for :mod:`horovod.runner.compat.rendezvous`, and the same module."""

import sys

from horovod.runner.compat import rendezvous
from horovod.runner.compat.rendezvous import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = rendezvous
