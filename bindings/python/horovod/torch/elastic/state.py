"""Models, optimizers and samplers as state of an elastic job."""

from __future__ import annotations

import copy
from typing import Any

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import rank


class StateHandler:
    """Knows how one kind of value is saved, restored and synchronised.

    Parameters
    ----------
    value : object
        The value to look after.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keep a copy of the value's state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give all ranks the state of rank 0; collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Look after another value from now on, and save it."""
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """Keeps a copy of what ``state_dict()`` returns."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved: Any = None
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

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
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)

    def save(self) -> None:
        """Keep a copy of everything in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Go back to the last copy."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Give all ranks the state of rank 0; collective."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Share out samplers among the workers that are there now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
