"""Functions that run in threads of their own."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Have threads that are started meanwhile take no signals: one that the program blocks would find them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_arguments(args: Any) -> None:
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}; for a single argument use (arg,).")


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Start a thread that calls ``target(*args)``, and return it.

    Parameters
    ----------
    target : callable
        What it returns is dropped.
    args : tuple
        Its arguments.
    name : str, optional
        The thread's name.
    daemon : bool
        Let the process end without it.
    silent : bool
        Drop what it raises instead of printing it.
    """
    _check_arguments(args)

    def run() -> None:
        with contextlib.suppress(*([Exception] if silent else [])):
            target(*args)

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Start a thread that calls ``func(*args)`` once `event` is set, and return it.

    Parameters
    ----------
    event : threading.Event
        What is waited for.
    func : callable
        What it returns is dropped.
    args : tuple
        Its arguments.
    stop : threading.Event, optional
        Ends the wait without a call. An `event` that is set at the same time wins.
    check_stop_interval_s : float
        How often `stop` is looked at.
    daemon, silent : bool
        As in :func:`in_thread`.

    Raises
    ------
    ValueError
        Without an event.
    """
    if event is None:
        raise ValueError("Event must not be None.")
    _check_arguments(args)

    def wait() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        func(*args)

    return in_thread(wait, name=f"on_event {getattr(func, '__name__', func)}", daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Call ``fn(*args)`` for every `args` of a list, in several threads.

    Parameters
    ----------
    fn : callable
        May be called by several threads at once.
    args_list : sequence of sequences
        The arguments of each call.
    block_until_all_done : bool
        Wait for the results.
    max_concurrent_executions : int
        How many threads there are at most.

    Returns
    -------
    dict or None
        What the call with ``args_list[index]`` returned, by index; None without waiting.

    Raises
    ------
    Exception
        With waiting: what the first of the calls that failed raised, after all calls ended.
    """
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}
    lock, numbers = threading.Lock(), itertools.count()

    def work() -> None:
        while True:
            with lock:
                index = next(numbers)
            if index >= len(args_list):
                return
            try:
                results[index] = fn(*args_list[index])
            except Exception as error:
                if not block_until_all_done:
                    raise
                errors[index] = error

    count = min(len(args_list), max(1, max_concurrent_executions))
    threads = [in_thread(work, daemon=not block_until_all_done) for _ in range(count)]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return results
