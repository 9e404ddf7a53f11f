"""A group of ranks whose collectives the engine carries out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from horovod.common import operations
from horovod.common.basics import Average, Sum
from horovod.torch import _ops, _tensors
from horovod.torch.distributed._arguments import (
    ENGINE_OPS,
    FOLDS,
    check_alike,
    check_lists,
    check_root,
    check_splits,
    is_sum,
    name_of,
    read,
    reduction_of,
    require,
)
from horovod.torch.distributed._layout import (
    Finish,
    copy_into,
    dense,
    fill,
    flattened,
    joined,
    put,
    reordered,
    size_of,
    summable,
)
from horovod.torch.distributed._point_to_point import PointToPoint
from horovod.torch.distributed._work import Work, under_way

_ALLREDUCE = c10d.AllreduceOptions  # looked up once: it is the call that programs wait for


class RodaProcessGroup(PointToPoint):
    """Every method starts one operation; ranks match by the group's name and the number of the call, modulo 32.

    Each takes what any of torch's overloads does, and raises RuntimeError for arguments that do not fit. Parameters as
    of `Face`.
    """

    # --- reductions ---

    def allreduce(self, *args: Any, **named: Any) -> Work | None:
        """Reduce in place, several tensors with each other."""
        fits = len(args) == 2 and type(args[1]) is _ALLREDUCE
        tensors, opts = args if fits else read(_ALLREDUCE, args, named)
        require(len(tensors) > 0, "all_reduce: requires non-empty tensor list")
        tensor = tensors[0]
        kind, factor = reduction_of(opts, tensors)
        if len(tensors) > 1:
            check_alike("all_reduce", tensors, tensor)
            require(kind in FOLDS, f"all_reduce: {name_of(kind)} takes one tensor")
            tensor = functools.reduce(FOLDS[kind], tensors)
        spread = None if len(tensors) == 1 else lambda: [_tensors.write_back(other, tensor) for other in tensors]
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, kind, spread, tensors, opts)
        if kind not in ENGINE_OPS:
            return self._fold(
                "all_reduce", kind, tensor, lambda flat: (put(tensor, flat), spread and spread()), tensors, opts
            )
        dense = tensor if tensor.is_contiguous() and not tensor.is_complex() else summable(tensor, kind)
        dtype, buffer = _tensors.check_tensor(dense), _tensors.reachable(dense)
        set_id, name, op = operations.set_id_of(self._set), next(self._names), ENGINE_OPS[kind]
        entry = _tensors.request(operations.ALLREDUCE, name, dtype, buffer, buffer, set_id, op, factor)
        finish = copy_into(tensor, buffer) if spread is None else lambda _: (put(tensor, buffer), spread())
        return self._start("all_reduce", tensors, ([entry], 0, lambda _: buffer), finish, tensors, opts)

    def average(self, tensor: Tensor, wire_format: int) -> Work | None:
        """Average a contiguous tensor in place, by messages between hosts that have the format."""
        terms = (Average, 1.0, 1.0, self._set, wire_format)
        prepared = _ops.prepare_allreduce(tensor, True, next(self._names), *terms)
        return self._start("all_reduce", [tensor], prepared, None, [tensor], _ALLREDUCE())

    def _fold(self, what: str, kind: int, tensor: Tensor, finish: Finish, outputs: Any, opts: Any) -> Work | None:
        """Reduce by what the engine does not: every rank gets all values; `finish` gets the flat result."""
        require(kind in FOLDS, f"{what}: no such reduction: {name_of(kind)}")
        prepared = _ops.prepare_allgather(flattened(tensor), next(self._names), self._set)

        def fold(flat: Tensor) -> None:
            finish(functools.reduce(FOLDS[kind], flat.view(tensor.dtype).view(len(self._ranks), -1)))

        return self._start(what, [tensor], prepared, fold, outputs, opts)

    def _allreduce_sparse(
        self, tensor: Tensor, kind: int, spread: Callable[[], object] | None, outputs: Any, opts: Any
    ) -> Work | None:
        require(is_sum(kind), f"all_reduce: unsupported reduction operation of sparse tensors: {name_of(kind)}")
        own = tensor.detach().coalesce()
        parts = [own.indices().t().contiguous(), own.values().contiguous()]
        prepared = _ops.prepare_grouped_allgather(parts, next(self._names), self._set)

        def finish(results: Any) -> None:
            indices, values = results
            total = torch.sparse_coo_tensor(indices.t(), values, tensor.shape, check_invariants=False).coalesce()
            _tensors.write_back(tensor, total if ENGINE_OPS[kind] == Sum else total / len(self._ranks))
            if spread is not None:
                spread()

        return self._start("sparse_all_reduce", [tensor], prepared, finish, outputs, opts)

    def allreduce_coalesced(self, *args: Any, **named: Any) -> Work | None:
        """Reduce several tensors in place, each by itself."""
        tensors, opts = read(c10d.AllreduceCoalescedOptions, args, named)
        require(len(tensors) > 0, "all_reduce: requires non-empty tensor list")
        kind, factor = reduction_of(opts, tensors)
        for index, tensor in enumerate(tensors):
            same = tensor.layout is tensors[0].layout
            require(same, f"allreduce_coalesced: invalid tensor layout at index {index} ({tensor.layout})")
            require(tensor.dtype == tensors[0].dtype, "allreduce_coalesced: tensors must all have the same type")
        require(not tensors[0].is_sparse, "allreduce_coalesced: unsupported layout")
        if kind not in ENGINE_OPS:
            return self._fold("all_reduce", kind, joined(tensors), lambda flat: fill(tensors, flat), tensors, opts)
        buffers = [summable(tensor, kind) for tensor in tensors]
        prepared = _ops.prepare_grouped_allreduce(
            buffers, True, next(self._names), ENGINE_OPS[kind], factor, 1.0, self._set
        )
        return self._start("all_reduce", tensors, prepared, lambda _: list(map(put, tensors, buffers)), tensors, opts)

    def reduce(self, *args: Any, **named: Any) -> Work | None:
        """Reduce into the root's tensor; the others' stay as they are."""
        tensors, opts = read(c10d.ReduceOptions, args, named)
        check_root("reduce", opts, len(self._ranks), tensors)
        require(len(tensors) == 1, "reduce: requires a single-element tensor list")
        [tensor] = tensors
        kind, factor = reduction_of(opts, tensors)
        is_root = self._own_rank == opts.rootRank
        if kind not in ENGINE_OPS:
            return self._fold("reduce", kind, tensor, lambda flat: is_root and put(tensor, flat), tensors, opts)
        buffer, root = summable(tensor, kind), self._ranks[opts.rootRank]
        prepared = _ops.prepare_reduce(buffer, True, root, next(self._names), ENGINE_OPS[kind], factor, 1.0, self._set)
        return self._start("reduce", tensors, prepared, copy_into(tensor, buffer) if is_root else None, tensors, opts)

    def reduce_scatter(self, *args: Any, **named: Any) -> Work | None:
        """Reduce a list of tensors, one for each rank, and keep this rank's."""
        outputs, inputs, opts = read(c10d.ReduceScatterOptions, args, named, 2)
        same = len(outputs) == len(inputs) == 1
        require(same, "reduce_scatter: requires input/output tensor lists to have the same length, 1")
        require(
            len(inputs[0]) == len(self._ranks), "reduce_scatter: invalid input tensor list size, must be world size"
        )
        check_alike("reduce_scatter", inputs[0], outputs[0], same_shape=False)
        counts = [size_of(part) for part in inputs[0]]
        require(counts[self._own_rank] == size_of(outputs[0]), "reduce_scatter: input and output sizes differ")
        return self._reduce_scatter("reduce_scatter", inputs[0], outputs, joined(inputs[0]), counts, opts)

    def _reduce_scatter_base(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002
        opts: Any = None,
        wire_format: int = 0,
    ) -> Work | None:
        check_alike("reduce_scatter_tensor", [input], output, same_shape=False)
        size = len(self._ranks)
        require(output.numel() * size == input.numel(), "reduce_scatter_tensor: input must be world size times output")
        opts = opts or c10d.ReduceScatterOptions()
        counts = [size_of(output)] * size
        arguments = ([input], [output], flattened(input), counts, opts, wire_format)
        return self._reduce_scatter("_reduce_scatter_base", *arguments)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Work | None:
        """Reduce several tensors and keep this rank's share of each."""
        # Side by side: row r holds what rank r keeps of every tensor.
        size = len(self._ranks)
        flat = torch.cat([flattened(tensor).view(size, -1) for tensor in inputs], 1).view(-1)
        counts = [flat.numel() // size] * size
        opts = opts or c10d.ReduceScatterOptions()
        return self._reduce_scatter("reduce_scatter_tensor_coalesced", inputs, outputs, flat, counts, opts)

    def _reduce_scatter(
        self,
        what: str,
        inputs: Sequence[Tensor],
        outputs: list[Tensor],
        flat: Tensor,
        counts: list[int],
        opts: Any,
        wire_format: int = 0,
    ) -> Work | None:
        kind, factor = reduction_of(opts, inputs)
        op, name = ENGINE_OPS.get(kind), next(self._names)
        require(not inputs[0].is_complex() or op in (Sum, Average), f"{what}: no {name_of(kind)} of complex tensors")
        begin = sum(counts[: self._own_rank])
        own = slice(begin, begin + counts[self._own_rank])
        if op is None:
            return self._fold(what, kind, flat, lambda whole: fill(outputs, whole[own]), outputs, opts)
        if op in (Sum, Average) and len(set(counts)) == 1 and flat.numel() == sum(counts):
            rows = reordered(flat, counts, self._to_set).view(len(counts), counts[0])
            prepared = _ops.prepare_reducescatter(rows, name, op, self._set, factor, 1.0, wire_format)
            return self._start(what, inputs, prepared, lambda mine: fill(outputs, mine.view(-1)), outputs, opts)
        prepared = _ops.prepare_allreduce(flat.clone(), True, name, op, factor, 1.0, self._set)
        return self._start(what, inputs, prepared, lambda whole: fill(outputs, whole[own]), outputs, opts)

    # --- copies ---

    def broadcast(self, *args: Any, **named: Any) -> Work | None:
        """Copy the root's tensor to everybody's tensors, in place."""
        tensors, opts = read(c10d.BroadcastOptions, args, named)
        check_root("broadcast", opts, len(self._ranks), tensors)
        tensor = tensors[opts.rootTensor]
        if len(tensors) > 1:
            check_alike("broadcast", tensors, tensor)
        buffer, root = dense(tensor), self._ranks[opts.rootRank]
        prepared = _ops.prepare_broadcast(buffer, True, root, next(self._names), self._set)
        finish = copy_into(tensor, buffer) if len(tensors) == 1 else lambda _: [put(each, buffer) for each in tensors]
        return self._start("broadcast", tensors, prepared, finish, tensors, opts)

    def allgather(self, *args: Any, **named: Any) -> Work | None:
        """Copy everybody's tensors into a list, and that into as many as there are tensors."""
        outputs, inputs, opts = read(c10d.AllgatherOptions, args, named, 2)
        require(len(inputs) > 0, "all_gather: requires non-empty input tensor list")
        require(len(outputs) == len(inputs), "all_gather: requires input/output tensor lists to have the same length")
        check_alike("all_gather", inputs, inputs[0])
        count = len(inputs) * len(self._ranks)
        for receivers in outputs:
            found = len(receivers)
            require(found == count, f"all_gather: invalid output tensor list: expected length {count}, got {found}")
            check_alike("all_gather", receivers, inputs[0])
        return self._gather("all_gather", outputs, inputs, outputs, opts)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work | None:  # noqa: A002
        check_alike("all_gather_into_tensor", [output], input, same_shape=False)
        fits = output.numel() == input.numel() * len(self._ranks)
        require(fits, "all_gather_into_tensor: invalid tensor size: output must be world size times input")
        return self._gather("_all_gather_base", [[output]], [input], [output], opts or c10d.AllgatherOptions())

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> Work | None:
        """Copy everybody's tensors into one tensor each."""
        flats = [flattened(tensor) for tensor in inputs]

        def finish(results: Any) -> None:
            for output, result in zip(outputs, results):
                fill([output], self._gathered(result))

        prepared = _ops.prepare_grouped_allgather(flats, next(self._names), self._set)
        return self._start("all_gather", inputs, prepared, finish, outputs, opts or c10d.AllgatherOptions())

    def allgather_coalesced(self, *args: Any, **named: Any) -> Work | None:
        """Copy everybody's tensors into lists, one for each rank."""
        outputs, inputs, opts = read(c10d.AllgatherOptions, args, named, 2)
        require(len(outputs) == len(self._ranks), "all_gather: output lists should be equal to world size")
        for row in outputs:
            require(len(row) == len(inputs), f"all_gather: invalid output size: expected {len(inputs)}, got {len(row)}")
            for index, (output, given) in enumerate(zip(row, inputs)):
                fits = output.shape == given.shape
                require(fits, f"all_gather: invalid size of output tensor at index {index}: {list(output.shape)}")
                require(
                    output.dtype == given.dtype, f"all_gather: invalid tensor type at index {index}: {output.dtype}"
                )
        return self._gather("all_gather", [[tensor for row in outputs for tensor in row]], inputs, outputs, opts)

    def _gather(
        self, what: str, receivers: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], outputs: Any, opts: Any
    ) -> Work | None:
        flat = flattened(inputs[0]) if len(inputs) == 1 else joined(inputs)
        prepared = _ops.prepare_allgather(flat, next(self._names), self._set)

        def finish(result: Any) -> None:
            result = self._gathered(result)
            for tensors in receivers:
                fill(tensors, result)

        return self._start(what, inputs, prepared, finish, outputs, opts)

    def _gathered(self, flat: Tensor) -> Tensor:
        size = len(self._ranks)
        return reordered(flat, [flat.numel() // size] * size, self._from_set)

    def gather(self, *args: Any, **named: Any) -> Work | None:
        """Copy everybody's tensor into the root's list."""
        outputs, inputs, opts = read(c10d.GatherOptions, args, named, 2)
        check_root("gather", opts, len(self._ranks))
        is_root = self._own_rank == opts.rootRank
        require(len(inputs) == 1, "gather: requires a single-element input tensor list")
        if is_root:
            check_lists("gather", "output", outputs, inputs, len(self._ranks))
        else:
            require(not any(outputs), "gather: requires empty output on non-root")
        return self._gather("gather", outputs if is_root else [], inputs, outputs if is_root else [], opts)

    def scatter(self, *args: Any, **named: Any) -> Work | None:
        """Copy the root's tensors, one to each rank."""
        outputs, inputs, opts = read(c10d.ScatterOptions, args, named, 2)
        check_root("scatter", opts, len(self._ranks))
        require(len(outputs) == 1, "scatter: requires a single-element output tensor list")
        is_root = self._own_rank == opts.rootRank
        if is_root:
            check_lists("scatter", "input", inputs, outputs, len(self._ranks))
        else:
            require(not any(inputs), "scatter: requires empty input on non-root")
        flat = joined(inputs[0]) if is_root else flattened(outputs[0])[:0]
        splits = [size_of(part) for part in inputs[0]] if is_root else [0] * len(self._ranks)
        return self._exchange("scatter", inputs[0] if is_root else outputs, outputs, flat, splits, opts)

    # --- exchanges ---

    def alltoall(self, *args: Any, **named: Any) -> Work | None:
        """Send one tensor to each rank."""
        outputs, inputs, opts = read(c10d.AllToAllOptions, args, named, 2)
        for kind, tensors in (("output", outputs), ("input", inputs)):
            count, size = len(tensors), len(self._ranks)
            require(count == size, f"alltoall: {kind} tensor list size {count} does not match world size {size}")
        return self._exchange("all_to_all", inputs, outputs, joined(inputs), [size_of(part) for part in inputs], opts)

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> Work | None:
        """Send slices of the first dimension to each rank."""
        if type(opts) is not c10d.AllToAllOptions:
            [opts] = read(c10d.AllToAllOptions, [opts, timeout], {}, 0)
        size = len(self._ranks)
        check_alike("alltoall_base", [output], input, same_shape=False)
        check_splits("alltoall_base", output_split_sizes, output, size)
        check_splits("alltoall_base", input_split_sizes, input, size)
        flat = flattened(input)
        width = flat.numel() // input.shape[0] if input.dim() and input.shape[0] else 0
        rows = input_split_sizes or [input.shape[0] // size] * size
        return self._exchange("all_to_all", [input], [output], flat, [count * width for count in rows], opts)

    def _exchange(
        self, what: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], flat: Tensor, splits: list[int], opts: Any
    ) -> Work | None:
        flat = reordered(flat, splits, self._to_set)
        splits = [splits[member] for member in self._to_set]
        prepared = _ops.prepare_alltoall(flat, splits, next(self._names), self._set)

        def finish(result: Any) -> None:
            output, received = result
            fill(outputs, reordered(output, received.tolist(), self._from_set))

        return self._start(what, inputs, prepared, finish, outputs, opts)

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> Work | None:
        """Wait for everybody, and for what this group has under way here."""
        if type(opts) is not c10d.BarrierOptions:
            [opts] = read(c10d.BarrierOptions, [opts, timeout], {}, 0)
        entry = operations.bare_request(operations.BARRIER, operations.set_id_of(self._set))
        earlier = under_way(self)

        def end(_: Any) -> None:
            for work in earlier:
                work._end()

        return self._start("barrier", [], ([entry], 0, lambda _: None), end if earlier else None, [], opts)

    # Newer torch calls the same by other names.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base
