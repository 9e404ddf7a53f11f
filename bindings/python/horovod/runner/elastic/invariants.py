"""The invariants of a membership between any two events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from horovod.runner.elastic.generation import Stage, Worker
from horovod.runner.util.invariant import require


def check_workers(workers: Mapping[int, Worker], watched: Collection[int], next_number: int) -> None:
    """Raise InvariantError unless these can be the workers that live, of whom some are watched for an answer."""
    require(
        all(number == worker.number < next_number for number, worker in workers.items()),
        "each worker is known by the number that it was given",
    )
    places = {(worker.host, worker.slot) for worker in workers.values()}
    require(len(places) == len(workers), "each worker has a slot of its own")
    require(all(number in workers for number in watched), "only workers that live are suspected or asked")


def check_generation(generation: int, members: Sequence[Worker], workers: Mapping[int, Worker]) -> None:
    """Raise InvariantError unless these can be its members, some of whom live."""
    require((generation > 0) == bool(members), "a generation that was published has members")
    require(len({member.number for member in members}) == len(members), "each member has one rank")
    present = [worker for worker in workers.values() if worker.stage in (Stage.FORMING, Stage.TRAINING)]
    require(all(worker in members for worker in present), "who forms a generation or trains in it is a member of it")
