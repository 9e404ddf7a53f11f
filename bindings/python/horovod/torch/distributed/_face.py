"""A group's attributes besides its operations, for torch and its tools, and how operations start."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import profiler

from horovod.common import operations
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops, _tensors
from horovod.torch.distributed import _farewell, _sets
from horovod.torch.distributed._comparison import compare
from horovod.torch.distributed._layout import Finish
from horovod.torch.distributed._monitored_barrier import monitored_barrier, name_the_late
from horovod.torch.distributed._profile import Span, begin
from horovod.torch.distributed._work import Work

# Calls take so many names in turn: one that was agreed on is announced by a bit. As many may be under way at once.
NAMES = 32


class Face(dist.ProcessGroup):
    """A group before its operations.

    Parameters
    ----------
    name : str
        The group's, the same on all ranks and different from other groups'.
    rank : int
        This process's within the group.
    ranks : list of int
        World ranks of the members.
    process_set : ProcessSet
        Of these ranks.
    store : torch.distributed.Store
        The group's own part of torch's.
    timeout : datetime.timedelta
        For an operation to end, unless its options say another.
    generation : int
        Number of the default group to which this group belongs: names of operations differ from those that an earlier
        default group has left under way.
    """

    def __init__(
        self,
        name: str,
        rank: int,
        ranks: list[int],
        process_set: ProcessSet,
        store: dist.Store,
        timeout: timedelta,
        generation: int = 0,
    ) -> None:
        super().__init__(rank, len(ranks))
        self._name = self._group_name = name
        self._group_desc, self._backend_name = "", "roda"
        self._ranks = ranks
        # The engine counts members by ascending world rank, torch by the place in its list (sort_ranks=False).
        self._to_set = sorted(range(len(ranks)), key=ranks.__getitem__)
        self._from_set = [self._to_set.index(member) for member in range(len(ranks))]
        self._own_rank = rank
        self._set, self._store = process_set, store
        self.set_timeout(timeout)
        self._prefix = f"torch.distributed.{name}" if generation == 0 else f"torch.distributed.{generation}.{name}"
        self._begin_names()
        self._sequence = self._at = 0  # the latest call; the one that somebody is in
        self._compares = dist.get_debug_level() == dist.DebugLevel.DETAIL
        _farewell.groups.add(self)
        self._messages: Counter[tuple[int, int, int]] = Counter()  # so far, by source, destination and tag

    # torch keeps these in a group's backends, of which a group in Python has none: it is its own.

    def getGroupName(self) -> str:  # noqa: N802 (torch's name)
        """Return what torch calls the group."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802 (torch's name)
        """Take note of what torch calls the group."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802 (torch's name)
        """Return torch's description of the group."""
        return self._group_desc

    def setGroupDesc(self, description: str) -> None:  # noqa: N802 (torch's name)
        """Take note of torch's description of the group."""
        self._group_desc = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """Return the backend's name for torch's C++, which would look for Gloo itself in a group of its name."""
        return "roda"

    def name(self) -> str:
        """Return the name by which the group was asked for."""
        return self._backend_name

    _get_backend_name = name

    def _get_backend(self, _: torch.device) -> Face:
        return self

    supports_splitting = supports_coalescing = supports_time_estimate = False
    _device_types = property(
        lambda self: [torch.device(kind) for kind in ("cpu", "cuda") if kind == "cpu" or torch.cuda.is_available()]
    )
    options = property(
        lambda self: SimpleNamespace(
            backend=self._backend_name,
            _timeout=timedelta(seconds=self._limit),
            group_name=self._group_name,
            global_ranks_in_group=self._ranks,
        )
    )

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time for operations that begin from now on."""
        self._limit = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: all ranks count from 0."""

    def get_group_store(self) -> dist.Store:
        """Return the group's own part of torch's store."""
        return self._store

    # --- starting ---

    def _begin_names(self) -> None:
        self._names = itertools.cycle([f"{self._prefix}.{number}" for number in range(NAMES)])

    def _start(
        self,
        what: str,
        inputs: Sequence[Tensor],
        prepared: _ops.Prepared,
        finish: Finish | None,
        outputs: Any,
        opts: Any,
    ) -> Work | None:
        """Start an operation, or run it to its end where `opts` say that the caller would wait at once.

        The caller's own thread then carries it out, and there is no work to wait for, as with torch's NCCL: at 4 bytes
        that takes a third of the time.
        """
        self._sequence = sequence = self._sequence + 1
        limit = opts.timeout.total_seconds()
        if limit < 0:
            limit = self._limit
        if _farewell.leaving:
            _sets.registrar().farewell.needs(self._ranks)
        if self._compares:
            self._compare(what, inputs, sequence, limit)
        span = self._span(what, inputs) if profiler._is_profiler_enabled else None
        if getattr(opts, "asyncOp", True):
            on_host = prepared[0][0].device == operations.HOST
            handle, late = _tensors.start(*prepared, in_turn=True), functools.partial(self._late, what, sequence)
            return Work(handle, finish, outputs, limit, late, self, on_host, span)
        self._at = sequence
        try:
            result = _tensors.run(*prepared, True, limit)
            if finish is not None:
                finish(result)
        except TimeoutError:
            raise self._late(what, sequence, limit) from None
        finally:
            self._at = 0
            if span is not None:
                span.end()
        return None

    def _compare(self, what: str, inputs: Sequence[Tensor], sequence: int, limit: float) -> None:
        try:
            name = f"{self._prefix}.compared"
            wrong = compare(what, inputs, sequence, name, self._set, self._from_set, limit)
        except TimeoutError:
            raise self._late(what, sequence, limit) from None
        if wrong:
            self._begin_names()  # not all collectives take one
            raise RuntimeError(wrong)

    def _late(self, what: str, sequence: int, limit: float) -> RuntimeError:
        return name_the_late(self._store, self._own_rank, len(self._ranks), what, sequence, limit)

    def _span(self, what: str, inputs: Sequence[Tensor]) -> Span | None:
        return begin(f"{self._backend_name}:{what}", inputs)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait for everybody, at most so long; raise RuntimeError that names who did not come: the first, or all."""
        limit = timedelta(seconds=self._limit) if timeout is None else timeout
        monitored_barrier(self._store, self._name, self._own_rank, len(self._ranks), limit, wait_all_ranks)
