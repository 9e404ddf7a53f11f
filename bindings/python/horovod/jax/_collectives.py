"""The primitive that all collectives are: how it is traced, run, compiled, differentiated and mapped over.

One bind is a group of operations of one kind. Gradients are Horovod's: an allreduce's are reduced as the arrays were;
those of a broadcast and an allgather are averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from horovod import _roda
from horovod.common.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    NOT_INITIALIZED,
    REDUCE,
    REDUCESCATTER,
    Adasum,
    Average,
    Sum,
    bare_request,
)
from horovod.jax import _arrays, _ffi

try:
    from jax.extend.core import Primitive
except ImportError:  # before 0.4.36
    from jax.core import Primitive

_TANGENT, _GRADIENT = ".tangent", ".grad"

collective_p = Primitive("roda_collective")
collective_p.multiple_results = True


def bind(
    arrays: Sequence[Any],
    collective: int,
    name: str,
    process_set: int,
    op: int = Sum,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    rows: tuple[tuple[int, ...], ...] | None = None,
    splits: tuple[int, ...] | None = None,
    received: tuple[int, ...] | None = None,
    wire_format: int = 0,
) -> list[Any]:
    """Run a group of operations, or trace it.

    Parameters
    ----------
    arrays : sequence of arrays
        Not without dimensions where rows are moved.
    collective : int
        Which one.
    name : str
        The name by which the ranks match.
    process_set : int
        Its id.
    op, root, prescale, postscale, wire_format
        Of those collectives that have them.
    rows : tuple of tuple of int, optional
        Of an allgather: how many every rank has of each array. By default all as many as this one, while tracing.
    splits, received : tuple of int, optional
        Of an alltoall: how many rows go to each rank, and come from it. By default equal parts.

    Returns
    -------
    list of arrays
        One for each.
    """
    for array in arrays:
        _arrays.check_dtype(array.dtype, collective in (ALLREDUCE, REDUCE, REDUCESCATTER))
    return collective_p.bind(
        *arrays, collective=collective, name=name, process_set=process_set, op=op, root=root,
        prescale=float(prescale), postscale=float(postscale), rows=rows, splits=splits, received=received,
        wire_format=wire_format,
    )  # fmt: skip


# --- shapes ---


def size_of(process_set: int) -> int:
    """Return the number of a set's members; ValueError where there is no such set."""
    if not _roda.is_initialized():
        raise ValueError(NOT_INITIALIZED)
    size = _roda.process_set_size(process_set)
    if size < 0:
        raise ValueError(f"Process set {process_set} does not exist.")
    return size


def place_in(process_set: int) -> int:
    """Return this rank's place in a set; ValueError where it is not a member."""
    place = _roda.process_set_rank(process_set)
    if place < 0:
        raise ValueError("Process is not part of provided process set.")
    return place


def parts_of(count: int, process_set: int) -> tuple[int, ...]:
    """Return how many of so many rows each rank gets of a reducescatter."""
    size = size_of(process_set)
    rows, rest = divmod(count, size)
    return tuple(rows + (place < rest) for place in range(size))


def _shape_of(params: dict[str, Any], index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    collective, process_set = params["collective"], params["process_set"]
    if collective == ALLGATHER:
        rows = params["rows"]
        return (size_of(process_set) * shape[0] if rows is None else sum(rows[index]), *shape[1:])
    if collective == REDUCESCATTER:
        return (parts_of(shape[0], process_set)[place_in(process_set)], *shape[1:])
    if collective == ALLTOALL and params["received"] is not None:
        return (sum(params["received"]), *shape[1:])
    return shape


@collective_p.def_abstract_eval
def _abstract(*avals: Any, **params: Any) -> list[Any]:
    return [aval.update(shape=_shape_of(params, i, aval.shape)) for i, aval in enumerate(avals)]


# --- running ---


@collective_p.def_impl
def _run(*arrays: Any, **params: Any) -> list[Any]:
    collective = params["collective"]
    if collective == BARRIER:
        _roda.run([bare_request(BARRIER, params["process_set"])])
        return list(arrays)
    fields = {
        key: params[key] for key in ("op", "root", "process_set", "prescale", "postscale", "splits", "wire_format")
    }
    has_shape = collective not in (ALLGATHER, ALLTOALL)
    shapes = [_shape_of(params, i, array.shape) if has_shape else None for i, array in enumerate(arrays)]
    results = _arrays.run(arrays, collective, params["name"], shapes, **fields)
    return list(arrays) if collective == REDUCE and params["root"] != _roda.rank() else results


def _lower(ctx: Any, *operands: Any, rows: Any, received: Any, splits: Any, **params: Any) -> Any:
    del rows, received  # which the shapes tell
    numbers = {key: np.int64(params[key]) for key in ("collective", "op", "root", "process_set", "wire_format")}
    factors = {key: np.float64(params[key]) for key in ("prescale", "postscale")}
    text = "" if splits is None else " ".join(map(str, splits))
    # Results of the operands' shapes lie in the operands' memory, which XLA copies first where the program needs it
    # later: the first touch of new memory would take longer than the collective.
    is_in_place = params["collective"] in (ALLREDUCE, BROADCAST, BARRIER, REDUCE)
    # XLA keeps what has a side effect: it neither drops nor merges nor moves such calls, and runs those of one program
    # one after the other, in an order that is the same on all ranks that run the same program.
    rule = _ffi.lowering(
        has_side_effect=True, operand_output_aliases={i: i for i in range(len(operands))} if is_in_place else None
    )
    return rule(ctx, *operands, name=params["name"], splits=text, **numbers, **factors)


def _lower_for_cuda(ctx: Any, *operands: Any, **params: Any) -> Any:
    if params["collective"] == BARRIER:
        # The GPU comes later to what the host hands it.
        raise NotImplementedError(
            "A function that is compiled for a GPU has no barrier: call it outside of jax.jit, or use an allreduce."
        )
    if not _roda.cuda_usable():
        raise NotImplementedError(
            "Nothing in this installation works on GPUs' memory (roda-info says why), so compiled functions for them "
            f"have no collectives. {_INSTEAD}"
        )
    return _lower(ctx, *operands, **params)


_INSTEAD = (
    "Call the collective outside of jax.jit, or compile for a CPU: with jax.default_device(jax.devices('cpu')[0])."
)


def _refuse(ctx: Any, *_: Any, **__: Any) -> Any:
    platforms = ", ".join(ctx.module_context.platforms)
    raise NotImplementedError(
        f"Compiled functions run horovod.jax's collectives on CPUs and on GPUs of CUDA only, and this one is for "
        f"{platforms}. {_INSTEAD}"
    )


mlir.register_lowering(collective_p, _refuse)
mlir.register_lowering(collective_p, _lower, platform="cpu")
mlir.register_lowering(collective_p, _lower_for_cuda, platform="cuda")


# --- differentiating ---


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    if params["collective"] == REDUCE:
        raise NotImplementedError("A reduce has no gradient: use an allreduce.")
    results = collective_p.bind(*primals, **params)
    active = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    if params["collective"] == ALLGATHER and params["rows"] is None:
        size = size_of(params["process_set"])
        if any(result.shape[0] != size * primal.shape[0] for result, primal in zip(results, primals)):
            raise ValueError(
                "This allgather is differentiated and ranks have different numbers of rows: give them as its argument "
                "rows, on all ranks."
            )
    moved = list(map(_zero_like, results))
    if active:
        rows = params["rows"]
        chosen = {
            **params,
            "name": params["name"] + _TANGENT,
            "rows": None if rows is None else tuple(rows[i] for i in active),
        }
        for i, tangent in zip(active, collective_p.bind(*(tangents[i] for i in active), **chosen)):
            moved[i] = tangent
    return results, moved


def _zero_like(value: Any) -> Any:
    aval = jax.typeof(value) if hasattr(jax, "typeof") else jax.core.get_aval(value)  # which the newest lack
    return ad.Zero(aval.at_least_vspace())


def _transpose(gradients: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
    if all(type(gradient) is ad.Zero for gradient in gradients):
        return [ad.Zero(operand.aval) for operand in operands]
    given = [ad.instantiate_zeros(gradient) for gradient in gradients]
    collective, process_set = params["collective"], params["process_set"]
    name = params["name"].removesuffix(_TANGENT) + _GRADIENT
    if collective == ALLREDUCE:
        return collective_p.bind(*given, **{**params, "name": name})
    if collective == BARRIER:
        return given
    if collective == ALLTOALL:
        back = {"splits": params["received"], "received": params["splits"]}
        return collective_p.bind(*given, **{**params, "name": name, **back})
    if collective == REDUCESCATTER:
        return _transpose_reducescatter(given, operands, name, params)
    averages = bind(given, ALLREDUCE, name, process_set, op=Average)
    if collective == BROADCAST:
        # JAX leaves out what has no use, and all ranks have to take part.
        is_root = _roda.rank() == params["root"]
        return [jnp.where(is_root, average, jnp.zeros_like(average)) for average in averages]
    results = []
    for i, (operand, average) in enumerate(zip(operands, averages)):
        rows = params["rows"][i] if params["rows"] is not None else (operand.aval.shape[0],) * size_of(process_set)
        place = place_in(process_set)
        begin = sum(rows[:place])
        results.append(average[begin : begin + rows[place]])
    return results


def _transpose_reducescatter(
    gradients: Sequence[Any], operands: Sequence[Any], name: str, params: dict[str, Any]
) -> list[Any]:
    process_set = params["process_set"]
    factor = params["prescale"] * params["postscale"]
    if params["op"] == Sum:
        factor *= size_of(process_set)
    rows = tuple(parts_of(operand.aval.shape[0], process_set) for operand in operands)
    scaled = [gradient * jnp.asarray(factor, gradient.dtype) for gradient in gradients]
    return bind(scaled, ALLGATHER, name, process_set, rows=rows)


ad.primitive_jvps[collective_p] = _jvp
ad.primitive_transposes[collective_p] = _transpose


# --- mapping ---


def _batch(arrays: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    """Run one operation on the batch: its axis goes where it does not meet what the collective does."""
    collective = params["collective"]
    if collective == ALLREDUCE and params["op"] == Adasum:
        raise NotImplementedError("An Adasum can't be mapped over by jax.vmap: it weighs whole arrays.")
    if collective in (ALLGATHER, ALLTOALL, REDUCESCATTER):  # which move rows
        arrays = [array if axis is None else jnp.moveaxis(array, axis, 1) for array, axis in zip(arrays, axes)]
        axes = [None if axis is None else 1 for axis in axes]
    return collective_p.bind(*arrays, **params), list(axes)


batching.primitive_batchers[collective_p] = _batch
