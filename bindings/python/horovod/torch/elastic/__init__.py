"""Training that goes on after workers fail, leave or come: ``import horovod.torch as hvd; hvd.elastic``."""

from __future__ import annotations

from horovod.common.elastic import Training, run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func: Training) -> Training:
    """Decorate a training function so that it is started again, from the last commit, when a collective fails.

    Parameters
    ----------
    func : callable
        ``func(state, *args, **kwargs)``, where `state` is a :class:`TorchState`.

    Returns
    -------
    callable
        Takes the same arguments; see :func:`horovod.common.elastic.run_fn`.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
