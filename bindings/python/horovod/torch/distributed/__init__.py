"""The ``torch.distributed`` backend ``roda``: ``torch.distributed.init_process_group("roda")``.

``_roda_torch`` registers it when torch is imported, and importing ``horovod.torch`` does where that has not happened.
``docs/python.md`` says what it offers and how a program is started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _roda_torch
import torch
import torch.distributed as dist
from _roda_torch import replace_gloo as replace_gloo

from horovod.common.basics import HorovodBasics
from horovod.common.compression import WireCompressor
from horovod.common.process_sets import global_process_set
from horovod.torch.distributed import _rendezvous

_generation = 0  # of the default group


def create_group(options: Any, _: Any) -> dist.ProcessGroup:
    """Return a process group as torch describes it; the first, which has every rank, starts the engine."""
    from horovod.torch.distributed import _process_group, _sets

    global _generation
    name, rank, ranks = options.group_id, options.group_rank, list(options.global_ranks_in_group)
    world = dist.group.WORLD if dist.is_initialized() else None
    if world is None or not (isinstance(world, _process_group.RodaProcessGroup) or _sets.serves(world)):
        everybody = list(range(options.group_size if world is None else world.size()))
        if world is not None and ranks != everybody:
            raise ValueError(
                f"The job's default group is of another backend, and a group of the ranks {ranks} cannot start the "
                'engine: call torch.distributed.new_group(backend="roda"), of all ranks, once before.'
            )
        _rendezvous.start_engine(options.store, rank, options.group_size)
        _sets.open_registrar(options.store, rank, options.group_size, world)
        _generation = _rendezvous.next_generation(options.store, rank, options.group_size)
        ranks, process_set = everybody, global_process_set
    else:
        process_set = _sets.set_for(ranks, name, rank == 0, options.timeout)
    return _process_group.RodaProcessGroup(name, rank, ranks, process_set, options.store, options.timeout, _generation)


def register() -> None:
    """Make the backend known to torch, and the ways by which a job's processes find each other."""
    _roda_torch.register()
    if dist.is_available():
        _rendezvous.register(HorovodBasics())


def wire_format_hook(compression: type[WireCompressor]) -> Callable[..., torch.futures.Future[torch.Tensor]]:
    """Return a hook of DistributedDataParallel that averages gradients by messages in a wire format.

    Parameters
    ----------
    compression : WireCompressor
        ``hvd.Compression.int8``, ``int4``, ``fp8`` or ``bf16_wire``.

    Returns
    -------
    callable
        For ``model.register_comm_hook(group, hook)``: the model's group, or None for the default one.

    Raises
    ------
    TypeError
        For anything else, casts among it.
    """
    wire_format = _format_of(compression)

    def average(group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        work = (group or dist.group.WORLD).average(bucket.buffer(), wire_format)
        return work.get_future().then(lambda future: future.value()[0])

    average.__annotations__.clear()  # torch compares those that there are with its classes
    return average


class WireFormatReduceScatter:
    """Reduces and scatters the gradients of an FSDP2 module by messages in a wire format.

    For ``module.set_custom_reduce_scatter()`` of each module that ``fully_shard`` was applied to, in groups of this
    backend. What is gathered, the parameters, stays exact.

    Parameters
    ----------
    compression : WireCompressor
        ``hvd.Compression.int8``, ``int4``, ``fp8`` or ``bf16_wire``.

    Raises
    ------
    TypeError
        For anything else, casts among it: ``MixedPrecisionPolicy(reduce_dtype=)`` has those.
    """

    def __init__(self, compression: type[WireCompressor]) -> None:
        self._wire_format = _format_of(compression)

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return memory for an input or output."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduce and scatter; return the work that is under way, or None when it is over."""
        options = dist.ReduceScatterOptions()
        options.reduceOp = op
        work = group._reduce_scatter_base(output_tensor, input_tensor, options, self._wire_format)
        if not async_op:
            work.wait()
        return work if async_op else None


def _format_of(compression: type[WireCompressor]) -> int:
    if not (isinstance(compression, type) and issubclass(compression, WireCompressor)):
        raise TypeError(
            f"wire formats are hvd.Compression.int8, int4, fp8 or bf16_wire, not {compression!r}; for casts torch has "
            "hooks of its own (torch.distributed.algorithms.ddp_comm_hooks) and MixedPrecisionPolicy"
        )
    return compression.wire_format
