"""A group of ranks whose collectives the engine carries out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from horovod.common import operations
from horovod.common.basics import Average, Max, Min, Product, Sum
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops, _tensors
from horovod.torch.distributed._work import Work

Tensor = torch.Tensor

_OPS = (
    (dist.ReduceOp.SUM, Sum),
    (dist.ReduceOp.AVG, Average),
    (dist.ReduceOp.MIN, Min),
    (dist.ReduceOp.MAX, Max),
    (dist.ReduceOp.PRODUCT, Product),
)


def _op_of(options: Any) -> int:
    for theirs, ours in _OPS:
        if options.reduceOp == theirs:
            return ours
    raise ValueError(f"The backend roda reduces with SUM, AVG, MIN, MAX and PRODUCT, not with {options.reduceOp}.")


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


def _fill(outputs: Sequence[Tensor], flat: Tensor) -> None:
    """Share out a flat result among tensors, which may be strided."""
    begin = 0
    for output in outputs:
        part = flat[begin : begin + output.numel()]
        if part.data_ptr() != output.data_ptr():
            output.detach().copy_(part.view(output.shape))
        begin += output.numel()


class RodaProcessGroup(dist.ProcessGroup):
    """Every method starts one operation; ranks match by the group's name and the number of the call.

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
    """

    def __init__(self, name: str, rank: int, ranks: list[int], process_set: ProcessSet) -> None:
        super().__init__(rank, len(ranks))
        self._name = self._group_name = name
        self._group_desc = ""
        self._ranks = ranks
        # The engine counts members by ascending world rank, torch by the place in its list (sort_ranks=False).
        self._to_set = sorted(range(len(ranks)), key=ranks.__getitem__)
        self._from_set = [self._to_set.index(member) for member in range(len(ranks))]
        self._own_rank = rank
        self._set = process_set
        self._numbers = itertools.count()

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

    def _next(self) -> str:
        return f"torch.distributed.{self._name}.{next(self._numbers)}"

    @staticmethod
    def _start(prepared: _ops.Prepared, finish: Callable[[Any], None], outputs: Any) -> Work:
        return Work(_tensors.start(*prepared), finish, outputs)

    # --- reductions ---

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Reduce in place."""
        return self._reduce(tensors, _op_of(opts or dist.AllreduceOptions()))

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Reduce several tensors in place."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Reduce into the root's tensor; the others' stay as they are."""
        opts = opts or dist.ReduceOptions()
        [tensor] = tensors
        root = self._ranks[opts.rootRank]
        buffer = tensor.detach().contiguous()
        prepared = _ops.prepare_reduce(buffer, True, root, self._next(), _op_of(opts), 1.0, 1.0, self._set)
        is_root = self._own_rank == opts.rootRank
        return self._start(prepared, lambda result: _fill([tensor] if is_root else [], result.view(-1)), tensors)

    def _reduce(self, tensors: list[Tensor], op: int) -> Work:
        buffers = [tensor.detach().contiguous() for tensor in tensors]

        def finish(results: Any) -> None:
            for receiver, result in zip(tensors, results):
                if receiver.data_ptr() != result.data_ptr():
                    receiver.detach().copy_(result)

        prepared = _ops.prepare_grouped_allreduce(buffers, True, self._next(), op, 1.0, 1.0, self._set)
        return self._start(prepared, finish, tensors)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work:
        """Reduce a list of tensors, one for each rank, and keep this rank's."""
        return self._reduce_scatter(outputs, _joined(inputs[0]), [part.numel() for part in inputs[0]], opts)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:  # noqa: A002
        return self._reduce_scatter([output], _flat(input), [output.numel()] * len(self._ranks), opts)

    def reduce_scatter_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        """Reduce several tensors and keep this rank's share of each."""
        # Side by side: row r holds what rank r keeps of every tensor.
        flat = torch.cat([tensor.detach().reshape(len(self._ranks), -1) for tensor in inputs], 1).reshape(-1)
        return self._reduce_scatter(outputs, flat, [flat.numel() // len(self._ranks)] * len(self._ranks), opts)

    def _reduce_scatter(self, outputs: list[Tensor], flat: Tensor, counts: list[int], opts: Any) -> Work:
        op = _op_of(opts or dist.ReduceScatterOptions())
        if op in (Sum, Average) and len(set(counts)) == 1 and flat.numel() == sum(counts):
            rows = _reordered(flat, counts, self._to_set).view(len(counts), counts[0])
            prepared = _ops.prepare_reducescatter(rows, self._next(), op, self._set, 1.0, 1.0)
            return self._start(prepared, lambda own: _fill(outputs, own.view(-1)), outputs)
        begin = sum(counts[: self._own_rank])
        own = slice(begin, begin + counts[self._own_rank])
        prepared = _ops.prepare_allreduce(flat.clone(), True, self._next(), op, 1.0, 1.0, self._set)
        return self._start(prepared, lambda whole: _fill(outputs, whole[own]), outputs)

    # --- copies ---

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Copy the root's tensor to everybody, in place."""
        opts = opts or dist.BroadcastOptions()
        [tensor] = tensors
        buffer = tensor.detach().contiguous()
        prepared = _ops.prepare_broadcast(buffer, True, self._ranks[opts.rootRank], self._next(), self._set)
        return self._start(prepared, lambda result: _fill([tensor], result.view(-1)), tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """Copy everybody's tensor into a list."""
        del opts
        return self._gather(outputs[0], inputs[0], outputs)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:  # noqa: A002
        del opts
        return self._gather([output], input, [output])

    def allgather_into_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        """Copy everybody's tensors into one tensor each."""
        del opts
        flats = [_flat(tensor) for tensor in inputs]

        def finish(results: Any) -> None:
            for output, result in zip(outputs, results):
                _fill([output], self._gathered(result))

        return self._start(_ops.prepare_grouped_allgather(flats, self._next(), self._set), finish, outputs)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """Copy everybody's tensors into lists, one for each rank."""
        del opts
        return self._gather([tensor for row in outputs for tensor in row], _joined(inputs), outputs)

    def _gather(self, receivers: Sequence[Tensor], tensor: Tensor, outputs: Any) -> Work:
        prepared = _ops.prepare_allgather(_flat(tensor), self._next(), self._set)
        return self._start(prepared, lambda flat: _fill(receivers, self._gathered(flat)), outputs)

    def _gathered(self, flat: Tensor) -> Tensor:
        size = len(self._ranks)
        return _reordered(flat, [flat.numel() // size] * size, self._from_set)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """Copy everybody's tensor into the root's list."""
        is_root = self._own_rank == (opts or dist.GatherOptions()).rootRank
        return self._gather(outputs[0] if is_root else [], inputs[0], outputs)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None) -> Work:
        """Copy the root's tensors, one to each rank."""
        is_root = self._own_rank == (opts or dist.ScatterOptions()).rootRank
        flat = _joined(inputs[0]) if is_root else outputs[0].new_empty(0)
        splits = [part.numel() for part in inputs[0]] if is_root else [0] * len(self._ranks)
        return self._exchange(outputs, flat, splits)

    # --- exchanges ---

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        """Send one tensor to each rank."""
        del opts
        return self._exchange(outputs, _joined(inputs), [part.numel() for part in inputs])

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,  # noqa: A002
    ) -> Work:
        """Send slices of the first dimension to each rank."""
        del output_splits, opts
        width = input[0].numel() if input.dim() and input.shape[0] else 0
        rows = input_splits or [input.shape[0] // len(self._ranks)] * len(self._ranks)
        return self._exchange([output], _flat(input), [count * width for count in rows])

    def _exchange(self, outputs: Sequence[Tensor], flat: Tensor, splits: list[int]) -> Work:
        flat = _reordered(flat, splits, self._to_set)
        splits = [splits[member] for member in self._to_set]
        prepared = _ops.prepare_alltoall(flat, splits, self._next(), self._set)

        def finish(result: Any) -> None:
            output, received = result
            _fill(outputs, _reordered(output, received.tolist(), self._from_set))

        return self._start(prepared, finish, outputs)

    def barrier(self, opts: Any = None) -> Work:
        """Wait for everybody."""
        del opts
        entry = operations.bare_request(operations.BARRIER, operations.set_id_of(self._set))
        return self._start(([entry], 0, lambda _: None), lambda _: None, [])

    # --- from one rank to another ---

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            "The backend roda has no messages from one rank to another (send, recv, batch_isend_irecv). Use "
            'all_to_all, or a group of another backend: torch.distributed.new_group(backend="gloo").'
        )

    send = recv = recv_anysource = _refuse

    # Newer torch calls the same by other names.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base
