"""A Spark cluster of two workers, which count as hosts of their own, and a session on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

HOME = Path(pyspark.__path__[0])
LIMIT_SECONDS = 120


def start(log: Path, words: str, *arguments: str, **variables: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a daemon of Spark; return it and the match of `words` in its log."""
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    with log.open("wb") as file:
        command = [str(HOME / "bin/spark-class"), *arguments]
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (match := re.search(words, log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return process, match[0]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    daemons = []
    try:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        process, address = start(folder / "master.log", r"spark://127.0.0.1:\d+", *master)
        daemons.append(process)
        for name, gpu in (("one", "7"), ("two", "3")):
            found = folder / f"gpus_of_{name}"
            found.write_text(f'#!/bin/sh\necho \'{{"name": "gpu", "addresses": ["{gpu}"]}}\'\n')
            found.chmod(0o755)
            gpus = f"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.discoveryScript={found}"
            worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            where = ["--work-dir", str(folder / name), address]
            log, words = folder / f"{name}.log", "Successfully registered with master"
            daemons.append(start(log, words, *worker, *where, ROLE=name, SPARK_WORKER_OPTS=gpus)[0])
        yield address
    finally:
        for process in daemons:
            process.terminate()
        for process in daemons:
            process.wait(30)


@pytest.fixture(scope="session")
def context(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pyspark.SparkContext]:
    # A container's name makes a host of its own. Spark's daemons would take it for YARN's.
    python = tmp_path_factory.mktemp("python") / "python"
    python.write_text(f'#!/bin/sh\nCONTAINER_ID=$ROLE exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=str(python))
    conf = pyspark.SparkConf().setMaster(cluster).setAppName("tests")
    # Workers inherit nothing of the driver's environment but this.
    conf.setExecutorEnv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    conf.set("spark.executor.memory", "512m").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.task.maxFailures", "3")
    conf.set("spark.executor.resource.gpu.amount", "1").set("spark.task.resource.gpu.amount", "1")
    conf.set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")  # while executors start
    session = pyspark.SparkContext(conf=conf)
    yield session
    session.stop()


@pytest.fixture
def package_missing(context: pyspark.SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors whose Python has no package horovod, wherever that is installed."""
    python = tmp_path / "python"
    (tmp_path / "horovod.py").write_text("raise ModuleNotFoundError(\"No module named 'horovod'\")")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(context, "pythonExec", str(python))
