"""Starts tf.data's service in a job of its own.

``horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker FILE``
"""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
from horovod.runner.common.util import secret
from horovod.runner.compat.compute_service import ComputeService
from horovod.tensorflow.data.compute_service import SIDES, TfDataServiceConfig, compute_worker_fn


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int) -> None:
    """Write the configuration on rank 0, and be a worker on every rank until the service is shut down.

    Parameters
    ----------
    dispatchers : int
        How many dispatchers the workers are divided among.
    dispatcher_side : str
        ``compute`` or ``training``.
    configfile : str
        Where the configuration is written, for jobs that train.
    timeout : int
        Seconds.

    Raises
    ------
    ValueError
        When the ranks can't be divided among the dispatchers.
    """
    hvd.init()
    if dispatchers < 1 or hvd.size() % dispatchers != 0:
        raise ValueError(f"{hvd.size()} workers can't be divided among {dispatchers} dispatchers.")
    service, config = None, None
    if hvd.rank() == 0:
        key = secret.make_secret_key()
        workers = hvd.size() // dispatchers
        service = ComputeService(dispatchers, workers, key)
        config = TfDataServiceConfig(dispatchers, workers, dispatcher_side, service.addresses(), key, timeout)
        config.write(configfile)
    try:
        compute_worker_fn(hvd.broadcast_object(config, name="compute_config"))
    finally:
        if service is not None:
            service.shutdown()
    hvd.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="compute_worker", description=__doc__.splitlines()[0])
    parser.add_argument("configfile", help="where the configuration is written, for jobs that train")
    parser.add_argument("--dispatchers", type=int, default=1, help="how many the workers are divided among (1)")
    parser.add_argument(
        "--dispatcher-side", choices=SIDES, default="compute", help="which job starts the dispatchers (compute)"
    )
    parser.add_argument(
        "--timeout", type=int, default=60, help="seconds for which dispatchers and workers are waited for"
    )
    given = parser.parse_args()
    main(given.dispatchers, given.dispatcher_side, given.configfile, given.timeout)
