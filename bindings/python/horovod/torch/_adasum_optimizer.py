"""The subclass behind ``DistributedOptimizer(op=Adasum)``: ranks combine their updates, not their gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from horovod.common.basics import Adasum
from horovod.common.operations import expect
from horovod.common.process_sets import global_process_set
from horovod.torch._copies import copy_optimizer, distribute, wrapped
from horovod.torch._distributed_optimizer import CLEARED_TOO_EARLY, TOO_MANY_PASSES
from horovod.torch._hooks import on_gradient
from horovod.torch._names import TensorNames, checked_names
from horovod.torch.compression import Compressor
from horovod.torch.mpi_ops import allreduce_async_


class DistributedAdasumMixin(torch.optim.Optimizer):
    """Comes before the wrapped optimizer's class in the method resolution order.

    When a gradient is complete, the wrapped optimizer steps for that parameter alone; the difference that the step made
    is combined over the ranks and added to the value from before.
    """

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
    ) -> None:
        """Make an instance of a class that a program made of these methods; arguments as Horovod's."""
        wrapped(self).__init__(params)
        distribute(self, checked_names(self, named_parameters), compression, backward_passes_per_step)

    def _start_distributing(self, name_of: dict[torch.Tensor, str], compression: type[Compressor], passes: int) -> None:
        if passes <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self._parameter_names = name_of
        self._compression = compression
        self.backward_passes_per_step = passes
        self._trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._tensor_names = TensorNames(self, self._trained, name_of, global_process_set)
        self._allreduce_delay = dict.fromkeys(self._trained, passes)
        self._handles: dict[torch.Tensor, tuple[int, torch.Tensor, Any]] = {}
        self._hook_parameters()

    def _hook_parameters(self) -> None:
        self._hooks = [on_gradient(parameter, self._on_gradient) for parameter in self._trained]

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedAdasumMixin:
        return copy_optimizer(self, memo)

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if parameter in self._handles or self._allreduce_delay[parameter] <= 0:
            raise AssertionError(TOO_MANY_PASSES)
        self._allreduce_delay[parameter] -= 1
        if self._allreduce_delay[parameter] == 0:
            self._allreduce_grad_async(parameter)

    def _allreduce_grad_async(self, parameter: torch.Tensor) -> None:
        before = parameter.detach().clone()
        self._step_for(parameter)
        with torch.no_grad():
            update = (parameter - before).contiguous()
            parameter.copy_(before)
        sent, context = self._compression.compress(update)
        handle = allreduce_async_(sent, name=self._tensor_names.of(parameter), op=Adasum)
        self._handles[parameter] = (handle, before, context)

    def _step_for(self, parameter: torch.Tensor) -> None:
        members = [group["params"] for group in self.param_groups]
        for group in self.param_groups:
            group["params"] = [p for p in group["params"] if p is parameter]
        try:
            wrapped(self).step()
        finally:
            for group, params in zip(self.param_groups, members):
                group["params"] = params

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change after how many backward passes updates are combined."""
        self.backward_passes_per_step = passes
        self._allreduce_delay = dict.fromkeys(self._trained, passes)

    def synchronize(self) -> None:
        """Do nothing: there are no reduced gradients to look at."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Not available: the update happens when gradients arrive."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Wait for the combined updates and apply them."""
        loss = closure() if closure is not None else None
        for parameter in self._trained:
            if parameter not in self._handles:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                self._allreduce_grad_async(parameter)
        self._tensor_names.compare()
        running, self._handles = self._handles, {}
        self._allreduce_delay = dict.fromkeys(self._trained, self.backward_passes_per_step)
        for parameter, (handle, before, context) in running.items():
            update = self._compression.decompress(expect(handle), context)
            with torch.no_grad():
                parameter.copy_(before + update)
        return loss

    step.hooked = True  # type: ignore[attr-defined]  # torch runs step hooks around the wrapped class's step

    def _step_locally(self, closure: Callable[[], Any] | None = None) -> Any:
        return wrapped(self).step(closure) if closure is not None else wrapped(self).step()

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clear the gradients; not while updates are being combined."""
        if self._handles:
            raise AssertionError(CLEARED_TOO_EARLY)
        wrapped(self).zero_grad(*args, **kwargs)
