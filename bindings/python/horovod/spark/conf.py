"""Pairs for ``SparkConf.setAll``: how often Spark starts failed tasks again, and where.

Spark 3.1 and later know the keys ``spark.blacklist.*`` as ``spark.excludeOnFailure.*``, and take both.
"""

from __future__ import annotations

SPARK_CONF_MAX_INT = str(2**31 - 1)
SPARK_CONF_MAX_INT_MINUS_ONE = str(2**31 - 2)

SPARK_CONF_ALWAYS_RESTART_FAILED_TASK = ("spark.task.maxFailures", SPARK_CONF_MAX_INT)

_LIST = "spark.blacklist"
SPARK_CONF_BLACKLIST_DISABLED = (f"{_LIST}.enabled", "false")
SPARK_CONF_BLACKLIST_ENABLED = (f"{_LIST}.enabled", "true")  # without it, those below say nothing

# An executor in which tasks failed, for other tasks of the stage, and of the application.
SPARK_CONF_REUSE_FAILED_EXECUTOR = (f"{_LIST}.stage.maxFailedTasksPerExecutor", SPARK_CONF_MAX_INT)
SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR = (f"{_LIST}.stage.maxFailedTasksPerExecutor", "1")
SPARK_CONF_REUSE_FAILED_EXECUTOR_IN_APP = (f"{_LIST}.application.maxFailedTasksPerExecutor", SPARK_CONF_MAX_INT)
SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR_IN_APP = (f"{_LIST}.application.maxFailedTasksPerExecutor", "1")

# A node with such executors.
SPARK_CONF_REUSE_FAILING_NODE = (f"{_LIST}.stage.maxFailedExecutorsPerNode", SPARK_CONF_MAX_INT_MINUS_ONE)
SPARK_CONF_DONT_REUSE_FAILING_NODE = (f"{_LIST}.stage.maxFailedExecutorsPerNode", "1")
SPARK_CONF_REUSE_FAILING_NODE_IN_APP = (f"{_LIST}.application.maxFailedExecutorsPerNode", SPARK_CONF_MAX_INT)
SPARK_CONF_DONT_REUSE_FAILING_NODE_IN_APP = (f"{_LIST}.application.maxFailedExecutorsPerNode", "1")

# The executor, or the node, for the task that failed there.
SPARK_CONF_REUSE_EXECUTOR_ALWAYS_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerExecutor", SPARK_CONF_MAX_INT)
SPARK_CONF_REUSE_EXECUTOR_ONCE_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerExecutor", "2")
SPARK_CONF_DONT_REUSE_EXECUTOR_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerExecutor", "1")
SPARK_CONF_REUSE_NODE_ALWAYS_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerNode", SPARK_CONF_MAX_INT_MINUS_ONE)
SPARK_CONF_REUSE_NODE_ONCE_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerNode", "2")
SPARK_CONF_DONT_REUSE_NODE_FOR_SAME_TASK = (f"{_LIST}.task.maxTaskAttemptsPerNode", "1")

SPARK_CONF_DEFAULT_VALUES = {
    "spark.task.maxFailures": "4",
    f"{_LIST}.enabled": "false",
    f"{_LIST}.stage.maxFailedTasksPerExecutor": "2",
    f"{_LIST}.stage.maxFailedExecutorsPerNode": "2",
    f"{_LIST}.task.maxTaskAttemptsPerExecutor": "1",
    f"{_LIST}.task.maxTaskAttemptsPerNode": "2",
    f"{_LIST}.application.maxFailedTasksPerExecutor": "2",
    f"{_LIST}.application.maxFailedExecutorsPerNode": "2",
}
