"""The membership of an elastic job: generations of workers, and what each event means for them. No I/O, clock, thread.

A generation is a set of workers with ranks and a number. It ends in two phases: first all of its workers that live have
left it, then the next one is published, with the workers that wait then. A worker that dies in between is left out; one
that dies after is a reason for a further generation. What :class:`Membership` wants done it returns as actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic.constants import RESET_LIMIT_EXCEEDED_MESSAGE
from horovod.runner.elastic.discovery import Cooldown
from horovod.runner.elastic.generation import (
    Action,
    End,
    Limits as Limits,
    Place,
    Publish,
    Retire,
    Say,
    Stage,
    Start,
    Tell,
    Welcome,
    Worker,
    WorkersFailedError,
    assign,
    next_places,
    removable,
    slots_of,
)
from horovod.runner.elastic.invariants import check_generation, check_workers
from horovod.runner.elastic.worker import HostUpdateResult
from horovod.runner.failure import signal_name

_SUSPECT_SECONDS = 5.0  # for a worker that others don't hear to leave its generation, too
_ANSWER_SECONDS = 10.0  # for one that does not leave, and may only be busy, to say that it lives
_EXIT_NEWS_SECONDS = 1.0  # a worker's death may be told later than what it did to the others
_NEWCOMER_SECONDS = 10.0  # newcomers that are ready wait so long for others that are starting
_REMOVED_SECONDS = 30.0  # for a worker that was told to go
_SLOW_GAP_SECONDS = 660.0  # a host that is slow is told of each five minutes; one that is not for twice that is well

_PRESENT = (Stage.FORMING, Stage.TRAINING)  # in the generation, which it has not left


class Membership:
    """The job's workers. One thread at a time; every method that reports an event takes the time of it.

    Attributes
    ----------
    generation : int
        The one that was published last, 0 for none.
    members : list of Worker
        Of it, by rank, with those that have ended since.
    is_over : bool
        The job has ended, with `error` or well.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.workers: dict[int, Worker] = {}  # that live
        self.generation = 0
        self.members: list[Worker] = []
        self.is_over = False
        self.error: Exception | None = None
        self._looked = float("-inf")  # what was due then is done
        self._hosts: dict[str, int] = {}
        self._blacklist: dict[tuple[str, int], Cooldown] = {}
        self._next_number = 0
        self._resets = 0
        self._failures: list[tuple[str, int]] = []
        self._finisher: str | None = None  # the first worker that ended well
        self._unfinished: set[Worker] = set()  # those that were training then, and came to wait for it
        self._late_failure: WorkersFailedError | None = None  # the first after that
        self._noticed: tuple[int, list[int]] = (HostUpdateResult.no_update, [])  # told to this generation, and who goes
        self._sync = True  # a worker asked for it since the last generation, or has no state
        self._deaths = 0  # of members of this generation
        self._suspects: dict[int, float] = {}  # by number: when it is taken for dead
        self._asked: dict[int, float] = {}  # by number: when it should have answered
        self._waits_since: float | None = None  # for slots
        self._slow: dict[str, tuple[float, float]] = {}  # by host: when others waited for it first, and last
        self._judge_at: float | None = None
        self._said: set[str] = set()
        self._actions: list[Action] = []

    # --- events ---

    def hosts_found(self, hosts: Mapping[str, int], now: float) -> None:
        """Discovery found these slots by host."""
        known = {host: hosts[host] for host in self._hosts if host in hosts}
        self._hosts = {**known, **hosts}
        self._look(now)

    def arrived(self, number: int, now: float) -> None:
        """Take a new worker: into the first generation, or it sets up alone until it waits for the next."""
        worker = self.workers.get(number)
        if worker is None or worker.stage != Stage.STARTING:
            return None
        if self.generation == 0:
            return self.left(number, True, None, now)
        place = self._next_places(self._surplus(now))[worker]
        self._do(Welcome(worker, place.slot, place.ranked, worker.own_generation))
        return None

    def left(
        self, number: int, sync: bool, lost_rank: int | None, now: float, may_go: Sequence[int] | None = None
    ) -> None:
        """Take a worker that waits for the next generation; it lost `lost_rank`, and only `may_go` may be removed."""
        worker = self.workers.get(number)
        if worker is None or worker.stage == Stage.REMOVED:
            return
        if worker.stage == Stage.STARTING and self.generation > 0:
            self._do(Retire(worker.own_generation, f"{worker.name} joins the others"))
        was = worker.stage
        spares = {member for rank, member in enumerate(self.members) if rank in (may_go or ())}
        worker.spares = None if may_go is None else spares
        self._to(worker, Stage.WAITING, now)
        self._sync = self._sync or sync
        if was == Stage.TRAINING and lost_rank is not None:
            self._suspect(lost_rank, worker, now)
        self._look(now)

    def formed(self, number: int, generation: int, now: float) -> None:
        """Take note that a worker is a rank of that generation."""
        worker = self.workers.get(number)
        if worker is not None and generation == self.generation and worker.stage == Stage.FORMING:
            self._to(worker, Stage.TRAINING, now)
        self._look(now)

    def failed_to_form(self, number: int, generation: int, text: str, lost_rank: int | None, now: float) -> None:
        """Take a worker back that could not become a rank of that generation."""
        worker = self.workers.get(number)
        if worker is None or worker.stage == Stage.REMOVED:
            return
        self._to(worker, Stage.WAITING, now)
        self._sync, worker.spares = True, set()
        if generation == self.generation:
            worker.failure, worker.lost_rank = text, lost_rank
            if lost_rank is not None:
                self._suspect(lost_rank, worker, now)
            self._retire(f"{worker.name} could not come together with the others: {text}")
        self._look(now)

    def answered(self, number: int, now: float) -> None:
        """Take note that a worker is busy, not stopped, though it does not leave its generation."""
        if number in self._asked:
            self._asked[number] = float("inf")  # it leaves when it comes to the next collective
            self._look(now)

    def synced(self, number: int) -> None:
        """Take note that a worker has the job's state."""
        if number in self.workers:
            self.workers[number].has_state = True

    def waited(self, generation: int, rank: int, now: float) -> None:
        """Take note that the others wait for a rank of that generation in most steps, and have its host replaced."""
        if self._limits.slow_seconds is None or generation != self.generation or rank >= len(self.members):
            return
        host = self.members[rank].host
        first, last = self._slow.get(host, (now, now))
        first = first if now - last <= _SLOW_GAP_SECONDS else now
        self._slow[host] = (first, now)
        if now - first >= self._limits.slow_seconds:
            self._replace(host, now - first, now)

    def ended(self, number: int, status: int, now: float, how: str = "") -> None:
        """Take note that a worker's process has ended; a negative status is the signal that ended it."""
        worker = self.workers.pop(number, None)
        if worker is None:
            return
        self._suspects.pop(number, None)
        self._asked.pop(number, None)
        if worker.stage != Stage.REMOVED:
            if status == 0 and (worker in self.members or self.generation == 0):
                self._finisher = self._finisher or self._described(worker)
            else:
                self._failed(worker, status, now, how)
        self._look(now)

    def host_lost(self, host: str, how: str, now: float) -> None:
        """Take note that a host can't be reached: its workers are lost, and it is blacklisted."""
        for slot in range(self._hosts.get(host, 0)):
            if not any((worker.host, worker.slot) == (host, slot) for worker in self.workers.values()):
                self._cooldown(host, slot).fail(now)
        for worker in [worker for worker in self.workers.values() if worker.host == host]:
            self.ended(worker.number, 255, now, how)
        self._look(now)

    def look(self, now: float) -> None:
        """Take the decisions that are due by now."""
        self._look(now)

    def stop(self, error: Exception | None) -> None:
        """End the job."""
        self.is_over = True
        self.error = self.error or error

    def take_actions(self) -> list[Action]:
        """Return what is to be done since the last time."""
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """Return when :meth:`look` is due next."""
        times = [*self._suspects.values(), *self._asked.values()]
        times += [cooldown.until for cooldown in self._blacklist.values() if cooldown.until is not None]
        if self._judge_at is not None:
            times.append(self._judge_at)
        if self._waits_since is not None:
            times.append(self._waits_since + self._limits.elastic_timeout)
        for worker in self.workers.values():
            if worker.stage == Stage.WAITING:
                times.append(worker.since + _NEWCOMER_SECONDS)
            if worker.stage == Stage.REMOVED:
                times.append(worker.since + _REMOVED_SECONDS)
        return min((when for when in times if self._looked < when < float("inf")), default=None)

    # --- what follows from them ---

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    @staticmethod
    def _to(worker: Worker, stage: Stage, now: float) -> None:
        worker.stage, worker.since = stage, now

    def _dismiss(self, worker: Worker, now: float) -> None:
        self._to(worker, Stage.REMOVED, now)
        self._do(End(worker, at_once=False))

    def _cooldown(self, host: str, slot: int) -> Cooldown:
        if (host, slot) not in self._blacklist:
            self._blacklist[host, slot] = self._limits.make_cooldown()
        return self._blacklist[host, slot]

    def _replace(self, host: str, seconds: float, now: float) -> None:
        """Have other slots take the place of those of a host, where enough of them are free."""
        workers = [worker for worker in self.workers.values() if worker.host == host and worker.stage in _PRESENT]
        free = [place for place in self._free_slots(now) if place[0] != host]
        if not workers or workers[0].is_slow:
            return
        slow = f"Host {host} has kept the others waiting for {seconds:g} s"
        if len(free) < len(workers):
            text = f"{slow} and stays: of the {len(workers)} slots that could take its place {len(free)} are free."
            if host not in self._said:
                self._said.add(host)
                self._do(Say(text))
            return
        for slot in range(self._hosts.get(host, 0)):
            self._cooldown(host, slot).fail(now)
        for worker in workers:
            worker.is_slow = True
        self._do(Say(f"{slow}. Other hosts' slots take its place."))
        self._look(now)

    def _retire(self, reason: str) -> None:
        if any(worker.stage == Stage.FORMING for worker in self.workers.values()):
            self._do(Retire(self.generation, reason))

    def _suspect(self, rank: int, by: Worker, now: float) -> None:
        if by not in self.members or rank >= len(self.members):
            return
        suspect = self.members[rank]
        if suspect is not by and suspect.number in self.workers and suspect.stage in _PRESENT:
            self._suspects.setdefault(suspect.number, now + _SUSPECT_SECONDS)

    def _failed(self, worker: Worker, status: int, now: float, how: str) -> None:
        if status != 0:
            self._failures.append((worker.name, status))
        self._cooldown(worker.host, worker.slot).fail(now)
        if self._finisher is not None and self._late_failure is None:
            self._late_failure = WorkersFailedError(worker.name, status)
        was_member, described = worker in self.members, self._described(worker)
        ended = how or (f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}")
        self._do(Say(f"Worker {described} {ended.rstrip('.')}."))
        if was_member:
            self._deaths += 1
            self._retire(f"worker {described} of it {ended}")

    def _described(self, worker: Worker) -> str:
        return worker.name + (f", rank {self.members.index(worker)}" if worker in self.members else "")

    def _free_slots(self, now: float) -> list[tuple[str, int]]:
        taken = {(worker.host, worker.slot) for worker in self.workers.values()}
        return [place for place in self._usable_slots(now) if place not in taken]

    def _usable_slots(self, now: float) -> list[tuple[str, int]]:
        return [
            (host, slot)
            for host, slots in self._hosts.items()
            for slot in range(slots)
            if (host, slot) not in self._blacklist or self._blacklist[host, slot].is_usable(now)
        ]

    def _surplus(self, now: float) -> list[Worker]:
        """Return the workers whose slot is gone, or slow; not the last that has the state, none where too few stay."""
        stays = [worker for worker in self.workers.values() if worker.stage != Stage.REMOVED]
        gone = [worker for worker in stays if worker.is_slow or worker.slot >= self._hosts.get(worker.host, 0)]
        if gone and len(stays) - len(gone) + len(self._free_slots(now)) < self._limits.min_num_proc:
            text = f"Discovery leaves fewer than {self._limits.min_num_proc} slots: the workers that there are go on."
            if text not in self._said:
                self._said.add(text)
                self._do(Say(text))
            return []
        holders = [worker for worker in self.members if worker in stays and worker.has_state]
        return gone if set(holders) - set(gone) else [worker for worker in gone if worker not in holders[:1]]

    def _look(self, now: float) -> None:
        if self.is_over:
            return None
        self._looked = now
        check_workers(self.workers, {*self._suspects, *self._asked}, self._next_number)
        check_generation(self.generation, self.members, self.workers)
        self._end_late(now)
        if self._finisher is not None:
            return self._finish(now)
        if self.generation > 0 and self._failures and not any(w in self.members for w in self.workers.values()):
            return self.stop(WorkersFailedError(*self._failures[-1]))
        surplus = self._surplus(now)
        self._end_early_surplus(surplus, now)
        self._start_workers(surplus, now)
        if not self.workers and self._failures:
            return self.stop(WorkersFailedError(*self._failures[0]))
        living = [worker for worker in self.members if worker.number in self.workers]
        is_ending = len(living) < len(self.members) or any(w.stage == Stage.WAITING for w in living)
        if self.generation > 0 and not is_ending:
            self._notice(living, surplus, now)
        elif all(worker.stage in (Stage.WAITING, Stage.REMOVED) for worker in living):
            self._gather(living, removable(surplus, living, self._deaths), now)
        elif any(worker.stage == Stage.WAITING for worker in living):
            self._ask_the_rest(living, now)
        return None

    def _end_late(self, now: float) -> None:
        due = [*self._suspects.items(), *self._asked.items()]
        for number in sorted({number for number, when in due if now >= when}):
            self._suspects.pop(number, None)
            self._asked.pop(number, None)
            worker = self.workers[number]
            if worker.stage in _PRESENT:
                self._do(Say(f"Worker {worker.name} is not heard by the others and does not leave: it is ended."))
                self._do(End(worker, at_once=True))
        for worker in self.workers.values():
            if worker.stage == Stage.REMOVED and now >= worker.since + _REMOVED_SECONDS:
                self._dismiss(worker, now)

    def _ask_the_rest(self, living: Sequence[Worker], now: float) -> None:
        """Ask the workers that others wait for whether they live: a busy one answers, a stopped one not."""
        for worker in living:
            if worker.stage in _PRESENT and worker.number not in self._asked:
                self._asked[worker.number] = now + _ANSWER_SECONDS
                self._do(Tell(worker, {"ask": self.generation}))

    def _finish(self, now: float) -> None:
        """End the job after a worker ended well: workers that wait for it can't go on, the others end by themselves."""
        for worker in self.workers.values():
            if worker.stage == Stage.WAITING or (worker.stage == Stage.STARTING and self.generation > 0):
                if worker in self.members:
                    self._unfinished.add(worker)
                self._dismiss(worker, now)
        if not self.workers:
            if self._unfinished:
                count = len(self._unfinished)
                others = "another was" if count == 1 else f"{count} others were"
                ended = f"Worker {self._finisher} ended with status 0 while {others} still training"
                self._do(Say(f"{ended}, and the job with it."))
            self.stop(self._late_failure)

    def _end_early_surplus(self, surplus: Sequence[Worker], now: float) -> None:
        for worker in surplus:
            if worker not in self.members and worker.stage in (Stage.STARTING, Stage.WAITING):
                self._dismiss(worker, now)

    def _start_workers(self, surplus: Sequence[Worker], now: float) -> None:
        if not self._next_number and len(self._usable_slots(now)) < self._limits.num_proc:
            return self._wait_for_slots(now, self._limits.num_proc)
        staying = sum(worker.stage != Stage.REMOVED and worker not in surplus for worker in self.workers.values())
        most = self._limits.max_num_proc
        new: list[Worker] = []
        for host, slot in self._free_slots(now):
            if most is not None and staying + len(new) >= most:
                break
            new.append(Worker(self._next_number, host, slot, since=now))
            self._next_number += 1
        self.workers.update((worker.number, worker) for worker in new)
        if new:
            places = self._next_places(surplus)
            self._actions += [Start(**vars(places[worker]), sharers=self._hosts[worker.host]) for worker in new]
        return None

    def _next_places(self, surplus: Sequence[Worker]) -> dict[Worker, Place]:
        return next_places(self.members, self.workers.values(), surplus, self.generation + 1)

    def _wait_for_slots(self, now: float, needed: int) -> None:
        seconds = f"{self._limits.elastic_timeout:g} s"
        text = f"there are {len(self._usable_slots(now))}, and the job needs at least {needed} Horovod processes"
        if self._limits.has_fixed_hosts and not self._may_have_more_slots():
            text = (
                f"Too few slots are left: {text}. The hosts that were given are all, and a slot whose worker has "
                "failed is not used again without --blacklist-cooldown-range. Give more slots (-H), or ask for fewer "
                "(min_num_proc, --min-np)."
            )
            self._do(Say(text))
            self.stop(WorkersFailedError(*self._failures[-1]) if self._failures else RuntimeError(text))
        elif self._waits_since is None:
            self._waits_since = now
            self._do(Say(f"The job waits for slots to run on, for at most {seconds} (--elastic-timeout): {text}."))
        elif now >= self._waits_since + self._limits.elastic_timeout:
            self.stop(
                TimeoutException(
                    f"Timed out waiting for slots to run on: {text}. Wait longer (elastic_timeout, --elastic-timeout: "
                    f"{seconds}), or ask for fewer (min_num_proc, --min-np)."
                )
            )

    def _may_have_more_slots(self) -> bool:
        """Tell whether slots of fixed hosts may come back: after a time, or from workers that are to go."""
        is_leaving = any(worker.stage == Stage.REMOVED for worker in self.workers.values())
        return is_leaving or any(each.until not in (None, float("inf")) for each in self._blacklist.values())

    def _notice(self, living: Sequence[Worker], surplus: Sequence[Worker], now: float) -> None:
        """Have the workers told that hosts changed, once newcomers can take part at once."""
        if any(worker.stage != Stage.TRAINING for worker in living):
            return
        newcomers = [worker for worker in self.workers.values() if worker.stage == Stage.WAITING]
        is_replaced = any(worker.stage == Stage.STARTING for worker in self.workers.values())
        if is_replaced and all(worker.is_slow for worker in surplus):
            surplus = []  # until those that take their place are there
        waited = any(now >= worker.since + _NEWCOMER_SECONDS for worker in newcomers)
        flags = HostUpdateResult.no_update
        if any(worker in living for worker in surplus):
            flags |= HostUpdateResult.removed
        if newcomers and (waited or all(worker.stage != Stage.STARTING for worker in self.workers.values())):
            flags |= HostUpdateResult.added
        leaving = [rank for rank, worker in enumerate(self.members) if worker in surplus]
        noticed = (self._noticed[0] | flags, leaving)
        if noticed != self._noticed:
            self._noticed = noticed
            self._do(Tell(living[0], {"hosts": flags, "leaving": leaving, "generation": self.generation}))

    def _gather(self, living: Sequence[Worker], surplus: Sequence[Worker], now: float) -> None:
        """Publish the next generation when enough workers wait for it."""
        if self._judge_failures(living, now):
            return None
        waiting = [worker for worker in self.workers.values() if worker.stage == Stage.WAITING]
        staying = [worker for worker in waiting if worker not in surplus]
        is_first = self.generation == 0
        needed = self._limits.num_proc if is_first else self._limits.min_num_proc
        is_complete = not is_first or all(worker.stage == Stage.WAITING for worker in self.workers.values())
        starting = sum(worker.stage == Stage.STARTING for worker in self.workers.values())
        if len(staying) + starting < needed:
            return self._wait_for_slots(now, needed)
        self._waits_since = None
        if len(staying) < needed or not is_complete:
            return None
        for worker in waiting:
            if worker in surplus:
                self._to(worker, Stage.REMOVED, now)
                self._do(Tell(worker, {"removed": f"{worker.name} has been removed from elastic job"}))
        survivors = [worker for worker in living if worker in staying]
        newcomers = [worker for worker in staying if worker not in survivors]
        most = self._limits.max_num_proc
        room = len(newcomers) if most is None else max(0, most - len(survivors))
        for worker in newcomers[room:]:
            self._dismiss(worker, now)
        self._publish(survivors, newcomers[:room], now)
        return None

    def _judge_failures(self, living: Sequence[Worker], now: float) -> bool:
        """Judge a generation that failed to form though nobody died: leave out unheard workers, or end the job."""
        failed = [worker for worker in living if worker.failure]
        if not failed or self._deaths:
            self._judge_at = None
            return False
        if self._judge_at is None:
            self._judge_at = now + _EXIT_NEWS_SECONDS
        if now < self._judge_at:
            return True
        self._judge_at = None
        lost = {worker.lost_rank for worker in failed if worker.lost_rank is not None}
        blamed = [self.members[rank] for rank in sorted(lost) if rank < len(self.members)]
        blamed = [worker for worker in blamed if worker in living]
        if blamed and len(blamed) < len(living):
            for worker in blamed:
                self._do(Say(f"Worker {worker.name} can't be reached by the others and is left out: {worker.failure}"))
                self._do(End(worker, at_once=True))
                worker.failure = ""
            self._deaths += len(blamed)
            for worker in blamed:
                self.ended(worker.number, 255, now, "could not be reached")
            return True
        for worker in self.workers.values():
            if worker.stage == Stage.WAITING:
                self._do(Tell(worker, {"refused": worker.failure or failed[0].failure}))
        for worker in living:
            worker.failure = ""
        return True

    def _publish(self, survivors: Sequence[Worker], newcomers: Sequence[Worker], now: float) -> None:
        if self.generation > 0:
            self._resets += 1
            if self._limits.reset_limit is not None and self._resets > self._limits.reset_limit:
                return self.stop(RuntimeError(RESET_LIMIT_EXCEEDED_MESSAGE.format(self._limits.reset_limit)))
            self._do(Retire(self.generation, f"generation {self.generation} of the job is over"))
        self.generation += 1
        self.members = assign(survivors, newcomers)
        self._noticed, self._deaths, self._waits_since = (HostUpdateResult.no_update, []), 0, None
        for noted in (self._suspects, self._asked, self._said):
            noted.clear()
        sync, self._sync = self._sync or any(not worker.has_state for worker in self.members), False
        for worker, slot in zip(self.members, slots_of(self.members)):
            self._to(worker, Stage.FORMING, now)
            worker.failure, worker.lost_rank = "", None
            self._do(Publish(worker, slot, self.members, self.generation, sync))
        return None
