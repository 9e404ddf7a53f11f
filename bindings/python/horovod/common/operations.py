"""Operations as every framework's binding starts them: names, requests, handles.

A binding describes its tensors by :class:`Request`, in groups that complete together, and says how the engine's outputs
become its own tensors (:data:`Collect`). Everything else stands here. ``tests/python/binding`` holds a whole binding.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import operator
from collections.abc import Callable
from typing import Any

from horovod import _roda
from horovod._roda import Request
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, restart_numbers_after_join
from horovod.common.util import check_num_rank_power_of_2

NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."

ALLREDUCE, ALLGATHER, BROADCAST, JOIN, ADASUM, ALLTOALL, BARRIER, REDUCESCATTER, REDUCE = range(9)


class ReduceOp(enum.IntEnum):
    """How tensors are reduced: a number, as in Horovod, that prints its name."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return int, (int(self),)  # checkpoints are read where there is no Horovod


Average, Sum, Adasum, Min, Max, Product = ReduceOp

# In the order of the engine's numbers.
DTYPE_NAMES: tuple[str, ...] = tuple(_roda.dtype_names())

# The device of tensors in host memory.
HOST = -1

# Turns the engine's outputs, a list of (DLPack capsule, received splits, value), or None where there are none, into the
# caller's result. It also keeps the tensors alive whose memory the engine uses.
Collect = Callable[[Any], Any]
# Waits for an engine's handle with so many outputs, and returns them; a third argument, limit_s, is the most seconds.
Finish = Callable[..., Any]

# --- names and process sets ---


def tensor_name(operation: str, name: str | None, process_set: ProcessSet) -> str:
    """Return the name that the ranks match by."""
    return f"{operation}.{name}" if name else f"{operation}.noname.{process_set.next_unnamed()}"


def member_names(operation: str, name: str | None, process_set: ProcessSet, count: int) -> list[str]:
    """Return the names of a group's tensors."""
    base = tensor_name(operation, name, process_set)
    return [f"{base}_{i}of{count}" for i in range(1, count + 1)]


def set_id_of(process_set: ProcessSet) -> int:
    """Return the id of a registered set; ValueError for one that is not."""
    try:
        set_id = process_set.process_set_id
    except AttributeError:
        raise TypeError(f"process_set is an hvd.ProcessSet, not {process_set!r:.60}.") from None
    if set_id is None or (set_id and _roda.is_initialized() and _roda.process_set_ranks(set_id) is None):
        raise ValueError(f"Process set provided does not exist, or has not been registered: {process_set}")
    return set_id


def root_of(root_rank: int) -> int:
    """Return a root's rank; TypeError for what is no whole number."""
    try:
        return operator.index(root_rank)
    except TypeError:
        raise TypeError(f"root_rank is a rank's number, not {root_rank!r:.60}.") from None


def check_adasum(process_set: ProcessSet) -> None:
    """Raise what Horovod raises where Adasum is not possible."""
    if not _roda.is_initialized():
        raise ValueError(NOT_INITIALIZED)
    if process_set.process_set_id != 0:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    check_num_rank_power_of_2(_roda.size())


# --- handles ---

_handle_numbers = itertools.count(1)
_pending: dict[int, tuple[int, int, Collect, Finish]] = {}


def start(
    requests: list[Request], num_outputs: int, collect: Collect, finish: Finish | None = None, in_turn: bool = False
) -> int:
    """Submit a group of requests.

    Parameters
    ----------
    requests : list of Request
        They complete together.
    num_outputs : int
        How many of them have outputs that the engine owns.
    collect : callable
        Makes the result of those outputs.
    finish : callable, optional
        Waits for the group in place of the engine's plain wait: by a stream of the device, for instance.
    in_turn : bool
        A name may be in flight: the request begins when that one has ended, and is not refused.

    Returns
    -------
    int
        A handle for :func:`synchronize`.
    """
    native = _roda.submit(requests, False, in_turn)
    handle = next(_handle_numbers)
    _pending[handle] = (native, num_outputs, collect, finish or _roda.finish)
    return handle


def run(
    requests: list[Request],
    num_outputs: int,
    collect: Collect,
    finish: Finish | None = None,
    in_turn: bool = False,
    limit: float | None = None,
) -> Any:
    """Submit a group of requests, wait and collect. Parameters as in :func:`start`, `limit` as in `synchronize`."""
    try:
        if finish is None:
            outputs = _roda.run(requests, num_outputs, in_turn, limit)
        else:
            outputs = finish(_roda.submit(requests, True, in_turn), num_outputs, limit_s=limit)
    except BaseException:
        _keep(next(_handle_numbers), (requests[0].handle, num_outputs, collect, finish or _roda.finish))
        raise
    return collect(outputs)


def _keep(handle: int, entry: tuple[int, int, Collect, Finish]) -> None:
    """Keep the tensors of a wait that a signal's handler ended by an exception: the engine goes on with them."""
    if _roda.is_known(entry[0]):
        _pending[handle] = entry


def is_pending(handle: int) -> bool:
    """Tell whether :func:`synchronize` has not been called for `handle` yet."""
    return handle in _pending


def poll(handle: int) -> bool:
    """Tell whether the operation is done, so that :func:`synchronize` will not block."""
    entry = _pending.get(handle)
    if entry is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return _roda.poll(entry[0])


def synchronize(handle: int | Callable[[], Any], limit: float | None = None) -> Any:
    """Wait for an asynchronous operation.

    Parameters
    ----------
    handle : int or callable
        From an ``*_async`` function.
    limit : float, optional
        The most seconds to wait.

    Returns
    -------
    tensor, tuple or None
        The operation's result; None for a handle that is unknown or was waited for before.

    Raises
    ------
    TimeoutError
        After `limit`. The operation goes on, and its handle can be waited for again.
    HorovodInternalError
        When the ranks disagreed, a peer failed, or the engine was shut down.
    KeyboardInterrupt, or whatever else a signal's handler raises
        The operation goes on, and its handle can be waited for again.
    """
    if callable(handle):  # of sparse_allreduce_async
        return handle()
    entry = _pending.pop(handle, None)
    if entry is None:
        return None
    native, num_outputs, collect, finish = entry
    try:
        outputs = finish(native, num_outputs, limit_s=limit)
    except BaseException:
        _keep(handle, entry)
        raise
    return collect(outputs)


def expect(handle: int, limit: float | None = None) -> Any:
    """Wait like :func:`synchronize`; HorovodInternalError also for a handle that a shutdown dropped."""
    if handle not in _pending:
        raise HorovodInternalError(
            "The operation has no result: Horovod has been shut down since it was started, or it was waited for before."
        )
    return synchronize(handle, limit)


def forget_handles() -> None:
    """Drop all handles; only while the engine does not run. No number is given again: old ones stay unknown."""
    global _shutdowns
    _shutdowns += 1
    while _pending:
        native = _pending.popitem()[1][0]
        with contextlib.suppress(HorovodInternalError, ValueError):  # ended by the shutdown, as it must
            _roda.finish(native, 0)


_shutdowns = 0


def shutdowns() -> int:
    """Return how often the engine was shut down in this process: what it lent before is out of its reach now."""
    return _shutdowns


# --- without tensors ---


def bare_request(collective: int, set_id: int) -> Request:
    """Return a request without a tensor: a barrier or a join."""
    return Request(collective, "", 0, (), 0, 0, process_set=set_id)


def barrier(process_set: ProcessSet) -> None:
    """Wait until every member has called it."""
    _roda.run([bare_request(BARRIER, set_id_of(process_set))])


def join() -> int:
    """Declare that this rank has no more data, wait for the others, return the rank that joined last."""
    [(_, _, last)] = _roda.run([bare_request(JOIN, 0)], 1)
    restart_numbers_after_join()
    return int(last)
