"""horovod.data: loaders that read ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    """Epoch after epoch, numbers that go on; may fail at one of them."""

    def __init__(self, count: int, fails_at: int | None = None) -> None:
        self.count, self.fails_at = count, fails_at
        self.read = 0
        self.has_read = threading.Condition()

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[int]:
        for _ in range(self.count):
            if self.read == self.fails_at:
                self.fails_at = None
                raise OSError("no such number")
            with self.has_read:
                self.read += 1
                self.has_read.notify_all()
            yield self.read

    def _process_batch(self, batch: int) -> tuple[int, str]:
        return batch, threading.current_thread().name


class AheadNumbers(AsyncDataLoaderMixin, Numbers):
    """The same, read ahead."""


def values(loader: BaseDataLoader) -> list[int]:
    return [value for value, _ in loader]


def threads() -> int:
    return sum(thread.name == "horovod-data" for thread in threading.enumerate())


@pytest.mark.parametrize("size", [0, 1, 64])
def test_epochs_follow_one_another(size: int) -> None:
    loader = AheadNumbers(size, False, 5)
    assert len(loader) == 5
    assert [values(loader) for _ in range(3)] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15]]
    assert threads() == (size > 0)
    loader.close_async_loader()
    loader.close_async_loader()
    assert threads() == 0


def test_reads_ahead_but_not_further_than_there_is_room() -> None:
    loader = AheadNumbers(3, count=100)
    numbers = iter(loader)
    assert next(numbers) == (1, "MainThread")
    with loader.has_read:
        assert loader.has_read.wait_for(lambda: loader.read == 5, timeout=30)  # one taken, three kept, one in hand
        assert not loader.has_read.wait_for(lambda: loader.read > 5, timeout=0.2)
    loader.close_async_loader()


def test_an_epoch_that_is_left_is_not_taken_up_again() -> None:
    loader = AheadNumbers(2, count=10)
    for value, _ in loader:
        if value == 3:
            break
    again = values(loader)
    assert len(again) == 10
    assert again[0] > 3
    assert threads() == 1
    loader.close_async_loader()


def test_an_error_comes_to_the_consumer_and_the_next_epoch_is_whole() -> None:
    loader = AheadNumbers(count=4, fails_at=2)
    got = []
    with pytest.raises(OSError, match="no such number"):
        for value, _ in loader:
            got.append(value)
    assert got == [1, 2]
    assert values(loader) == [3, 4, 5, 6]
    loader.close_async_loader()


def test_an_error_of_the_next_epoch_waits_for_this_ones_end() -> None:
    loader = AheadNumbers(count=4, fails_at=6)
    numbers = iter(loader)
    assert next(numbers)[0] == 1
    loader._ahead._thread.join(30)  # it has read and failed as far as it goes
    assert [value for value, _ in numbers] == [2, 3, 4]
    numbers = iter(loader)
    assert [next(numbers)[0] for _ in range(2)] == [5, 6]
    with pytest.raises(OSError, match="no such number"):
        next(numbers)
    loader.close_async_loader()


def test_says_what_it_does(capfd: pytest.CaptureFixture[str]) -> None:
    loader = AheadNumbers(4, True, count=1)
    values(loader)
    loader.close_async_loader()
    assert capfd.readouterr().out == "horovod.data: reads ahead\nhorovod.data: reads no more\n"
