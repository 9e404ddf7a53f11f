"""Jobs on a Spark cluster: each rank is in a Spark task. ``horovod.spark.run(fn)``."""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("pyspark", "horovod.spark")

from horovod.spark.runner import run as run
