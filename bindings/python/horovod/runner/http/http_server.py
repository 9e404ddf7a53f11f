"""Horovod's name for :mod:`horovod.runner.compat.http_server`, and the same module."""

import sys

from horovod.runner.compat import http_server
from horovod.runner.compat.http_server import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = http_server
