"""Which steps of a long job are read: all where that takes seconds, else some from everywhere and the longest ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from horovod.observe.steps import Steps, choose_anchor, steps_of
from horovod.observe.timeline import Key, NoTimelineError, RankTimeline, TimelineFile

_MOST_BYTES = 200 << 20  # of all files together, that are read: some ten seconds
_BYTES_FOR_NAMES = 1 << 24  # of the first file, from which the tensor is chosen that tells steps apart
_BLOCK = 8  # steps that are read together; the one before and the one after are read with them
_LEAST_BLOCKS = 8
_WORST = 5
_CHUNK = 1 << 23
_NEAR = 1 << 13  # bytes
_PROBE = 1 << 15

_LAUNCH = re.compile(rb'"launch": (\d{1,18}), "set": (\d{1,9})[,}]')


def _drawn(lengths: Sequence[float]) -> list[int]:
    """Return the steps that are looked at one by one: the median, the 95th percentile, and the longest."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    chosen = [order[(len(order) - 1) // 2], order[(len(order) - 1) * 95 // 100], *reversed(order[-_WORST:])]
    return list(dict.fromkeys(chosen))


def choose_steps(files: Sequence[TimelineFile], most_bytes: int = _MOST_BYTES) -> tuple[Steps, RankTimeline | None]:
    """Return the steps of a job, with those that are to be read, and the first file's timeline if that is read whole.

    Parameters
    ----------
    files : sequence of TimelineFile
        The ranks' files. The first one tells the steps apart.
    most_bytes : int
        How much is read of all files together.

    Raises
    ------
    NoTimelineError
        When no tensor comes twice in the first file.
    """
    total = sum(file.size for file in files)
    whole = None
    steps = Steps({}, "", [])
    if total > most_bytes and files[0].has_lines:
        steps = _all_steps(files[0], files[0].timeline([(0, min(most_bytes, _BYTES_FOR_NAMES))]))
    if not steps.lengths:  # or the file does not tell of launches
        whole = files[0].timeline()
        steps = steps_of(whole)
    if not steps.lengths:
        raise NoTimelineError(f"the timeline of rank {files[0].about.rank} has no step: no tensor comes twice")
    steps.drawn = _drawn(steps.lengths)
    if whole is None:
        count = len(steps.lengths)
        blocks = min(max(int(most_bytes / total * count / (_BLOCK + 2)), _LEAST_BLOCKS), count)
        begins = [block * count // blocks for block in range(blocks)]
        steps.chosen = {*steps.drawn, *(n for begin in begins for n in range(begin, min(begin + _BLOCK, count)))}
    return steps, whole


def _all_steps(file: TimelineFile, beginning: RankTimeline) -> Steps:
    """Return the steps of a file that is not read whole, from two lines of each."""
    name = choose_anchor(beginning)
    row = next(use.row for use in beginning.uses if use.name == name)
    submitted = re.compile(rb'"name": "%d", "ph": "X", "ts": (\d{1,18}), "pid": %d,' % (file.about.rank, row))
    launched = re.compile(rb'"pid": %d, "args": \{"launch": (\d{1,18}), "set": (\d{1,9})[,}]' % row)
    numbers: dict[Key, int] = {}
    begins: list[int] = []
    begin = None
    for lines in _lines(file):
        found = [*submitted.finditer(lines), *launched.finditer(lines)]
        for match in sorted(found, key=lambda match: match.start()):
            if match.re is submitted:
                begin = int(match[1])
            elif begin is not None:
                numbers[int(match[2]), int(match[1])] = len(begins)
                begins.append(begin)
                begin = None
    return Steps(numbers, name, [float(after - before) for before, after in zip(begins, begins[1:])])


def _lines(file: TimelineFile) -> Iterator[bytes]:
    with file.path.open("rb") as opened:
        while data := opened.read(_CHUNK):
            yield data + opened.readline(_CHUNK)


def parts_of(file: TimelineFile, steps: Steps) -> list[tuple[int, int]]:
    """Return the parts of a rank's file, in bytes, in which the chosen steps are."""
    if steps.chosen is None or not file.has_lines:
        return [(0, file.size)]
    keys = {number: key for key, number in steps.numbers.items()}
    parts: list[tuple[int, int]] = []
    descriptor = os.open(file.path, os.O_RDONLY)
    try:
        for first, last in _runs(sorted(steps.chosen)):
            # A rank submits its first tensor of a step after the launch in the step before, and what it submitted in
            # the last step has ended with the launch after the next.
            low = parts[-1][0] if parts else 0
            begin = _find(descriptor, keys[first - 1], low, file.size) if first else 0
            after = keys.get(last + 2)
            end = _find(descriptor, after, begin, file.size) + 2 * _NEAR if after else file.size
            if parts and begin <= parts[-1][1]:
                begin = parts.pop()[0]
            parts.append((begin, end))
    finally:
        os.close(descriptor)
    return parts


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _find(descriptor: int, key: Key, low: int, high: int) -> int:
    """Return a place in a file shortly before a launch begins, between two places: launches' numbers grow."""
    while high - low > _NEAR:
        middle = (low + high) // 2
        number = _next_launch(descriptor, key[0], middle, high)
        if number is None or number >= (key[1] or 0):
            high = middle
        else:
            low = middle
    return low


def _next_launch(descriptor: int, group: int, begin: int, end: int) -> int | None:
    """Return the number of a process set's first launch after a place."""
    while begin < end and (data := os.pread(descriptor, _PROBE, begin)):
        for match in _LAUNCH.finditer(data):
            if int(match[2]) == group:
                return int(match[1])
        begin += len(data) - 80 if len(data) == _PROBE else len(data)  # a number may lie across
    return None
