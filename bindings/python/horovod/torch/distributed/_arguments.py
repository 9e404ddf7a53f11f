"""What the methods of torch's process groups take: overloads, reductions, and lists that must fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from horovod.common.basics import Average, Max, Min, Product, Sum

Tensor = torch.Tensor
_Op = dist.ReduceOp.RedOpType

# What the engine carries out.
ENGINE_OPS: dict[Any, int] = {
    _Op.SUM: Sum,
    _Op.AVG: Average,
    _Op.MIN: Min,
    _Op.MAX: Max,
    _Op.PRODUCT: Product,
    _Op.PREMUL_SUM: Sum,
}
# What two tensors of one rank, or of two, become.
FOLDS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    _Op.BAND: torch.bitwise_and,
    _Op.BOR: torch.bitwise_or,
    _Op.BXOR: torch.bitwise_xor,
    _Op.SUM: torch.add,
    _Op.MIN: torch.minimum,
    _Op.MAX: torch.maximum,
    _Op.PRODUCT: torch.mul,
}
_OF_INTEGERS = (_Op.BAND, _Op.BOR, _Op.BXOR)


def require(holds: bool, text: str) -> None:
    """Raise RuntimeError, as torch's own backends do, unless something holds."""
    if not holds:
        raise RuntimeError(text)


def reduction_of(options: Any, tensors: Sequence[Tensor]) -> tuple[Any, float]:
    """Return the kind of torch's reduction, and what each value is multiplied by before it."""
    kind, factor = options.reduceOp.__getstate__()
    first = tensors[0]
    if kind in _OF_INTEGERS and first.is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with the non-integral dtype {first.dtype}.")
    if isinstance(factor, Tensor):
        factor = factor.item()
    return kind, 1.0 if factor is None else factor


def read(kind: type, args: Sequence[Any], named: dict[str, Any], lists: int = 1) -> list[Any]:
    """Return the tensors' arguments and torch's options of `kind`, from what any of its overloads takes.

    Parameters
    ----------
    kind : type
        Of the options.
    args, named : sequence, dict
        As the method was called.
    lists : int
        How many arguments hold tensors, outputs before inputs; a single tensor becomes a list of one, and what stands
        beside it, for the ranks, a list of that list.
    """
    given = sorted(
        (name for name in named if "ensor" in name or "put" in name or "list" in name),
        key=lambda name: "out" not in name,
    )
    tensors = [*args[:lists], *(named[name] for name in given if "split" not in name)]
    rest = [*args[lists:], *(value for name, value in named.items() if name not in given or "split" in name)]
    options = next((value for value in rest if type(value) is kind), None) or kind()
    for value in rest:
        if isinstance(value, timedelta):
            options.timeout = value
        elif isinstance(value, int):
            options.rootRank = value
        elif isinstance(value, (dist.ReduceOp, _Op)):
            options.reduceOp = value
    if any(isinstance(value, Tensor) for value in tensors):
        tensors = [[value] for value in tensors]
    return [*tensors, options]


def check_root(what: str, options: Any, size: int, tensors: Sequence[Tensor] = (None,)) -> None:  # type: ignore[assignment]
    """Raise RuntimeError for a root that is no rank of the group, or none of the tensors."""
    require(0 <= options.rootRank < size, f"{what}: invalid root rank: {options.rootRank}")
    root_tensor = getattr(options, "rootTensor", 0)
    require(0 <= root_tensor < len(tensors), f"{what}: invalid root tensor: {root_tensor}")


def check_alike(what: str, tensors: Sequence[Tensor], like: Tensor, same_shape: bool = True) -> None:
    """Raise RuntimeError unless tensors have one dtype, layout and shape."""
    for index, tensor in enumerate(tensors):
        if tensor.dtype != like.dtype or tensor.layout != like.layout:
            kinds = f"expected {like.dtype} {like.layout}, got {tensor.dtype} {tensor.layout}"
            raise RuntimeError(f"{what}: invalid tensor type at index {index} ({kinds})")
        if same_shape and tensor.shape != like.shape:
            shapes = f"expected {list(like.shape)}, got {list(tensor.shape)}"
            raise RuntimeError(f"{what}: invalid tensor size at index {index} ({shapes})")


def check_lists(what: str, lists: Sequence[Sequence[Tensor]], singles: Sequence[Tensor], size: int) -> None:
    """Raise RuntimeError unless there is one tensor, and one list with as much for each rank."""
    require(len(singles) == 1, f"{what}: requires a single-element tensor list, got {len(singles)} tensors")
    require(len(lists) == 1, f"{what}: requires a single-element list containing a list with {size} tensors")
    count = len(lists[0])
    require(count == size, f"{what}: Incorrect list size {count}. It should be {size}, the size of the process group.")
    check_alike(what, lists[0], singles[0])


def check_splits(what: str, splits: Sequence[int], tensor: Tensor, size: int) -> None:
    """Raise RuntimeError unless a tensor's first dimension can be shared out so."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits:
        require(rows % size == 0, f"{what}: Tensor's dim 0 does not divide equally across group size")
        return
    require(len(splits) == size, f"{what}: Number of tensor splits not equal to group size")
    require(sum(splits) == rows and min(splits) >= 0, f"{what}: Split sizes doesn't match total dim 0 size")
