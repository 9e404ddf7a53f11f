"""The subclass behind ``DistributedOptimizer`` for every reduction but Adasum."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from horovod.common.basics import Average
from horovod.common.compression import wire_format_of
from horovod.common.exceptions import HorovodInternalError
from horovod.common.operations import expect
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _ops
from horovod.torch._buckets import Bucket, make_buckets
from horovod.torch._copies import copy_optimizer, distribute, wrapped
from horovod.torch._groups import assign_groups
from horovod.torch._hooks import on_gradient, zero_gradient
from horovod.torch._names import TensorNames, checked_names
from horovod.torch._tensors import start
from horovod.torch._unused import ask_for_unused
from horovod.torch.compression import Compressor
from horovod.torch.mpi_ops import size, sparse_allreduce_async

OTHER_LOSS = (
    "Where another model's loss reaches these parameters, as a GAN's does, let them have no gradients then: "
    "model.requires_grad_(False)."
)
TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
    f"backward_passes_per_step to accumulate gradients locally. {OTHER_LOSS}"
)
CLEARED_TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    f"This is prohibited as it can cause a race condition. {OTHER_LOSS}"
)


class DistributedMixin(torch.optim.Optimizer):
    """Comes before the wrapped optimizer's class in the method resolution order.

    Attributes have Horovod's names where it has such: other code reads them, and copies the methods.
    """

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """Make an instance of a class that a program made of these methods; arguments as Horovod's."""
        wrapped(self).__init__(params)
        distribute(
            self,
            checked_names(self, named_parameters),
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            groups,
            sparse_as_dense,
            process_set,
        )

    def _start_distributing(
        self,
        name_of: dict[torch.Tensor, str],
        compression: type[Compressor],
        passes: int,
        op: int,
        predivide: float,
        groups: int | Sequence[Sequence[torch.Tensor]] | None,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        in_buckets: bool = False,
        unused_as_none: bool = False,
    ) -> None:
        if passes <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self._parameter_names = name_of
        self._compression = compression
        self.op = op
        self.gradient_predivide_factor = predivide
        self._prescale = 1.0 / predivide if op == Average else 1.0
        self._postscale = predivide if op == Average else 1.0
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._unused_as_none = unused_as_none
        self.backward_passes_per_step = passes
        self._trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._tensor_names = TensorNames(self, self._trained, name_of, process_set)
        self._allreduce_delay = dict.fromkeys(self._trained, passes)
        # Calls that end the reductions under way; the members of a group share one.
        self._handles: dict[torch.Tensor, Callable[[], Any]] = {}
        # Parameters whose gradients are sparse, as far as this rank knows.
        self._sparse = {p for p in self._trained if p.grad is not None and p.grad.is_sparse}
        self._left_out: set[torch.Tensor] = set()
        self._synchronized = False
        self._should_synchronize = True
        self._hooks: list[Any] = []
        self._active = bool(process_set.included()) and (size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1")
        trained = {self._parameter_names[parameter]: parameter for parameter in self._trained}
        self._group_of = assign_groups(groups, trained, process_set, self._active)
        self._bucket_of: dict[torch.Tensor, Bucket] = {}
        if in_buckets and self._active:
            self._bucket_of = make_buckets([p for p in self._trained if p not in self._sparse], name_of)
            self._group_of = {parameter: bucket.members for parameter, bucket in self._bucket_of.items()}
        self._hook_parameters()

    @property
    def _requires_update(self) -> set[torch.Tensor]:
        """Whose gradients are reduced in a step where they got none; programs set it to leave some out."""
        return set(self._trained) - self._left_out

    @_requires_update.setter
    def _requires_update(self, parameters: Iterable[torch.Tensor]) -> None:
        self._left_out = set(self._trained) - set(parameters)

    def _hook_parameters(self) -> None:
        if self._active:
            self._hooks = [on_gradient(parameter, self._on_gradient) for parameter in self._trained]

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedMixin:
        memo[id(self.process_set)] = self.process_set  # the copy is of the same set
        return copy_optimizer(self, memo)

    # --- during the backward pass ---

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        delay = self._allreduce_delay[parameter] - 1
        if delay < 0 or parameter in self._handles:
            raise AssertionError(TOO_MANY_PASSES)
        self._synchronized = False  # true of the gradients before, whose step was perhaps left out
        if parameter.grad.is_sparse:
            self._sparse.add(parameter)
        if self._bucket_of and parameter in self._bucket_of:
            self._keep_in_bucket(parameter)
        self._allreduce_delay[parameter] = delay
        if delay > 0:
            return
        members = self._group_of.get(parameter)
        if members is None:
            self._reduce_one(parameter)
        elif all(self._allreduce_delay[member] == 0 for member in members):
            self._reduce_group(members)

    def _keep_in_bucket(self, parameter: torch.Tensor) -> None:
        bucket = self._bucket_of[parameter]
        if bucket.holds(parameter):
            return None
        gradient = parameter.grad
        if gradient is None or bucket.can_hold(gradient):
            return bucket.take_in(parameter)
        kind = "sparse" if gradient.is_sparse else f"{gradient.dtype} on {gradient.device}"
        warnings.warn(
            f"gradient_as_bucket_view: the gradient of '{self._parameter_names[parameter]}' is {kind}, which its "
            "bucket can't hold. The bucket's gradients are reduced one by one from here on.",
            stacklevel=2,
        )
        for member in bucket.members:
            del self._bucket_of[member], self._group_of[member]
            if member is not parameter and self._allreduce_delay[member] == 0:
                self._reduce_one(member)
        return None

    def _reduce_one(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        handle, context = self._allreduce_grad_async(parameter)
        if callable(handle):
            self._handles[parameter] = lambda: setattr(parameter, "grad", handle())
        else:
            self._handles[parameter] = lambda: self._put_back(parameter, gradient, expect(handle), context)

    def _allreduce_grad_async(self, parameter: torch.Tensor) -> tuple[Any, Any]:
        """Start a reduction; return its handle, or what gives a sparse gradient, and the compression's context.

        Programs replace it by a reduction of their own.
        """
        name, gradient = self._tensor_names.of(parameter), parameter.grad
        if gradient.is_sparse and not self.sparse_as_dense:
            return sparse_allreduce_async(gradient, name, self.op, self.process_set), None
        sent, context = self._compressed(gradient)
        return self._started(sent, name), context

    def _reduce_group(self, members: Sequence[torch.Tensor]) -> None:
        if members[0] in self._bucket_of:
            return self._reduce_bucket(self._bucket_of[members[0]])
        if any(member.grad.is_sparse for member in members) and not self.sparse_as_dense:
            raise ValueError("Groups cannot contain parameters with sparse gradients; set sparse_as_dense=True.")
        gradients = [member.grad for member in members]
        pairs = [self._compressed(gradient) for gradient in gradients]
        name, sent = self._tensor_names.of(members[0]), [sent for sent, _ in pairs]
        handle = start(*_ops.prepare_grouped_allreduce(sent, True, name, *self._terms))

        def finish() -> None:
            for member, gradient, reduced, (_, context) in zip(members, gradients, expect(handle), pairs):
                self._put_back(member, gradient, reduced, context)

        self._handles.update(dict.fromkeys(members, finish))
        return None

    def _reduce_bucket(self, bucket: Bucket) -> None:
        handle = self._started(bucket.flat, self._tensor_names.prefix(bucket.members[0]) + bucket.name)
        self._handles.update(dict.fromkeys(bucket.members, lambda: expect(handle)))

    def _started(self, tensor: torch.Tensor, name: str) -> int:
        return start(*_ops.prepare_allreduce(tensor, True, name, *self._terms))

    @property
    def _terms(self) -> tuple[Any, ...]:
        """Of every allreduce: what follows its name."""
        factors = (self._prescale, self._postscale)
        return self.op, *factors, self.process_set, wire_format_of(self._compression)

    def _compressed(self, gradient: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return self._compression.compress((gradient.to_dense() if gradient.is_sparse else gradient).contiguous())

    def _put_back(self, parameter: torch.Tensor, gradient: torch.Tensor, reduced: torch.Tensor, context: Any) -> None:
        """Put what was reduced into the gradient that it was made of."""
        result = self._compression.decompress(reduced, context)
        if gradient.is_sparse:
            parameter.grad = result.to_sparse()
        elif result is not gradient and result.data_ptr() != gradient.data_ptr():
            with torch.no_grad():
                gradient.copy_(result)

    # --- the optimizer's interface ---

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change after how many backward passes gradients are reduced."""
        self.backward_passes_per_step = passes
        self._reset_delays()

    def _reset_delays(self) -> None:
        self._allreduce_delay = dict.fromkeys(self._allreduce_delay, self.backward_passes_per_step)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Load a state and forget reductions that were under way."""
        with contextlib.suppress(HorovodInternalError):  # nobody will read what they would have brought
            self._wait_for_all()
        self._synchronized = False
        self._reset_delays()
        wrapped(self).load_state_dict(*args, **kwargs)

    def _adopt_new_parameters(self) -> None:
        """Take in parameters that were added to a group, or unfrozen, since the last step."""
        for i, group in enumerate(self.param_groups):
            for j, parameter in enumerate(group["params"]):
                if parameter.requires_grad and parameter not in self._allreduce_delay:
                    self._parameter_names.setdefault(parameter, f"allreduce.noname.{i}.{j}")
                    self._trained.append(parameter)
                    self._allreduce_delay[parameter] = self.backward_passes_per_step
                    self._hooks.append(on_gradient(parameter, self._on_gradient))

    def synchronize(self) -> None:
        """Wait until all gradients are reduced; parameters that got no gradient contribute zeros."""
        if not self._active:
            self._synchronized = True
            return
        self._adopt_new_parameters()
        unused = None
        if self._unused_as_none and self._trained:
            unused = ask_for_unused(self._trained, self._tensor_names.of(self._trained[0]), self.process_set)
        if len(self._handles) < len(self._trained):
            self._reduce_the_others()
        self._tensor_names.compare()
        self._wait_for_all()
        for parameter in unused() if unused is not None else ():
            parameter.grad = None
        for bucket in dict.fromkeys(self._bucket_of.values()):
            bucket.move_within_reach(self.process_set)
        self._reset_delays()
        self._synchronized = True

    def _reduce_the_others(self) -> None:
        for parameter in self._trained:
            if parameter in self._handles or parameter in self._left_out:
                continue
            members = self._group_of.get(parameter, [parameter])
            for member in members:
                if member in self._bucket_of:
                    self._keep_in_bucket(member)
            if parameter in self._handles:  # its bucket could not hold one of them
                continue
            for member in members:
                if member.grad is None:
                    member.grad = zero_gradient(member, member in self._sparse)
            if parameter in self._group_of:
                self._reduce_group(members)
            else:
                self._reduce_one(parameter)

    def _wait_for_all(self) -> None:
        # Every reduction is waited for, whatever becomes of the others: none may touch a gradient afterwards. The last
        # comes first: this thread drives the engine until that has ended, and mostly finds the others ended too.
        finishes = list(dict.fromkeys(reversed(self._handles.values())))
        self._handles.clear()
        first_error: Exception | None = None
        for finish in finishes:
            try:
                finish()
            except Exception as error:  # noqa: BLE001 (raised below)
                first_error = error
        if first_error is not None:
            self._reset_delays()
            raise first_error

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, ``step()`` does not synchronise, because ``synchronize()`` was called by hand (to clip gradients)."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduce what is left, wait, and step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return self._step_locally(closure)

    step.hooked = True  # type: ignore[attr-defined]  # torch runs step hooks around the wrapped class's step

    def _step_locally(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            return wrapped(self).step()
        return wrapped(self).step(lambda: self._evaluate(closure))

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        """Call the closure; what its backward passes computed is reduced before the optimizer looks at it."""
        loss = closure()
        if any(delay != self.backward_passes_per_step for delay in self._allreduce_delay.values()):
            self.synchronize()
            self._synchronized = False
        return loss

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clear the gradients; not while reductions of them are under way."""
        if self._handles:
            raise AssertionError(CLEARED_TOO_EARLY)
        self._synchronized = False
        wrapped(self).zero_grad(*args, **kwargs)
