"""The arguments of the methods of torch's process groups: overloads, reductions, and lists that must fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from horovod.common.basics import Average, Max, Min, Product, Sum

_Op = dist.ReduceOp.RedOpType

# By torch's number of a reduction, which takes a tenth of the time that comparing it does. What the engine carries out:
ENGINE_OPS = {
    op.value: ours
    for op, ours in (
        (_Op.SUM, Sum),
        (_Op.AVG, Average),
        (_Op.MIN, Min),
        (_Op.MAX, Max),
        (_Op.PRODUCT, Product),
        (_Op.PREMUL_SUM, Sum),
    )
}
# The fate of two tensors of one rank, or of two:
FOLDS: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    op.value: fold
    for op, fold in (
        (_Op.BAND, torch.bitwise_and),
        (_Op.BOR, torch.bitwise_or),
        (_Op.BXOR, torch.bitwise_xor),
        (_Op.SUM, torch.add),
        (_Op.MIN, torch.minimum),
        (_Op.MAX, torch.maximum),
        (_Op.PRODUCT, torch.mul),
    )
}
_NAMES = {op.value: op.name for op in _Op.__members__.values()}
_SUMS = (Sum, Average)


def is_sum(kind: int) -> bool:
    """Tell whether a reduction adds."""
    return ENGINE_OPS.get(kind) in _SUMS


def name_of(kind: int) -> str:
    """Return torch's name of a reduction."""
    return _NAMES[kind]


def require(holds: bool, text: str) -> None:
    """Raise RuntimeError, as torch's own backends do, unless something holds."""
    if not holds:
        raise RuntimeError(text)


def reduction_of(options: Any, tensors: Sequence[Tensor]) -> tuple[int, float]:
    """Return the number of torch's reduction, and what each value is multiplied by before it."""
    kind = hash(options.reduceOp)
    if kind not in ENGINE_OPS and tensors[0].is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{_NAMES[kind]} with the non-integral dtype {tensors[0].dtype}.")
    if kind != _Op.PREMUL_SUM.value:
        return kind, 1.0
    factor = options.reduceOp.__getstate__()[1]
    return kind, factor.item() if isinstance(factor, Tensor) else factor


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
    if not named and len(args) == lists + 1 and type(args[lists]) is kind:
        return list(args)
    given = sorted(
        (name for name in named if "ensor" in name or "put" in name or "list" in name),
        key=lambda name: "out" not in name,
    )
    tensors = [*args[:lists], *(named[name] for name in given if "split" not in name)]
    rest = [*args[lists:], *(value for name, value in named.items() if name not in given or "split" in name)]
    options: Any = next((value for value in rest if type(value) is kind), None) or kind()
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


def check_root(what: str, options: Any, size: int, tensors: Sequence[Tensor] = (None,)) -> None:
    """Raise RuntimeError for a root that is no rank of the group, or none of the tensors."""
    if not 0 <= options.rootRank < size:
        raise RuntimeError(f"{what}: invalid root rank: {options.rootRank}")
    root_tensor = getattr(options, "rootTensor", 0)
    if not 0 <= root_tensor < len(tensors):
        raise RuntimeError(f"{what}: invalid root tensor: {root_tensor}")


def check_alike(what: str, tensors: Sequence[Tensor], like: Tensor, same_shape: bool = True) -> None:
    """Raise RuntimeError unless tensors have one dtype, layout and shape."""
    dtype, layout, shape = like.dtype, like.layout, like.shape
    for index, tensor in enumerate(tensors):
        if tensor.layout is not layout:
            layouts = f"expected {layout}, got {tensor.layout}"
            raise RuntimeError(f"{what}: invalid tensor layout at index {index} ({layouts})")
        if tensor.dtype is not dtype:
            raise RuntimeError(f"{what}: invalid tensor type at index {index} (expected {dtype}, got {tensor.dtype})")
        if same_shape and tensor.shape != shape:
            shapes = f"expected {list(like.shape)}, got {list(tensor.shape)}"
            raise RuntimeError(f"{what}: invalid tensor size at index {index} ({shapes})")


def check_lists(what: str, kind: str, lists: Sequence[Sequence[Tensor]], singles: Sequence[Tensor], size: int) -> None:
    """Raise RuntimeError unless there is one tensor, and one list, of inputs or outputs, with as much for each rank."""
    require(
        len(singles) == len(lists) == 1, f"{what}: requires a single-element {kind} list, of a list of {size} tensors"
    )
    count, kind = len(lists[0]), f"{kind} list size"
    wanted = f"{kind.capitalize()} should be {size}, same as size of the process group."
    require(count == size, f"{what}: Incorrect {kind} {count}. {wanted}")
    check_alike(what, lists[0], singles[0])


def check_splits(what: str, splits: Sequence[int], tensor: Tensor, size: int) -> None:
    """Raise RuntimeError unless a tensor's first dimension can be shared out so."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits:
        if rows % size:
            raise RuntimeError(f"{what}: Tensor's dim 0 does not divide equally across group size")
    elif len(splits) != size:
        raise RuntimeError(f"{what}: Number of tensor splits not equal to group size")
    elif sum(splits) != rows or min(splits) < 0:
        raise RuntimeError(f"{what}: Split sizes doesn't match total dim 0 size")
