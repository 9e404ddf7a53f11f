"""Where the tasks of Horovod's launcher register; ours has agents, which it talks to itself."""

from __future__ import annotations

from horovod.runner.common.util.absent import absent_class

_INSTEAD = "horovod.run starts jobs; horovod.runner.common.util.network has services to derive from."

BasicDriverService = absent_class("BasicDriverService", _INSTEAD)
BasicDriverClient = absent_class("BasicDriverClient", _INSTEAD)
