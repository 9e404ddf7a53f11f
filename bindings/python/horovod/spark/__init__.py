"""Jobs on a Spark cluster: each rank is in a Spark task.

``run(fn)`` has as many ranks from begin to end; ``run_elastic(fn)`` goes on while tasks come and go.
"""

from __future__ import annotations

from horovod.common.util import require_framework

require_framework("pyspark", "horovod.spark")

from horovod.spark.elastic import run_elastic as run_elastic
from horovod.spark.runner import run as run
