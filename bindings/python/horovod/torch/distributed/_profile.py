"""Events of torch's profiler for operations, as torch's own backends' are: asynchronous, with the inputs' shapes."""

# TorchScript reads the annotations here, so they are no strings.

import functools
import itertools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import profiler

_MOMENT = 0.1  # seconds
_numbers = itertools.count()
_open: "dict[int, Span]" = {}


class Span:
    """An event from now until :meth:`end`, which any thread may call.

    A profiler takes note of an event's end on a thread that has the state of the one that it runs on. Python can hand
    that on to a thread of torch's pool alone: one waits for the end.
    """

    def __init__(self, name: str, inputs: Sequence[torch.Tensor]) -> None:
        self._event = torch._C._profiler._RecordFunctionFast(name, list(inputs))
        self._event.__enter__()
        self._called, self._ended = threading.Event(), threading.Event()
        number = next(_numbers)
        _open[number] = self
        self._task = _ender()(number)

    def end(self) -> None:
        """End the event; it has ended on return, unless all threads of the pool are busy."""
        self._called.set()
        self._ended.wait(_MOMENT)

    def _end(self) -> None:
        self._called.wait()
        self._event.__exit__(None, None, None)
        self._ended.set()


def begin(name: str, inputs: Sequence[torch.Tensor]) -> "Span | None":
    """Begin an event with the inputs' shapes; None while no profiler runs."""
    return Span(name, inputs) if getattr(profiler, "_is_profiler_enabled", False) else None


@torch.jit.ignore
def _end(number: int) -> int:
    _open.pop(number)._end()
    return number


def _on_a_thread(number: int) -> int:
    return _end(number)


# Returns a torch.jit.Future[int], as TorchScript finds out; its parser wants the next comment at the end of a line.
def _fork(number: int):  # type: ignore[no-untyped-def]
    return torch.jit.fork(_on_a_thread, number)


@functools.cache
def _ender() -> Callable[[int], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        return torch.jit.script(_fork)
