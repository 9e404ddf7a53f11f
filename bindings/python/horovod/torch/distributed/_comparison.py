"""What TORCH_DISTRIBUTED_DEBUG=DETAIL adds: ranks tell each other of each collective before they begin it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch
from torch import Tensor

from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops, _tensors


def compare(
    what: str,
    inputs: Sequence[Tensor],
    sequence: int,
    name: str,
    process_set: ProcessSet,
    order: Sequence[int],
    limit: float,
) -> str:
    """Return what does not match of the collectives that a group's ranks are about to begin; "" if all does.

    Parameters
    ----------
    what : str
        The collective.
    inputs : sequence of torch.Tensor
        This rank's tensors.
    sequence : int
        Number of the call.
    name : str
        By which the ranks match what they tell: one for all collectives of a group.
    process_set : ProcessSet
        Of the group.
    order : sequence of int
        The place in the set of each of the group's ranks.
    limit : float
        Seconds for the others to come; TimeoutError after that.
    """
    # To each rank its own: in all_to_all of any shape; in scatter the root has one for each rank.
    alike = [] if what == "all_to_all" else inputs[:1] if what == "scatter" else inputs
    told = {"kind": what.replace("_", "").upper(), "SequenceNumber": sequence}
    told |= {"types": " ".join(tensor.type() for tensor in alike)}
    told |= {"shapes": " ".join(str(list(tensor.shape)) for tensor in alike)}
    told |= {"devices": " ".join(tensor.device.type for tensor in alike)}
    own = torch.frombuffer(bytearray(json.dumps(told).encode() + b"\n"), dtype=torch.uint8)
    everybody = _tensors.run(*_ops.prepare_allgather(own, name, process_set), True, limit)
    lines = bytes(everybody.tolist()).splitlines()
    if len(set(lines)) == 1:
        return ""
    ranks = [json.loads(lines[place]) for place in order]
    wrong = [field for field in told if len({rank[field] for rank in ranks}) > 1]
    who = "; ".join(
        f"rank {rank}: {', '.join(f'{key} {value}' for key, value in one.items() if value)}"
        for rank, one in enumerate(ranks)
    )
    text = f"Detected mismatch between collectives on ranks: {who}"
    return f"{text}. Collectives differ in the following: {', '.join(wrong)}."
