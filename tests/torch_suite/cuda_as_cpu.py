"""Has tests that ask for GPUs run without any: what names a GPU means the host's memory, where Python sees the name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


class _HostMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = {name: _on_host(value) for name, value in (kwargs or {}).items()}
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        if name == "to":
            args = (args[0], *("cpu" if type(value) is int else _on_host(value) for value in args[1:]))
        if type(kwargs.get("device")) is int:
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def pretend(count: int) -> Callable[[], object]:
    """Pretend that there are `count` GPUs; return what each rank calls when it begins."""
    cuda: Any = torch.cuda
    cuda.is_available, cuda.device_count, cuda.current_device = lambda: True, lambda: count, lambda: 0
    for name in ("set_device", "synchronize", "manual_seed", "manual_seed_all", "empty_cache"):
        setattr(cuda, name, lambda *_, **__: None)
    module, to = torch.nn.Module, torch.nn.Module.to
    module.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]

    def module_to(self: torch.nn.Module, *args: Any, **named: Any) -> torch.nn.Module:
        args = tuple("cpu" if type(value) is int else _on_host(value) for value in args)
        return to(self, *args, **{name: _on_host(value) for name, value in named.items()})

    module.to = module_to  # type: ignore[method-assign,assignment]
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    begin = ddp.__init__

    @functools.wraps(begin)
    def ddp_begin(self: Any, wrapped: Any, _: Any = None, __: Any = None, *args: Any, **named: Any) -> None:
        named = {name: value for name, value in named.items() if name not in ("device_ids", "output_device")}
        begin(self, wrapped, None, None, *args, **named)

    ddp.__init__ = ddp_begin
    return _HostMode().__enter__
