"""What runs commands on the hosts of Horovod's launcher; ours has agents, which it starts by ssh."""

from __future__ import annotations

from horovod.runner.common.util.absent import absent_class

_INSTEAD = "horovod.run runs functions on hosts; horovod.runner.common.util.network has services to derive from."

BasicTaskService = absent_class("BasicTaskService", _INSTEAD)
BasicTaskClient = absent_class("BasicTaskClient", _INSTEAD)
