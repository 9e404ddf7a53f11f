"""What TORCH_DISTRIBUTED_DEBUG=DETAIL adds: ranks tell each other of each collective before they begin it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops, _tensors

_SHAPES_DIFFER = ("all_to_all", "scatter")  # rightly


def compare(
    what: str, inputs: Sequence[Tensor], name: str, process_set: ProcessSet, order: Sequence[int], limit: float
) -> None:
    """Raise RuntimeError on all ranks of a group unless they are about to do the same.

    Parameters
    ----------
    what : str
        The collective.
    inputs : sequence of torch.Tensor
        Of this rank; they have the same shapes and dtypes on all.
    name : str
        By which the ranks match what they tell: one for all collectives of a group.
    process_set : ProcessSet
        Of the group.
    order : sequence of int
        The place in the set of each of the group's ranks.
    limit : float
        Seconds for the others to come; TimeoutError after that.
    """
    given = "" if what in _SHAPES_DIFFER else ", ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in inputs)
    own = torch.frombuffer(bytearray(f"{what} {given}\n".encode()), dtype=torch.uint8)
    everybody = _tensors.run(*_ops.prepare_allgather(own, name, process_set), True, limit)
    lines = bytes(everybody.tolist()).decode().splitlines()
    if len(set(lines)) > 1:
        who = "; ".join(f"rank {rank}: {lines[place].strip()}" for rank, place in enumerate(order))
        raise RuntimeError(f"Detected mismatch between collectives on ranks. {who}.")
