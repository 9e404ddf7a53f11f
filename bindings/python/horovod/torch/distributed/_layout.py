"""How tensors' memory goes to the engine and comes back: strided, in lists, of dtypes that the engine does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from horovod.torch import _tensors
from horovod.torch.distributed._arguments import is_sum, name_of, require

Finish = Callable[[Any], object]  # gets the engine's result and puts it where the caller wants it


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor's memory as a dtype that the engine copies."""
    tensor = tensor.detach()
    if tensor.dtype in _tensors.DTYPES or tensor.layout is not torch.strided:
        return tensor
    return (
        torch.view_as_real(tensor.resolve_conj())
        if tensor.is_complex()
        else tensor.contiguous().view(-1).view(torch.uint8)
    )


def dense(tensor: Tensor) -> Tensor:
    """Return a tensor, or what its values are in, that the engine can change in place."""
    if tensor.is_contiguous() and tensor.dtype in _tensors.DTYPES:
        return tensor
    return plain(tensor).contiguous()


def flattened(tensor: Tensor) -> Tensor:
    """Return a tensor's values in a row."""
    return plain(tensor.contiguous()).view(-1)


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """Return the values of several tensors in a row."""
    return torch.cat([flattened(tensor) for tensor in tensors])


def reordered(flat: Tensor, counts: Sequence[int], order: Sequence[int]) -> Tensor:
    """Return the blocks of `flat`, which have `counts` elements, in another order."""
    if all(place == member for place, member in enumerate(order)):
        return flat
    blocks = flat.split(list(counts))
    return torch.cat([blocks[member] for member in order])


def put(tensor: Tensor, flat: Tensor) -> Tensor:
    """Write a result, which may be fewer elements than there is room for, into a tensor, which may be strided."""
    if flat.data_ptr() == tensor.data_ptr() or not flat.numel():
        return tensor
    flat = flat.view(-1)
    if tensor.is_complex():
        flat = torch.view_as_complex(flat.view(-1, 2))
    elif flat.dtype != tensor.dtype:
        flat = flat.view(tensor.dtype)
    tensor.detach().copy_(flat.view(tensor.shape))
    return tensor


def copy_into(tensor: Tensor, buffer: Tensor) -> Finish | None:
    """Return what writes the result into a tensor; None where it is there already."""
    return None if buffer is tensor else lambda _: put(tensor, buffer)


def size_of(tensor: Tensor) -> int:
    """Return how many elements a tensor has as the engine sees it."""
    return tensor.numel() if tensor.dtype in _tensors.DTYPES else plain(tensor).numel()


def fill(outputs: Sequence[Tensor], flat: Tensor) -> None:
    """Share out a flat result among tensors."""
    begin = 0
    for output in outputs:
        count = size_of(output)
        put(output, flat[begin : begin + count])
        begin += count


def summable(tensor: Tensor, kind: int) -> Tensor:
    """Return a tensor's memory as the engine reduces it: of a complex number's parts, those of a sum are sums."""
    if not tensor.is_complex():
        return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
    require(is_sum(kind), f"all_reduce does not support {name_of(kind)} on complex tensors")
    return torch.view_as_real(tensor.detach().contiguous().resolve_conj())
