"""A membership of an elastic job with workers that do what they are told, without processes."""

from __future__ import annotations

from horovod.runner.elastic.generation import End, Publish, Retire, Stage, Tell
from horovod.runner.elastic.membership import Limits, Membership


class Job:
    """A membership whose workers do what they are told, as far as a test does not say otherwise."""

    def __init__(self, hosts: dict[str, int], **limits: object) -> None:
        limits = {"num_proc": 2, "min_num_proc": 1, **limits}
        self.now = 0.0
        self.it = Membership(Limits(**limits))
        self.told: list[object] = []
        self.published: list[list[str]] = []
        self.syncs: list[bool] = []
        self.do(self.it.hosts_found, hosts)

    def do(self, event: object, *arguments: object) -> None:
        event(*arguments, self.now)
        self.follow()

    def follow(self) -> None:
        """Carry out what the membership wants, as a launcher and workers without faults."""
        while actions := self.it.take_actions():
            self.told += actions
            places = [action for action in actions if isinstance(action, Publish)]
            if places:
                self.published.append([action.worker.name for action in places])
                self.syncs.append(places[0].sync)
            for action in places:
                self.it.formed(action.worker.number, action.generation, self.now)
                self.it.synced(action.worker.number)
            for action in actions:
                if isinstance(action, Tell) and "removed" in action.message:
                    self.it.ended(action.worker.number, 0, self.now)
                if isinstance(action, End):
                    self.it.ended(action.worker.number, -9 if action.at_once else -15, self.now)

    def ready(self, *names: str) -> None:
        """Have newcomers ask for a generation."""
        for worker in list(self.it.workers.values()):
            if worker.stage == Stage.STARTING and (not names or worker.name in names):
                self.do(self.it.left, worker.number, True, None)

    def leave(
        self, *names: str, sync: bool = True, lost_rank: int | None = None, may_go: list[int] | None = None
    ) -> None:
        """Have members leave their generation."""
        for worker in list(self.it.members):
            if worker.number in self.it.workers and (not names or worker.name in names):
                self.it.left(worker.number, sync, lost_rank, self.now, may_go)
                self.follow()

    def end(self, name: str, status: int) -> None:
        (number,) = (worker.number for worker in self.it.workers.values() if worker.name == name)
        self.do(self.it.ended, number, status)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.do(self.it.look)

    def of(self, kind: type) -> list:
        return [action for action in self.told if isinstance(action, kind) and action not in self.asked()]

    def asked(self) -> list[Tell]:
        """Return the questions whether a worker lives."""
        return [action for action in self.told if isinstance(action, Tell) and "ask" in action.message]

    def retired(self) -> list[Retire]:
        """Return what was told of the generations that several workers share."""
        return [retire for retire in self.of(Retire) if retire.generation < 1 << 32]


def started(hosts: dict[str, int], **limits: object) -> Job:
    job = Job(hosts, **limits)
    job.ready()
    return job
