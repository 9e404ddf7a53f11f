"""What drives an elastic job of Horovod's launcher. Ours is :class:`horovod.runner.elastic.job.ElasticJob`."""

from __future__ import annotations

from horovod.runner.common.util.absent import absent_class
from horovod.runner.elastic.control import DISCOVER_HOSTS_FREQUENCY_SECS as DISCOVER_HOSTS_FREQUENCY_SECS
from horovod.runner.elastic.settings import ElasticSettings

ELASTIC_TIMEOUT_SECS = ElasticSettings.elastic_timeout

ElasticDriver = absent_class(
    "ElasticDriver",
    "horovod.run(..., min_num_proc=...) and horovod.runner.gloo_run.launch_gloo_elastic(command, settings, env) run "
    "elastic jobs on the hosts that any HostDiscovery finds.",
)
