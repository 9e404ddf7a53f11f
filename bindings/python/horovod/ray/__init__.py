"""Jobs on a Ray cluster: each worker is an actor. ``from horovod.ray import RayExecutor``."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("ray", "horovod.ray")

from horovod.ray.elastic import ElasticRayExecutor as ElasticRayExecutor
from horovod.ray.runner import RayExecutor as RayExecutor
from horovod.ray.worker import BaseHorovodWorker as BaseHorovodWorker
