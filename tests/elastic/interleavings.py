"""Every order in which an elastic job's events can come, without a seed: all of them are played.

The membership is the launcher's own. Around it stand workers as processes of few lines, and two queues for each, on
which messages wait as long as one likes. From each state every event that is possible is played: a worker goes on, a
message arrives, a slot comes or goes, a worker is killed; time passes only where nothing else can happen, or where
``--early`` allows that messages are slower than a deadline. States that are equal are played once.

What must hold: the membership's own invariants; ranks of a generation begin with the same commit, which is the newest
or, where it was under way when a rank was lost, the one before; nobody is both a rank and gone; from every state the
job's end can be reached; and it ends well, but for a worker that is lost after another has finished.

    python tests/elastic/interleavings.py --ranks 3 --deaths 1 --joins 1
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from world import Event, World, begin, events, is_end, key_of, play


@dataclass
class Outcome:
    """What was played."""

    states: int = 0
    steps: int = 0
    ends: int = 0
    seconds: float = 0.0
    is_complete: bool = True


class FoundError(Exception):
    """A wrong state, with the way to it."""

    def __init__(self, what: str, way: list[Event]) -> None:
        lines = [
            f"  {i:3} {name}" + ("" if name in ("time", "slot comes", "slot goes") else f" {number}")
            for i, (name, number) in enumerate(way, 1)
        ]
        super().__init__("\n".join([what, *lines]))


def explore(world: World, most: int, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Play everything that can happen from a state.

    Raises
    ------
    FoundError
        With the events that lead to what must not be.
    """
    begun = time.monotonic()
    outcome = Outcome()
    number_of: dict[tuple, int] = {hash(key_of(world)): 0}
    came_from: list[tuple[int, Event] | None] = [None]
    before: list[list[int]] = [[]]  # states from which one comes to it
    ends: list[int] = []
    todo: list[tuple[int, bytes]] = [(0, pickle.dumps(world, -1))]

    def way(number: int, last: Event | None = None) -> list[Event]:
        events_ = [last] if last else []
        while (step := came_from[number]) is not None:
            number, event = step
            events_.append(event)
        return events_[::-1]

    while todo:
        number, text = todo.pop()
        world = pickle.loads(text)  # noqa: S301 (our own)
        possible = [] if is_end(world) else events(world)
        if is_end(world):
            ends.append(number)
        elif not possible:
            raise FoundError("nothing can happen any more, and the job is not over", way(number))
        for i, event in enumerate(possible):
            after = world if i + 1 == len(possible) else pickle.loads(text)  # noqa: S301 (our own)
            try:
                play(after, event)
            except Exception as error:
                raise FoundError(f"{type(error).__name__}: {error}", way(number, event)) from error
            outcome.steps += 1
            key = hash(key_of(after))
            known = number_of.get(key)
            if known is None:
                known = number_of[key] = len(came_from)
                came_from.append((number, event))
                before.append([])
                todo.append((known, pickle.dumps(after, -1)))
                if known % 20000 == 0:
                    progress(f"{known} states, {len(todo)} to do, {time.monotonic() - begun:.0f} s")
            before[known].append(number)
        if len(came_from) > most:
            outcome.is_complete = False
            break
    if outcome.is_complete:
        reach = set(ends)
        stack = list(ends)
        while stack:
            for previous in before[stack.pop()]:
                if previous not in reach:
                    reach.add(previous)
                    stack.append(previous)
        stuck = next((number for number in range(len(came_from)) if number not in reach), None)
        if stuck is not None:
            raise FoundError("from here on the job never ends", way(stuck))
    outcome.states, outcome.ends, outcome.seconds = len(came_from), len(ends), time.monotonic() - begun
    return outcome


def main() -> int:
    """Explore as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("ranks", 3),
        ("deaths", 1),
        ("joins", 1),
        ("removals", 0),
        ("early", 0),
        ("steps", 2),
        ("most", 10**9),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    world = begin(asked.ranks, asked.deaths, asked.joins, asked.removals, asked.early, asked.steps)
    try:
        outcome = explore(world, asked.most, lambda text: print(text, file=sys.stderr))
    except FoundError as found:
        print(found)
        return 1
    how = "all" if outcome.is_complete else "not all"
    print(f"{outcome.states} states ({how}), {outcome.steps} steps, {outcome.ends} ends, {outcome.seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
