"""A group of ranks whose collectives the engine carries out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from horovod.common import operations
from horovod.common.basics import Average, Max, Min, Product, Sum
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops, _tensors
from horovod.torch.distributed import _sets
from horovod.torch.distributed._monitored_barrier import monitored_barrier
from horovod.torch.distributed._work import Work

Tensor = torch.Tensor
Finish = Callable[[Any], object]  # gets the engine's result and puts it where the caller wants it

# Calls take so many names in turn: one that was agreed on is announced by a bit. As many may be under way at once.
_NAMES = 32

_OPS = (
    (dist.ReduceOp.SUM, Sum),
    (dist.ReduceOp.AVG, Average),
    (dist.ReduceOp.MIN, Min),
    (dist.ReduceOp.MAX, Max),
    (dist.ReduceOp.PRODUCT, Product),
)


def _op_of(options: Any) -> int:
    wanted = options.reduceOp
    for theirs, ours in _OPS:
        if wanted == theirs:
            return ours
    raise ValueError(f"The backend roda reduces with SUM, AVG, MIN, MAX and PRODUCT, not with {wanted}.")


def _dense(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


def _flat(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([_flat(tensor) for tensor in tensors])


def _reordered(flat: Tensor, counts: Sequence[int], order: Sequence[int]) -> Tensor:
    """Return the blocks of `flat`, which have `counts` elements, in another order."""
    if all(place == member for place, member in enumerate(order)):
        return flat
    blocks = flat.split(list(counts))
    return torch.cat([blocks[member] for member in order])


def _copy_into(tensor: Tensor, buffer: Tensor) -> Finish | None:
    """Return what writes the result into a strided tensor; None where it is there already."""
    return None if buffer is tensor else lambda _: tensor.detach().copy_(buffer)


def _fill(outputs: Sequence[Tensor], flat: Tensor) -> None:
    """Share out a flat result among tensors, which may be strided."""
    begin = 0
    for output in outputs:
        part = flat[begin : begin + output.numel()]
        if part.data_ptr() != output.data_ptr():
            output.detach().copy_(part.view(output.shape))
        begin += output.numel()


class RodaProcessGroup(dist.ProcessGroup):
    """Every method starts one operation; ranks match by the group's name and the number of the call, modulo 32.

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
        For every rank of the job to take note of two that exchange messages.
    """

    def __init__(
        self,
        name: str,
        rank: int,
        ranks: list[int],
        process_set: ProcessSet,
        store: dist.Store,
        timeout: timedelta,
    ) -> None:
        super().__init__(rank, len(ranks))
        self._name = self._group_name = name
        self._group_desc = ""
        self._ranks = ranks
        # The engine counts members by ascending world rank, torch by the place in its list (sort_ranks=False).
        self._to_set = sorted(range(len(ranks)), key=ranks.__getitem__)
        self._from_set = [self._to_set.index(member) for member in range(len(ranks))]
        self._own_rank = rank
        self._set, self._store = process_set, store
        self._timeout = timeout
        self._names = itertools.cycle([f"torch.distributed.{name}.{number}" for number in range(_NAMES)])
        self._messages: Counter[tuple[int, int, int]] = Counter()  # so far, by source, destination and tag

    # torch keeps a group's name and description in its backends, of which a group in Python has none.

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

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """Return the name under which the backend is registered."""
        return "roda"

    @staticmethod
    def _start(prepared: _ops.Prepared, finish: Finish | None, outputs: Any, opts: Any = None) -> Work | None:
        """Start an operation, or run it to its end where `opts` say that the caller would wait at once.

        The caller's own thread then carries it out, and there is no work to wait for, as with torch's NCCL: at 4 bytes
        that takes a third of the time.
        """
        if getattr(opts, "asyncOp", True):
            return Work(_tensors.start(*prepared, in_turn=True), finish, outputs)
        result = _tensors.run(*prepared, True)
        if finish is not None:
            finish(result)
        return None

    # --- reductions ---

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work | None:
        """Reduce in place."""
        opts = opts or dist.AllreduceOptions()
        op, name = _op_of(opts), next(self._names)
        if len(tensors) == 1:
            tensor = tensors[0]
            dense = _dense(tensor)
            dtype, buffer = _tensors.check_tensor(dense), _tensors.reachable(dense)
            set_id = operations.set_id_of(self._set)
            entry = _tensors.request(operations.ALLREDUCE, name, dtype, buffer, buffer, set_id, op)
            prepared = [entry], 0, lambda _, keep=buffer: None
            return self._start(prepared, _copy_into(tensor, buffer), tensors, opts)
        buffers = [_dense(tensor) for tensor in tensors]
        prepared = _ops.prepare_grouped_allreduce(buffers, True, name, op, 1.0, 1.0, self._set)

        def finish(_: Any) -> None:
            for tensor, buffer in zip(tensors, buffers):
                if tensor is not buffer:
                    tensor.detach().copy_(buffer)

        return self._start(prepared, finish, tensors, opts)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Work | None:
        """Reduce several tensors in place."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any = None) -> Work | None:
        """Reduce into the root's tensor; the others' stay as they are."""
        opts = opts or dist.ReduceOptions()
        [tensor] = tensors
        root = self._ranks[opts.rootRank]
        buffer = _dense(tensor)
        prepared = _ops.prepare_reduce(buffer, True, root, next(self._names), _op_of(opts), 1.0, 1.0, self._set)
        is_root = self._own_rank == opts.rootRank
        return self._start(prepared, _copy_into(tensor, buffer) if is_root else None, tensors, opts)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work | None:
        """Reduce a list of tensors, one for each rank, and keep this rank's."""
        return self._reduce_scatter(outputs, _joined(inputs[0]), [part.numel() for part in inputs[0]], opts)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work | None:  # noqa: A002
        return self._reduce_scatter([output], _flat(input), [output.numel()] * len(self._ranks), opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Work | None:
        """Reduce several tensors and keep this rank's share of each."""
        # Side by side: row r holds what rank r keeps of every tensor.
        flat = torch.cat([tensor.detach().reshape(len(self._ranks), -1) for tensor in inputs], 1).reshape(-1)
        return self._reduce_scatter(outputs, flat, [flat.numel() // len(self._ranks)] * len(self._ranks), opts)

    def _reduce_scatter(self, outputs: list[Tensor], flat: Tensor, counts: list[int], opts: Any) -> Work | None:
        op = _op_of(opts or dist.ReduceScatterOptions())
        if op in (Sum, Average) and len(set(counts)) == 1 and flat.numel() == sum(counts):
            rows = _reordered(flat, counts, self._to_set).view(len(counts), counts[0])
            prepared = _ops.prepare_reducescatter(rows, next(self._names), op, self._set, 1.0, 1.0)
            return self._start(prepared, lambda own: _fill(outputs, own.view(-1)), outputs, opts)
        begin = sum(counts[: self._own_rank])
        own = slice(begin, begin + counts[self._own_rank])
        prepared = _ops.prepare_allreduce(flat.clone(), True, next(self._names), op, 1.0, 1.0, self._set)
        return self._start(prepared, lambda whole: _fill(outputs, whole[own]), outputs, opts)

    # --- copies ---

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work | None:
        """Copy the root's tensor to everybody, in place."""
        opts = opts or dist.BroadcastOptions()
        [tensor] = tensors
        buffer = _dense(tensor)
        prepared = _ops.prepare_broadcast(buffer, True, self._ranks[opts.rootRank], next(self._names), self._set)
        return self._start(prepared, _copy_into(tensor, buffer), tensors, opts)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work | None:
        """Copy everybody's tensor into a list."""
        return self._gather(outputs[0], inputs[0], outputs, opts)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work | None:  # noqa: A002
        return self._gather([output], input, [output], opts)

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Work | None:
        """Copy everybody's tensors into one tensor each."""
        flats = [_flat(tensor) for tensor in inputs]

        def finish(results: Any) -> None:
            for output, result in zip(outputs, results):
                _fill([output], self._gathered(result))

        return self._start(_ops.prepare_grouped_allgather(flats, next(self._names), self._set), finish, outputs, opts)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work | None:
        """Copy everybody's tensors into lists, one for each rank."""
        return self._gather([tensor for row in outputs for tensor in row], _joined(inputs), outputs, opts)

    def _gather(self, receivers: Sequence[Tensor], tensor: Tensor, outputs: Any, opts: Any) -> Work | None:
        prepared = _ops.prepare_allgather(_flat(tensor), next(self._names), self._set)
        return self._start(prepared, lambda flat: _fill(receivers, self._gathered(flat)), outputs, opts)

    def _gathered(self, flat: Tensor) -> Tensor:
        size = len(self._ranks)
        return _reordered(flat, [flat.numel() // size] * size, self._from_set)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work | None:
        """Copy everybody's tensor into the root's list."""
        is_root = self._own_rank == (opts or dist.GatherOptions()).rootRank
        return self._gather(outputs[0] if is_root else [], inputs[0], outputs, opts)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work | None:
        """Copy the root's tensors, one to each rank."""
        is_root = self._own_rank == (opts or dist.ScatterOptions()).rootRank
        flat = _joined(inputs[0]) if is_root else outputs[0].new_empty(0)
        splits = [part.numel() for part in inputs[0]] if is_root else [0] * len(self._ranks)
        return self._exchange(outputs, flat, splits, opts)

    # --- exchanges ---

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work | None:
        """Send one tensor to each rank."""
        return self._exchange(outputs, _joined(inputs), [part.numel() for part in inputs], opts)

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,  # noqa: A002
    ) -> Work | None:
        """Send slices of the first dimension to each rank."""
        del output_splits
        width = input[0].numel() if input.dim() and input.shape[0] else 0
        rows = input_splits or [input.shape[0] // len(self._ranks)] * len(self._ranks)
        return self._exchange([output], _flat(input), [count * width for count in rows], opts)

    def _exchange(self, outputs: Sequence[Tensor], flat: Tensor, splits: list[int], opts: Any) -> Work | None:
        flat = _reordered(flat, splits, self._to_set)
        splits = [splits[member] for member in self._to_set]
        prepared = _ops.prepare_alltoall(flat, splits, next(self._names), self._set)

        def finish(result: Any) -> None:
            output, received = result
            _fill(outputs, _reordered(output, received.tolist(), self._from_set))

        return self._start(prepared, finish, outputs, opts)

    def barrier(self, opts: Any = None) -> Work | None:
        """Wait for everybody."""
        entry = operations.bare_request(operations.BARRIER, operations.set_id_of(self._set))
        return self._start(([entry], 0, lambda _: None), None, [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait for everybody, at most so long; raise RuntimeError that names who did not come: all, in either case."""
        del wait_all_ranks
        monitored_barrier(self._store, self._name, self._own_rank, len(self._ranks), timeout or self._timeout)

    # --- from one rank to another: a broadcast in the process set of the two ---

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Work | None:
        """Send a tensor to a rank of the group; done when that rank has received it."""
        [tensor] = tensors
        prepared = self._message(_flat(tensor), self._own_rank, dst, tag)
        return self._start(prepared, None, tensors)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Work | None:
        """Receive what a rank of the group sends with the same tag, in the order of its sends."""
        [tensor] = tensors
        prepared = self._message(_flat(tensor), src, self._own_rank, tag)
        return self._start(prepared, lambda result: _fill(tensors, result), tensors)

    def recv_anysource(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: both ends of a message are named here."""
        raise NotImplementedError(
            "The backend roda receives from a rank that is named: give src to torch.distributed.recv."
        )

    def _message(self, flat: Tensor, source: int, destination: int, tag: int) -> _ops.Prepared:
        ends = [self._ranks[source], self._ranks[destination]]
        if ends[0] == ends[1]:
            raise ValueError(f"A message of rank {ends[0]} to itself: the backend roda sends to other ranks alone.")
        pair = self._set if len(self._ranks) == 2 else _sets.set_of_pair(sorted(ends), self._timeout)
        way = (source, destination, tag)
        name = f"torch.distributed.{self._name}.{source}to{destination}.{tag}.{self._messages[way] % _NAMES}"
        self._messages[way] += 1
        return _ops.prepare_broadcast(flat, True, ends[0], name, pair)

    # Newer torch calls the same by other names.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base
