"""Horovod's name for :mod:`horovod.runner.compat.safe_shell_exec`, and the same module."""

import sys

from horovod.runner.compat import safe_shell_exec
from horovod.runner.compat.safe_shell_exec import *  # noqa: F403 (for who reads types)

sys.modules[__name__] = safe_shell_exec
