"""A loader's interface, and what makes any loader read ahead."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

_EPOCH_ENDS = object()
_LOOK_SECONDS = 0.1  # at whether a thread that waits for room is to end


class BaseDataLoader:
    """Iterates over batches: a subclass has ``__len__`` and ``_iterate``."""

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        raise NotImplementedError

    def _iterate(self) -> Iterator[Any]:
        """Yield the batches of one epoch."""
        raise NotImplementedError

    def _process_batch(self, batch: Any) -> Any:
        """Return a batch as the consumer wants it; called by the consumer's thread."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        """Iterate over one epoch."""
        for batch in self._iterate():
            yield self._process_batch(batch)


class AsyncDataLoaderMixin:
    """Has ``_iterate`` run ahead in a thread, across the end of an epoch; stands before the loader's class.

        class Loader(AsyncDataLoaderMixin, MyLoader): ...

    Parameters
    ----------
    async_loader_queue_size : int
        Batches that are read ahead at most; 0: none, and there is no thread.
    debug_data_loader : bool
        Say on standard output when the thread begins and ends.
    *args, **kwargs
        Of the loader.
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        super().__init__(*args, **kwargs)
        self._ahead: _Ahead | None = None

    def __iter__(self) -> Iterator[Any]:
        """Iterate over one epoch; one that was left before its end is not taken up again.

        Raises whatever ``_iterate`` raises, after the batches before that.
        """
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        if self._ahead is None or self._ahead.in_epoch:
            self.close_async_loader()
            self._ahead = _Ahead(self, self.async_loader_queue_size, self.debug_data_loader)
        for batch in self._ahead.epoch():
            yield self._process_batch(batch)  # type: ignore[attr-defined]

    def close_async_loader(self) -> None:
        """End the thread; the next iteration starts another."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()


class _Failure:
    """The error that ended the thread, in its place behind the batches before it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Ahead:
    """A thread that goes through a loader's epochs, and what it has read."""

    def __init__(self, loader: Any, most: int, says_so: bool) -> None:
        self.in_epoch = False
        self._loader = loader
        self._says_so = says_so
        self._read: queue.Queue[Any] = queue.Queue(most)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="horovod-data", daemon=True)
        self._thread.start()

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of the epoch that is next."""
        self.in_epoch = True
        while (batch := self._read.get()) is not _EPOCH_ENDS:
            if isinstance(batch, _Failure):  # the thread has ended with it, and in_epoch has a new one made next time
                raise batch.error
            yield batch
        self.in_epoch = False

    def close(self) -> None:
        self._ends.set()
        self._thread.join()

    def _say(self, text: str) -> None:
        if self._says_so:
            print(f"horovod.data: {text}", flush=True)

    def _put(self, item: Any) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(queue.Full):
                self._read.put(item, timeout=_LOOK_SECONDS)
                return

    def _run(self) -> None:
        self._say("reads ahead")
        try:
            while not self._ends.is_set():
                for batch in self._loader._iterate():
                    self._put(batch)
                    if self._ends.is_set():
                        break
                self._put(_EPOCH_ENDS)
        except BaseException as error:  # noqa: BLE001 (raised to the consumer)
            self._put(_Failure(error))
        self._say("reads no more")
