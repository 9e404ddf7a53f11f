"""Horovod's name for :mod:`horovod.runner.compat.http_client`, and the same module."""

import sys

from horovod.runner.compat import http_client
from horovod.runner.compat.http_client import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = http_client
