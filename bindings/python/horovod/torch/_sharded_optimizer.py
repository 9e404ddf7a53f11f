"""The subclass behind ``DistributedOptimizer(sharded=True)``: every rank keeps the state of its part of each parameter.

This is stage 1 of ZeRO (Rajbhandari et al., 2020). A gradient is reduced and scattered, the wrapped optimizer steps on
this rank's part of the parameter, and the parts are gathered. Both together move as many bytes as an allreduce.

With a wire format both have it, and what is gathered are the differences that a step makes (SDP4Bit, Jia et al. 2024).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from horovod.common.basics import Average, Sum
from horovod.common.compression import wire_format_of
from horovod.common.operations import expect
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops
from horovod.torch._distributed_optimizer import CLEARED_TOO_EARLY, TOO_MANY_PASSES
from horovod.torch._hooks import on_gradient
from horovod.torch._names import TensorNames
from horovod.torch._shard import Shard
from horovod.torch._tensors import start
from horovod.torch._unused import ask_for_unused
from horovod.torch.compression import Compressor
from horovod.torch.functions import allgather_object, broadcast_object
from horovod.torch.mpi_ops import allgather_async, allreduce, size, synchronize

_NOT_ELEMENTWISE = ("LBFGS", "SparseAdam", "Adafactor", "Muon")
SOME_HAVE_STATE = (
    "Some ranks have optimizer state and some have none. With sharded=True no rank has the others' part: load the "
    "full_state_dict() on every rank instead of broadcasting it."
)


class ShardedMixin(torch.optim.Optimizer):
    """Comes before the wrapped optimizer's class in the method resolution order.

    The groups hold the parts; what they are parts of is in ``_shards``, in the same order. A part is a view: stepping
    on it changes this rank's elements of the parameter itself. With a wire format it is a copy in full precision.
    """

    # A GradScaler then calls step() on every rank, whatever it found: all ranks can refuse it together.
    _step_supports_amp_scaling = True

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedMixin:
        # The parts of a copy would be views of nothing that is trained.
        raise TypeError("An optimizer with sharded=True cannot be copied: keep its state_dict() instead.")

    def _start_distributing(
        self,
        name_of: dict[torch.Tensor, str],
        compression: type[Compressor],
        passes: int,
        op: int,
        predivide: float,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        unused_as_none: bool,
    ) -> None:
        if passes <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        if op not in (Average, Sum):
            raise ValueError("sharded=True reduces with op=Average or op=Sum only.")
        kinds = [kind.__name__ for kind in type(self).__mro__ if kind.__name__ in _NOT_ELEMENTWISE]
        if kinds:
            raise ValueError(
                f"sharded=True needs an optimizer that treats elements alike; {kinds[0]} looks at whole parameters."
            )
        self._compression = compression
        self.backward_passes_per_step = passes
        self.op = op
        self._factors = (1.0 / predivide, predivide)  # before the sum, and after it
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._unused_as_none = unused_as_none
        self._hooks: list[Any] = []
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self._tensor_names = TensorNames(self, parameters, name_of, process_set)
        self._cut([(parameter, name_of[parameter]) for parameter in parameters])
        self._take_over_groups()

    def _cut(self, parameters: Iterable[tuple[torch.Tensor, str]]) -> None:
        """Make the parts for the ranks that there are."""
        self._active = bool(self.process_set.included()) and size() > 1
        self._layout = (self.process_set.rank() or 0, self.process_set.size() or 1) if self._active else (0, 1)
        keeps_masters = self._active and wire_format_of(self._compression) != 0
        self._shards = [Shard(parameter, name, *self._layout, keeps_masters) for parameter, name in parameters]
        self._shard_of = {shard.parameter: shard for shard in self._shards}
        trained = [shard.parameter for shard in self._shards if shard.parameter.requires_grad]
        self._allreduce_delay = dict.fromkeys(trained, self.backward_passes_per_step)
        self._handles: dict[torch.Tensor, tuple[int, Any]] = {}
        self._synchronized = False
        if self._active and not self._hooks:
            self._hooks = [on_gradient(parameter, self._on_gradient) for parameter in trained]

    def _take_over_groups(self) -> None:
        for group in self.param_groups:
            shards = [self._shard_of[parameter] for parameter in group["params"]]
            for shard in shards:
                if shard.parameter in self.state:
                    entries = self.state.pop(shard.parameter)
                    self.state[shard.part] = {key: shard.cut(key, value) for key, value in entries.items()}
            group["params"] = [shard.part for shard in shards]

    def _cut_anew(self) -> None:
        """Make other parts, when the job has other ranks; what state there is belongs to the old ones and goes."""
        self._cut([(shard.parameter, shard.name) for shard in self._shards])
        self.state.clear()
        parts = iter([shard.part for shard in self._shards])
        for group in self.param_groups:
            group["params"] = [next(parts) for _ in group["params"]]

    # --- during the backward pass ---

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if not self._active:
            return
        if parameter in self._handles or self._allreduce_delay[parameter] <= 0:
            raise AssertionError(TOO_MANY_PASSES)
        self._synchronized = False
        self._allreduce_delay[parameter] -= 1
        if self._allreduce_delay[parameter] == 0:
            self._allreduce_grad_async(parameter)

    def _allreduce_grad_async(self, parameter: torch.Tensor) -> None:
        shard, gradient = self._shard_of[parameter], parameter.grad
        if gradient is not None and gradient.is_sparse:
            if not self.sparse_as_dense:
                raise ValueError("sharded=True cannot reduce sparse gradients; set sparse_as_dense=True.")
            gradient = gradient.to_dense()
        sent, context = self._compression.compress(shard.flat_gradient(gradient))
        name = f"{self._tensor_names.of(shard.parameter)}.shard"
        arguments = (self.op, self.process_set, *self._factors, wire_format_of(self._compression))
        handle = start(*_ops.prepare_reducescatter(sent, name, *arguments))
        self._handles[parameter] = (handle, context)

    # --- the optimizer's interface ---

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change after how many backward passes gradients are reduced."""
        self.backward_passes_per_step = passes
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, passes)

    def synchronize(self) -> None:
        """Wait until all gradients are reduced: this rank's part of each is then the gradient of the part.

        The gradients of the parameters themselves stay what this rank computed.
        """
        trained, unused = list(self._allreduce_delay), None
        if self._unused_as_none and self._active and trained:
            unused = ask_for_unused(trained, self._tensor_names.of(trained[0]), self.process_set)
        for parameter in trained if self._active else ():
            if parameter not in self._handles:
                self._allreduce_grad_async(parameter)
        self._tensor_names.compare()
        running, self._handles = self._handles, {}
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)
        first_error: Exception | None = None
        for parameter, (handle, context) in running.items():
            try:
                reduced = expect(handle)
            except Exception as error:  # noqa: BLE001 (raised below, when nothing is under way any more)
                first_error = first_error or error
                continue
            part = self._shard_of[parameter].refreshed()
            part.grad = self._compression.decompress(reduced, context)
        if first_error is not None:
            raise first_error
        for parameter in unused() if unused is not None else ():
            self._shard_of[parameter].part.grad = None
        if not self._active:
            self._use_own_gradients()
        self._synchronized = True

    def _use_own_gradients(self) -> None:
        for parameter in self._allreduce_delay:
            if parameter.grad is not None:
                shard = self._shard_of[parameter]
                shard.refreshed().grad = shard.flat_gradient(parameter.grad)

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Not available: what is synchronised by hand is changed by :meth:`clip_grad_norm_`."""
        raise AssertionError(
            "With sharded=True the reduced gradients are not in the parameters' .grad; to clip them, call "
            "optimizer.clip_grad_norm_(max_norm) and then optimizer.step()."
        )
        yield

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scale the reduced gradients so that their Euclidean norm, over all ranks' parts, is at most `max_norm`.

        Collective. Call it between ``backward()`` and ``step()``. Returns the norm before.
        """
        if not self._synchronized:
            self.synchronize()
        gradients = [shard.part.grad for shard in self._shards if shard.part.grad is not None]
        square = torch.stack([torch.zeros(()), *(g.float().pow(2).sum().cpu() for g in gradients)]).sum()
        if self._active:
            square = allreduce(square, name="sharded.norm", op=Sum, process_set=self.process_set)
        norm = square.sqrt()
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.device))
        return norm

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduce what is left, step on this rank's parts, and gather the parameters."""
        if getattr(self, "found_inf", None) is not None:
            raise RuntimeError(
                "sharded=True does not work with torch's GradScaler, which looks for overflows in each rank's part "
                "alone: use bfloat16, which needs no scaling, or sharded=False."
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._synchronized:
            self.synchronize()
        self._synchronized = False
        super().step()
        self._gather()
        return loss

    step.hooked = True  # type: ignore[attr-defined]  # torch runs step hooks around the wrapped class's step

    @torch.no_grad()
    def _gather(self) -> None:
        if not self._active:
            return
        shards = [self._shard_of[parameter] for parameter in self._allreduce_delay]
        gathering = []
        for shard in shards:
            update, is_difference = shard.update()
            name = f"{self._tensor_names.of(shard.parameter)}.parameter"
            wire_format = wire_format_of(self._compression) if is_difference else 0
            handle = start(*_ops.prepare_allgather(update, name, self.process_set, wire_format))
            gathering.append((shard, handle, is_difference))
        for shard, handle, is_difference in gathering:
            shard.take(expect(handle), is_difference)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of parameters and parts; not while reductions of them are under way."""
        if self._handles:
            raise AssertionError(CLEARED_TOO_EARLY)
        self._synchronized = False
        for shard in self._shards:
            shard.part.grad = None
            gradient = shard.parameter.grad
            if gradient is None or set_to_none:
                shard.parameter.grad = None
            else:
                gradient.detach_().zero_()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Not available: parts are cut when the optimizer is wrapped."""
        raise NotImplementedError("With sharded=True, add all groups before hvd.DistributedOptimizer().")

    # --- state ---

    def full_state_dict(self) -> dict[str, Any]:
        """Return the state of the whole parameters, as the unsharded optimizer would; collective.

        :meth:`load_state_dict` takes it on any number of ranks, and so does the unsharded optimizer.
        """
        result = self.state_dict()
        state = dict(result["state"])
        for index, shard in enumerate(self._shards):
            entries = dict(state.get(index, {}))
            for key, value in sorted(entries.items()):
                if shard.is_part(key, value):
                    name = f"{self._tensor_names.of(shard.parameter)}.state.{key}"
                    entries[key] = shard.whole(self._gathered(value, name))
            if entries:
                state[index] = entries
        return {**result, "state": state}

    def _gathered(self, part: torch.Tensor, name: str) -> torch.Tensor:
        if not self._active:
            return part
        return synchronize(allgather_async(part.contiguous(), name, self.process_set))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load this rank's ``state_dict()``, or the ``full_state_dict()`` of any number of ranks."""
        state = {}
        for index, entries in state_dict["state"].items():
            shard = self._shards[index]
            state[index] = {key: shard.cut(key, value) for key, value in entries.items()}
        super().load_state_dict({**state_dict, "state": state})
        self._handles.clear()
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)

    def _broadcast_state(self, root_rank: int) -> None:
        """Broadcast the root's options, for ``broadcast_optimizer_state``; state must be on all ranks or on none."""
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        for group, values in zip(self.param_groups, broadcast_object(options, root_rank, "optimizer_state")):
            group.update(values)
        if len(set(allgather_object(bool(self.state), "sharded.has_state"))) > 1:
            raise ValueError(SOME_HAVE_STATE)
