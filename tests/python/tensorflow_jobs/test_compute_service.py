"""A job that computes datasets, and one that trains with them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from horovod.runner.common.service.compute_service import ComputeService
from horovod.runner.common.util.network import NoValidAddressesFound
from horovod.runner.common.util.timeout import TimeoutException

TRAIN = """
import sys
import tensorflow as tf
import horovod.tensorflow as hvd
from horovod.tensorflow.data.compute_service import TfDataServiceConfig

hvd.init()
config = TfDataServiceConfig.read(sys.argv[1], wait_for_file_creation=True)
dataset = tf.data.Dataset.range(100).map(lambda x: x * x).batch(5)

def elements(dataset):
    found = [int(x) for batch in dataset for x in batch.numpy()]
    return sorted(x for part in hvd.allgather_object(found) for x in part), found

everything, own = elements(dataset.send_to_data_service(config, hvd.rank(), hvd.size(), reuse_dataset=True))
assert everything == [x * x for x in range(100)], everything  # each on one rank
everything, own = elements(dataset.send_to_data_service(config, hvd.rank()))
assert everything == sorted(2 * [x * x for x in range(100)]), everything  # each rank has its own pass
everything, own = elements(dataset.send_to_data_service(config, hvd.rank(), processing_mode="parallel_epochs"))
assert len(own) == 200 and everything == sorted(4 * [x * x for x in range(100)]), everything
endless = dataset.repeat().send_to_data_service(config, hvd.rank(), hvd.size(), "parallel_epochs", True, True).take(3)
assert len(elements(endless)[1]) == 15
hvd.allgather_object(None)  # all are done
if hvd.rank() == 0:
    config.compute_client().shutdown()
print("trained", hvd.size(), flush=True)
"""


def start(ranks: int, *program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks), sys.executable, *program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_two_jobs(tmp_path: Path) -> None:
    config = tmp_path / "compute.json"
    (tmp_path / "train.py").write_text(TRAIN)
    computing = start(2, "-m", "horovod.tensorflow.data.compute_worker", str(config))
    training = start(2, str(tmp_path / "train.py"), str(config))
    said, _ = training.communicate(timeout=150)
    if training.returncode != 0:
        computing.terminate()
    computed, _ = computing.communicate(timeout=60)
    assert training.returncode == 0, said + computed
    assert said.count("trained 2") == 2, said
    assert computing.returncode == 0, computed
    assert config.stat().st_mode & 0o777 == 0o600


def test_a_dispatcher_on_the_side_that_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf
    from horovod.tensorflow.data.compute_service import (
        TfDataServiceConfig,
        compute_worker_fn,
        send_to_data_service,
        tf_data_service,
    )

    service = ComputeService(1, 1, b"key")
    config = TfDataServiceConfig(1, 1, "training", service.addresses(), b"key", timeout=20)
    config.write(str(tmp_path / "config"))
    assert TfDataServiceConfig.read(str(tmp_path / "config")) == config
    monkeypatch.setenv("HOROVOD_RANK", "0")
    monkeypatch.setenv("HOROVOD_SIZE", "1")
    worker = threading.Thread(target=compute_worker_fn, args=(config,))  # as `horovod.run` calls it, without `init`
    worker.start()
    dataset = tf.data.Dataset.range(10)
    with pytest.raises(RuntimeError, match="dispatchers are on the training side"):
        send_to_data_service(dataset, config, 0)
    with tf_data_service(config, 0) as address:
        sent = dataset.apply(tf.data.experimental.service.distribute("distributed_epoch", service=address))
        assert sorted(int(x) for x in sent) == list(range(10))
        config.compute_client().shutdown()
        worker.join(20)
    service.shutdown()
    assert not worker.is_alive()


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    from horovod.tensorflow.data.compute_service import TfDataServiceConfig, compute_worker_fn, tf_data_service

    (tmp_path / "config").write_text("{}")
    with pytest.raises(ValueError, match="no configuration of a compute service: has no 'dispatchers'"):
        TfDataServiceConfig.read(str(tmp_path / "config"))
    service = ComputeService(2, 1, b"key")
    config = TfDataServiceConfig(2, 1, "compute", service.addresses(), b"key", timeout=1)
    with pytest.raises(ValueError, match="Rank 2 has no dispatcher"), tf_data_service(config, 2):
        pass
    with pytest.raises(ValueError, match="Worker 2 is one too many"):
        compute_worker_fn(config, 2)
    with pytest.raises(TimeoutException, match="dispatcher 1"), tf_data_service(config, 1):
        pass
    with pytest.raises(ValueError, match="compute or training, not 'both'"):
        TfDataServiceConfig(1, 1, "both", service.addresses(), b"key")
    service.shutdown()
    with pytest.raises(NoValidAddressesFound), tf_data_service(config, 0):
        pass
