"""Models, optimizers and samplers as state of an elastic job."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from horovod.common.elastic import ObjectState
from horovod.common.exceptions import HostsUpdatedInterrupt
from horovod.runner.elastic.worker import notification_manager
from horovod.torch._sharded_optimizer import ShardedMixin
from horovod.torch.elastic.handler import StateHandler
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.sharded import ShardedOptimizerStateHandler
from horovod.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import barrier, rank


def _tensors(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], torch.Tensor]]:
    """Yield each tensor, and where it lies in mappings and lists."""
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*place, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(item, (*place, index))


def _takes(old: torch.Tensor, new: torch.Tensor) -> bool:
    is_dense = old.layout is new.layout is torch.strided and old.is_contiguous() and new.is_contiguous()
    return is_dense and (type(old), old.shape, old.dtype, old.device) == (type(new), new.shape, new.dtype, new.device)


class _StateDictHandler(StateHandler):
    """Keeps a copy of what ``state_dict()`` returns."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved: Any = None
        self.save()

    def __copy__(self) -> _StateDictHandler:
        """Return one that saves into memory of its own."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _saved=None)
        return other

    def save(self) -> None:
        # Into the memory of the last copy: getting new pages takes several times as long as copying.
        state, kept = self.value.state_dict(), dict(_tensors(self._saved))
        copies: dict[int, Any] = {}
        holds: dict[int, int] = {}  # which memory the copies' memory is for: what was one tensor may be two by now
        for place, tensor in _tensors(state):
            old = kept.get(place)
            if old is None or not _takes(old, tensor):
                continue
            if holds.setdefault(old.data_ptr(), tensor.data_ptr()) == tensor.data_ptr():
                copies[id(tensor)] = old.copy_(tensor.detach())
        self._saved = copy.deepcopy(state, copies)

    def restore(self) -> None:
        # A copy: optimizers adopt the tensors that they load, and would go on to change the saved ones.
        self.value.load_state_dict(copy.deepcopy(self._saved))


class ModelStateHandler(_StateDictHandler):
    """For ``torch.nn.Module``."""

    def sync(self) -> None:
        """Broadcast parameters and buffers."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(_StateDictHandler):
    """For ``torch.optim.Optimizer``."""

    def sync(self) -> None:
        """Broadcast options and state."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(_StateDictHandler):
    """For :class:`ElasticSampler`."""

    def sync(self) -> None:
        """Broadcast the progress and share out what is left anew."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0, name="elastic.sampler"))
        self.save()


_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (ShardedMixin, ShardedOptimizerStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """Return the pairs (class of values, class of their handlers); the first that fits is taken."""
    return _registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Replace the pairs that :func:`get_handler_registry` returns."""
    global _registry
    _registry = registry


def _handler_for(value: Any) -> StateHandler | None:
    for kind, handler in get_handler_registry():
        if isinstance(value, kind):
            return handler(value)
    return None


@dataclass
class _Commit:
    """A snapshot: what is saved together, of all ranks' parts or none.

    A rank takes the next commit in the place of the last when all have told that they have it. So where one rank has
    taken it, all others have at least kept it beside the last.
    """

    number: int
    handlers: dict[str, StateHandler]
    values: dict[str, Any]


class TorchState(ObjectState):
    """State of a training: attributes that are saved, restored and synchronised together.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Parameters and buffers.
    optimizer : torch.optim.Optimizer, optional
        Options and state.
    **kwargs
        More of these, or :class:`ElasticSampler`, or anything that can be pickled. Each becomes an attribute; setting
        one that is a module, an optimizer or a sampler saves the new one.
    """

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        handlers: dict[str, StateHandler] = {}
        plain: dict[str, Any] = {}
        for name, value in {"model": model, "optimizer": optimizer, **kwargs}.items():
            handler = _handler_for(value)
            if handler is not None:
                handlers[name] = handler
            else:
                plain[name] = value
            super().__setattr__(name, value)
        super().__setattr__("_handlers", handlers)
        self._number = 0  # of the commit; equal on all ranks that have it
        self._next: _Commit | None = None
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)

    def save(self) -> None:
        """Keep a copy of everything in memory; collective with a sharded optimizer, as :class:`_Commit` says."""
        if self._is_sharded():
            self._save_with_neighbours(self._number + 1)
            return
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Go back to the last copy."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Give all ranks the state of rank 0; collective. Of a sharded optimizer, each its part of the last commit."""
        number = self._agree_on_commit() if self._is_sharded() else 0
        for handler in self._handlers.values():
            handler.sync()
        super().sync()
        if self._is_sharded():
            self._save_with_neighbours(number + 1)

    def reset(self) -> None:
        """Share out samplers among the workers that are there now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
            elif isinstance(handler, ShardedOptimizerStateHandler):
                handler.leaving = ()  # they have left, and ranks have other numbers

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt, on all ranks together; before, save a state of which a rank has a part alone."""
        try:
            super().check_host_updates()
        except HostsUpdatedInterrupt:
            if not self._is_sharded():
                raise
            leaving = broadcast_object(notification_manager.leaving(), 0, "elastic.leaving")
            self._save_with_neighbours(self._number + 1, leaving)
            raise HostsUpdatedInterrupt(skip_sync=False) from None

    # --- with a sharded optimizer ---

    @property
    def may_go(self) -> list[int] | None:  # type: ignore[override]
        """The ranks whose parts of the last commit others have taken over; None where each has all of it."""
        handlers = [h for h in self._handlers.values() if isinstance(h, ShardedOptimizerStateHandler)]
        return list(handlers[0].leaving) if handlers else None

    def _is_sharded(self) -> bool:
        return any(isinstance(handler, ShardedOptimizerStateHandler) for handler in self._handlers.values())

    def _save_with_neighbours(self, number: int, leaving: Sequence[int] = ()) -> None:
        self._next = None
        handlers = {name: copy.copy(handler) for name, handler in self._handlers.items()}
        for handler in handlers.values():
            if isinstance(handler, ShardedOptimizerStateHandler):
                handler.leaving = leaving
            handler.save()
        commit = _Commit(number, handlers, self._values())
        self._next = commit
        barrier()
        self._take(commit)

    def _take(self, commit: _Commit) -> None:
        self._next = None
        self._number, self._handlers, self._saved_state = commit.number, commit.handlers, commit.values

    def _agree_on_commit(self) -> int:
        """Have all ranks that have it go back to the newest commit that is complete; return its number."""
        number = max(allgather_object(self._number, "elastic.commit"))
        if self._next is not None and self._next.number == number:
            self._take(self._next)
            self.restore()
        self._next = None
        for handler in self._handlers.values():
            if isinstance(handler, ShardedOptimizerStateHandler):
                handler.has_commit = self._number == number
                if number == 0:  # at the start, from what there is
                    handler.keep()
        return number
