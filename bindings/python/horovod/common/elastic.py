"""State that survives the loss of workers, and the loop that goes on with it. The same for every framework."""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from horovod.common import stragglers
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.runner.elastic.worker import TELLS_STRAGGLERS, HostUpdateResult, notification_manager

_ENDED = "Horovod has been shut down"  # in what operations end with when the job has failed

Training = TypeVar("Training", bound=Callable[..., Any])


class State:
    """What training needs to go on after a reset. Subclasses say how it is saved, restored and synchronised.

    Parameters
    ----------
    bcast_object : callable
        ``bcast_object(obj)`` returns rank 0's object on all ranks.
    get_rank : callable
        Returns this process's rank.

    Attributes
    ----------
    may_go : sequence of int, optional
        The ranks that may leave the job without a loss of what was saved last; None for all.
    """

    may_go: Sequence[int] | None = None

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these after every reset, when the number of workers may be another."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Forget old notices and adapt to the new job; called after every reset."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Take note that the hosts changed; called on any thread."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Save the state, then look whether hosts changed."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt, on all ranks together, when rank 0 was told that the hosts changed.

        Collective. Raises nothing for a notice that is no newer than the last.
        """
        newest, flags = self._last_updated_timestamp, HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > self._last_updated_timestamp:
                newest = max(newest, timestamp)
                flags |= update
        previous, self._last_updated_timestamp, flags = self._bcast_object(
            (self._last_updated_timestamp, newest, flags)
        )
        if self._last_updated_timestamp > previous:
            raise HostsUpdatedInterrupt(flags == HostUpdateResult.removed)

    def save(self) -> None:
        """Keep a copy of the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give all ranks the state of rank 0; collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to another number of workers."""


class ObjectState(State):
    """Values as attributes, broadcast as one object.

    Parameters
    ----------
    bcast_object, get_rank
        As in :class:`State`.
    **kwargs
        The attributes and their first values.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._set_attrs()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._saved_state}

    def save(self) -> None:
        """Keep the attributes' values."""
        self._saved_state = self._values()

    def restore(self) -> None:
        """Set the attributes to the values of the last save."""
        self._set_attrs()

    def sync(self) -> None:
        """Broadcast the last saved values and take them over."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()


@functools.cache
def _tell_of_stragglers() -> None:
    if TELLS_STRAGGLERS in os.environ:
        stragglers.tell(lambda straggler: notification_manager.waits_for(straggler.rank))


def run_fn(func: Training, reset: Callable[[], None], *kinds: type[Exception]) -> Training:
    """Return `func` in a loop that starts it again after a failure or a change of hosts.

    Parameters
    ----------
    func : callable
        ``func(state, *args, **kwargs)``.
    reset : callable
        Shuts the engine down and starts it with the workers that there are now.
    *kinds : type
        The framework's classes of errors: one that tells of the engine's end counts as HorovodInternalError.

    Returns
    -------
    callable
        Takes the same arguments and returns what `func` returned in the end. After HorovodInternalError the state goes
        back to its last commit; after HostsUpdatedInterrupt it goes on as it is. Then all workers, with those that have
        just come, call the state's reset callbacks, which may hold collectives, and where any worker needs to, all
        synchronise their state before they go on. Other exceptions pass.
    """
    lost: tuple[type[Exception], ...] = (HorovodInternalError, *kinds)

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.init()
        _tell_of_stragglers()
        notification_manager.register_listener(state)
        sync, lost_rank = True, None
        may_go: Sequence[int] | None = None
        is_between = notification_manager.is_guest()  # it has set up alone, and joins the others
        try:
            while True:
                if is_between:
                    notification_manager.leave(sync, lost_rank, may_go)
                    reset()
                try:
                    if is_between:
                        state.on_reset()
                        sync = notification_manager.resume(sync)
                    if sync:
                        state.sync()
                        notification_manager.synced()
                    return func(state, *args, **kwargs)
                except lost as error:
                    if not isinstance(error, HorovodInternalError) and _ENDED not in str(error):
                        raise
                    state.restore()
                    # The ranks that have copies of the state may be gone.
                    sync, lost_rank, may_go = True, getattr(error, "lost_rank", None), ()
                except HostsUpdatedInterrupt as interrupt:
                    sync, lost_rank, may_go = not interrupt.skip_sync, None, state.may_go
                is_between = True
        finally:
            notification_manager.remove_listener(state)

    return cast(Training, wrapper)
