"""A function that all ranks of a job call: on its way to them, and what it returned on its way to the caller."""

from __future__ import annotations

import io
import types
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle


def _code_of_file(make: Callable[..., types.CodeType], args: Sequence[Any], file: str) -> types.CodeType:
    return make(*args).replace(co_filename=file)


def _reduced_code(code: types.CodeType) -> tuple[Any, ...]:
    make, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)[:2]
    return _code_of_file, (make, args, code.co_filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps the name of a function's file, which tracebacks have; cloudpickle takes it away since version 3.1."""

    dispatch_table = ChainMap({types.CodeType: _reduced_code}, cloudpickle.Pickler.dispatch_table)


def pickled_call(
    caller: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> bytes:
    """Return a call for ``horovod.runner.run_task``; TypeError where it can't be pickled, with the caller's name."""
    data = io.BytesIO()
    try:
        _Pickler(data).dump((function, tuple(args), dict(kwargs or {})))
    except Exception as error:  # whatever an object's own way of being pickled raises
        raise TypeError(
            f"{caller} can't pickle the function, what it refers to, or its arguments: {error}. Make open files, "
            "locks, connections and the like in the function, on each rank."
        ) from error
    return data.getvalue()


def unpickled_results(results: Mapping[int, bytes], ranks: Sequence[int]) -> list[Any]:
    """Return what these ranks returned; RuntimeError where one has returned nothing, or what can't be unpickled."""
    missing = [rank for rank in ranks if rank not in results]
    if missing:
        raise RuntimeError(
            f"Ranks {missing} ended with status 0 before the function returned: it called sys.exit() or os._exit()."
        )
    return [_unpickled(results[rank], rank) for rank in ranks]


def _unpickled(result: bytes, rank: int) -> Any:
    try:
        return cloudpickle.loads(result)
    except Exception as error:
        raise RuntimeError(
            f"What the function returned on rank {rank} can't be unpickled here: {error!r}. Return plain data, or "
            "objects of classes that this program can import, too."
        ) from error
