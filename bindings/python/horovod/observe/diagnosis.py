"""The diagnosis of a job, in words, from the flight recorders of its ranks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from horovod.observe.flight import Operation, Rank

# A wait that is younger is that of a job at work, and of one that ended at once.
_LONG_S = 1.0
_NOTICED_S = 0.1


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Return ``rank 3``, ``ranks 0 to 3 and 7``."""
    runs: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return _runs_in_words(runs)


def _runs_in_words(runs: Sequence[tuple[int, int]]) -> str:
    """Return runs of ranks in words, each given by its first and its last rank."""
    words = []
    for first, last in runs:
        words += [f"{first} to {last}"] if last > first + 1 else [str(each) for each in sorted({first, last})]
    text = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
    return f"rank{'s' if sum(last - first + 1 for first, last in runs) > 1 else ''} {text}"


def _absent(known: Iterable[int], size: int) -> list[tuple[int, int]]:
    """Return the runs of ranks below a size, however large, that are not known."""
    bounds = [-1, *sorted(rank for rank in set(known) if rank < size), size]
    return [(before + 1, after - 1) for before, after in zip(bounds, bounds[1:]) if after > before + 1]


def bytes_in_words(count: float) -> str:
    """Return ``4 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"


def describe(operation: Operation) -> str:
    """Return an operation's name and what it is."""
    if operation.collective in ("barrier", "join"):
        return f"a {operation.collective}" + (f" of process set {operation.set}" if operation.set else "")
    of_set = f", process set {operation.set}" if operation.set else ""
    size = bytes_in_words(operation.bytes)
    return f"'{operation.name}' ({operation.collective}, {operation.dtype}, {size}{of_set})"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _of(rank: Rank) -> str:
    where = f", at {rank.where}" if rank.where else ""
    return f"rank {rank.rank} (process {rank.pid} on {rank.host}{where})"


def _what_it_does(rank: Rank) -> str:
    if rank.is_halted:
        return f"its process is {rank.process}"
    if not rank.operations:
        return "it has submitted nothing yet"
    waits = [each for each in rank.operations if each.waits]
    if waits:
        return f"it submitted {describe(waits[0])} instead, and waits for that"
    last = rank.operations[-1]
    if last.runs:
        return f"it has not ended {describe(last)} yet"
    return f"the last that it submitted was {describe(last)}, {rank.seconds_since(last.submitted):.1f} s before"


def _is_missing(rank: Rank, key: tuple[int, str]) -> bool:
    """Whether a rank should submit the operation, and has not; one that has joined need not."""
    own = rank.by_key.get(key)
    if own is not None and not own.ended:
        return False
    in_set = [each for each in rank.operations if each.set == key[0]]
    return (key[0] == 0 or bool(in_set)) and not any(each.collective == "join" and each.waits for each in in_set)


def _turn(operation: Operation) -> tuple[int, int]:
    return operation.submitted, operation.number  # times are a few milliseconds fine


def _is_astray(rank: Rank) -> bool:
    """Whether what a rank waits for has not followed on what it did before, in all that is remembered of it."""
    times = Counter(each.key for each in rank.operations)
    # An operation without a name has a number of its own each time.
    names = [each.key if times[each.key] > 1 else each.name.rstrip("0123456789") for each in rank.operations]
    pairs = list(zip(names, names[1:]))
    first = next(index for index, each in enumerate(rank.operations) if each.waits)
    return first > 0 and pairs[first - 1] not in pairs[: first - 1]


class _Wait:
    """An operation that some ranks wait for the others with."""

    def __init__(self, ranks: Sequence[Rank], key: tuple[int, str]) -> None:
        having = [rank for rank in ranks if key in rank.by_key and rank.by_key[key].waits]
        self.operation = min((rank.by_key[key] for rank in having), key=_turn)
        self.waiting = {rank.rank for rank in having}
        self.seconds = max(rank.seconds_since(rank.by_key[key].submitted) for rank in having)
        first = next((rank.by_key[key] for rank in having if rank.by_key[key].missing_count), None)
        self.missing = set() if first is None else {first.awaited_rank}
        self.missing_count = 0 if first is None else first.missing_count
        # Members of a set are those that ever used it, as far as is remembered.
        self.missing |= {rank.rank for rank in ranks if _is_missing(rank, key)}
        self.missing_count = max(self.missing_count, len(self.missing))
        self.where = {rank.where for rank in having if rank.where}

    def who_is_missing(self) -> str:
        """Return the ranks, as far as they are known."""
        more = self.missing_count - len(self.missing)
        return ranks_in_words(self.missing) + (f" and {more} more" if more else "")


def _about_wait(ranks: Sequence[Rank], waits: Sequence[_Wait]) -> str:
    # Ranks that went different ways all wait. Those that did as most others did, or as they did before, did not go
    # astray, and one that has joined waits rightly.
    def share(wait: _Wait) -> tuple[bool, int]:
        return wait.operation.collective == "join", -len(wait.waiting)

    most = min(map(share, waits))
    equal = [wait for wait in waits if share(wait) == most]
    waiting = {each for wait in equal for each in wait.waiting}
    is_clear = len(waiting) == -most[1]  # or there are two ways, of as many ranks
    astray = set() if is_clear else {each.rank for each in ranks if each.rank in waiting and _is_astray(each)}

    def order(wait: _Wait) -> tuple[bool, int, int, int]:
        return bool(wait.waiting & astray), *_turn(wait.operation), min(wait.waiting)

    wait = min(equal, key=order)
    others = [each for each in equal if each.waiting & astray and not each.waiting & wait.waiting]
    if others and wait.waiting & astray and not most[0]:
        return _about_two_ways(ranks, wait, min(others, key=order))
    known = {rank.rank: rank for rank in ranks}
    suspects = [known[rank] for rank in wait.missing if rank in known]
    at = f" at {min(wait.where)}" if len(wait.where) == 1 else ""
    text = (
        f"{ranks_in_words(wait.waiting)} {'has' if len(wait.waiting) == 1 else 'have'} waited for "
        f"{wait.seconds:.1f} s{at} for {wait.who_is_missing()} to submit {describe(wait.operation)}"
    )
    if not suspects:
        return f"{_sentence(text)}; run roda-doctor where that runs, too."
    dead = [rank for rank in suspects if rank.is_halted]
    first = min(dead or suspects, key=lambda rank: max((each.submitted for each in rank.operations), default=0))
    return _sentence(f"{_of(first)} diverged first: {_what_it_does(first)}. {_sentence(text)}.")


def _about_two_ways(ranks: Sequence[Rank], one: _Wait, other: _Wait) -> str:
    """Return what is known where nothing tells which of them should have gone the other way."""
    known = {rank.rank: rank for rank in ranks}
    ways = [
        f"{_of(known[min(wait.waiting)])} has waited for {wait.seconds:.1f} s for {wait.who_is_missing()} to submit "
        f"{describe(wait.operation)}"
        for wait in (one, other)
    ]
    return f"{_sentence(ranks_in_words(one.waiting | other.waiting))} went different ways: {', and '.join(ways)}."


def _about_run(ranks: Sequence[Rank], key: tuple[int, str]) -> str:
    having = [rank for rank in ranks if key in rank.by_key and rank.by_key[key].runs]
    operation = having[0].by_key[key]
    seconds = max(rank.seconds_since(rank.by_key[key].agreed) for rank in having)
    text = _sentence(
        f"{ranks_in_words(rank.rank for rank in having)} {'has' if len(having) == 1 else 'have'} run "
        f"{describe(operation)} for {seconds:.1f} s, which all ranks agreed on"
        + (f", over {having[0].transports}" if having[0].transports else "")
    )
    dead = [rank for rank in ranks if rank.is_halted]
    if dead:
        return _sentence(f"{_of(dead[0])} holds the others up: its process is {dead[0].process}. {text}.")
    late = [rank for rank in having if not rank.by_key[key].launched]
    return f"{text}{f'; {ranks_in_words(r.rank for r in late)} could not start it yet' if late else ''}."


def in_brief(rank: Rank) -> Rank:
    """Return what `diagnose` looks at: of what has ended, the latest of each process set and the last to end."""
    latest = {each.set: each for each in rank.operations}
    last = max(rank.operations, key=lambda each: each.ended, default=None)
    told = [each for each in rank.operations if not each.ended or each is latest[each.set] or each is last]
    return dataclasses.replace(rank, operations=told)


def diagnose(ranks: Sequence[Rank], at_work: str = "", apart: float = 0.0) -> list[str]:
    """Return sentences: the first says what is wrong, or, of a job at work, that nothing is, or what is said of it.

    Parameters
    ----------
    ranks : sequence of Rank
        What is known of the job.
    at_work : str, optional
        What to say of a job at work.
    apart : float, optional
        Within how many seconds the ranks were looked at: a rank that was looked at first may have submitted since what
        another, looked at last, waits for.
    """
    told = []
    cause = next((rank.cause for rank in ranks if rank.cause), "")
    if cause:
        told.append(f"The job ended: {cause}")
    limit = apart + (_NOTICED_S if cause else _LONG_S)
    keys = {key for rank in ranks for key, each in rank.by_key.items() if each.waits}
    # Where a wait is long, younger ones tell, too, who went another way.
    waits = [wait for wait in (_Wait(ranks, key) for key in keys) if wait.missing]
    running = {
        each.key: each.agreed
        for rank in ranks
        for each in rank.by_key.values()
        if each.runs and rank.seconds_since(each.agreed) >= limit
    }
    if any(wait.seconds >= limit for wait in waits):
        told.append(_about_wait(ranks, waits))
    elif running:
        told.append(_about_run(ranks, min(running, key=running.__getitem__)))
    elif not cause:
        dead = [rank for rank in ranks if rank.is_halted]
        told += [_sentence(f"{_of(rank)} is {rank.process}.") for rank in dead]
        if not dead:
            ended = max((each.ended for rank in ranks for each in rank.operations), default=0)
            since = min(rank.seconds_since(ended) for rank in ranks)
            told.append(
                at_work or f"Nothing waits for another rank; the last operation ended {since:.1f} s ago."
                if ended
                else "No operation has ended yet, and none waits."
            )
    absent = _absent((rank.rank for rank in ranks), ranks[0].size)
    if absent:
        told.append(f"Nothing is known here of {_runs_in_words(absent)}, on other hosts.")
    return told
