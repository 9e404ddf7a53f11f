"""Generations of an elastic job, event by event, without processes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic.discovery import Cooldown
from horovod.runner.elastic.generation import (
    End,
    Publish,
    Retire,
    Say,
    Start,
    Tell,
    Welcome,
    Worker,
    WorkersFailedError,
    assign,
    slots_of,
)
from horovod.runner.elastic.membership import Membership
from horovod.runner.elastic.worker import HostUpdateResult
from horovod.runner.util.invariant import InvariantError
from membership_job import Job, started


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda it: it.workers.update({7: it.workers[0]}), "each worker is known by the number that it was given"),
        (lambda it: setattr(it.workers[1], "slot", 0), "each worker has a slot of its own"),
        (lambda it: it._asked.update({5: 0.0}), "only workers that live are suspected or asked"),
        (lambda it: it.members.append(it.members[0]), "each member has one rank"),
        (lambda it: it.members.clear(), "a generation that was published has members"),
        (lambda it: it.members.pop(), "who forms a generation or trains in it is a member of it"),
    ],
)
def test_a_broken_invariant_is_told_with_its_line(spoil: Callable[[Membership], None], sentence: str) -> None:
    job = started({"a": 2})
    spoil(job.it)
    with pytest.raises(InvariantError, match=rf"{sentence} \(horovod/runner/elastic/invariants.py:\d+\)\. Please"):
        job.do(job.it.look)


def test_the_first_generation_waits_for_all_that_were_started() -> None:
    job = Job({"a": 2, "b": 1}, max_num_proc=3)
    assert [start.worker.name for start in job.of(Start)] == ["a[0]", "a[1]", "b[0]"]
    job.ready("a[0]", "b[0]")
    assert job.published == []
    job.ready()
    assert job.published == [["a[0]", "a[1]", "b[0]"]]
    assert [(p.slot.rank, p.slot.local_rank, p.slot.cross_rank, p.slot.size) for p in job.of(Publish)] == [
        (0, 0, 0, 3),
        (1, 1, 0, 3),
        (2, 0, 1, 3),
    ]
    assert job.syncs == [True]


def test_workers_start_with_the_places_that_they_get() -> None:
    job = Job({"a": 2, "b": 1}, max_num_proc=5)
    starts = {start.worker.name: start for start in job.of(Start)}
    job.ready()
    for place in job.of(Publish):
        start = starts[place.worker.name]
        assert (start.slot, start.generation, start.first_host) == (place.slot, place.generation, place.first_host)
    job.do(job.it.hosts_found, {"a": 3, "b": 2})
    later = {start.worker.name: start.slot for start in job.of(Start)[3:]}
    assert {name: (slot.rank, slot.local_rank, slot.size) for name, slot in later.items()} == {
        "a[2]": (2, 2, 5),
        "b[1]": (4, 1, 5),
    }


def test_a_job_waits_for_its_slots_and_not_forever() -> None:
    job = Job({"a": 1}, num_proc=3, elastic_timeout=60)
    assert job.of(Start) == []
    (say,) = job.of(Say)
    assert say.text == (
        "The job waits for slots to run on, for at most 60 s (--elastic-timeout): there are 1, and the job needs at "
        "least 3 Horovod processes."
    )
    job.wait(59)
    job.do(job.it.hosts_found, {"a": 1, "b": 1})
    assert job.it.next_deadline() == 60
    job.wait(1)
    assert isinstance(job.it.error, TimeoutException)
    assert "there are 2, and the job needs at least 3" in str(job.it.error)


def test_slots_that_cannot_come_are_not_waited_for() -> None:
    limits = {"min_num_proc": 2, "has_fixed_hosts": True}
    job = started({"a": 2}, **limits)
    job.end("a[1]", 1)
    job.leave()
    assert job.of(Say)[-1].text.startswith("Too few slots are left: there are 1, and the job needs at least 2")
    assert isinstance(job.it.error, WorkersFailedError)
    job = started({"a": 2}, make_cooldown=lambda: Cooldown((5, 5)), **limits)
    job.end("a[1]", 1)
    job.leave()
    assert not job.it.is_over
    job.wait(5)
    job.ready()
    assert job.published[-1] == ["a[0]", "a[1]"]


def test_workers_that_only_start_slowly_are_waited_for() -> None:
    job = Job({"a": 2}, elastic_timeout=60)
    job.wait(1000)
    job.ready()
    assert job.published == [["a[0]", "a[1]"]]


def test_survivors_form_the_next_generation_once_all_have_left() -> None:
    job = started({"a": 3}, num_proc=3)
    job.end("a[0]", -9)
    job.leave("a[2]")
    assert len(job.published) == 1
    job.leave("a[1]")
    assert job.published[1] == ["a[1]", "a[2]"]
    assert job.syncs[1]
    assert job.retired() == [Retire(1, "generation 1 of the job is over")]
    assert [say.text for say in job.of(Say)] == ["Worker a[0], rank 0 was ended by SIGKILL."]
    assert len(job.of(Start)) == 3  # a slot that failed is not used again


def test_a_worker_that_dies_between_the_phases_is_left_out() -> None:
    job = started({"a": 3}, num_proc=3)
    job.end("a[0]", 1)
    job.leave("a[1]")
    job.end("a[2]", 1)
    assert job.published[1] == ["a[1]"]


def test_a_worker_that_dies_while_its_generation_forms() -> None:
    job = started({"a": 3}, num_proc=3)
    job.end("a[2]", 1)
    job.leave("a[0]")
    job.it.left(1, True, None, job.now)
    actions = job.it.take_actions()
    assert [action.worker.number for action in actions if isinstance(action, Publish)] == [0, 1]
    job.it.ended(1, -9, job.now)
    (retired,) = (action for action in job.it.take_actions() if isinstance(action, Retire))
    assert (retired.generation, retired.reason) == (2, "worker a[1], rank 1 of it was ended by SIGKILL")
    job.leave("a[0]")
    assert job.published[-1] == ["a[0]"]
    assert job.it.generation == 3


def test_a_slot_comes_back_after_its_cooldown_and_a_newcomer_joins() -> None:
    job = started({"a": 2}, make_cooldown=lambda: Cooldown((10, 20), lambda: 0.0))
    job.end("a[0]", 1)
    job.leave()
    assert job.published[1] == ["a[1]"]
    job.wait(9)
    assert len(job.of(Start)) == 2
    assert job.it.next_deadline() == 10
    job.wait(1)
    assert [start.worker.name for start in job.of(Start)][2:] == ["a[0]"]
    assert job.of(Tell) == []  # nobody is disturbed before the newcomer is there
    job.ready()
    (notice,) = job.of(Tell)
    assert notice.worker.name == "a[1]"
    assert notice.message == {"hosts": HostUpdateResult.added, "leaving": [], "generation": 2}
    job.leave(sync=False)
    assert job.published[2] == ["a[1]", "a[0]"]
    assert [p.slot.local_rank for p in job.of(Publish)][-2:] == [1, 0]  # the local rank is the slot
    assert job.syncs[2]  # though the survivor needs no synchronisation


def test_what_is_due_is_done_once_and_the_launcher_sleeps_afterwards() -> None:
    job = started({"a": 2, "b": 1}, num_proc=3, min_num_proc=1, make_cooldown=lambda: Cooldown((1, 4), lambda: 0.0))
    job.end("b[0]", 1)
    job.leave()
    job.wait(1.0)
    job.ready()
    assert job.it.next_deadline() == 11.0  # then the others are told of the newcomer in any case
    job.wait(10.0)
    assert job.it.next_deadline() is None


def test_a_newcomer_sets_up_alone_with_the_numbers_that_it_would_get() -> None:
    job = started({"a": 1, "b": 1})
    job.do(job.it.hosts_found, {"a": 2, "b": 1})
    job.do(job.it.arrived, 2)
    (welcome,) = job.of(Welcome)
    numbers = welcome.slot
    assert (welcome.worker.name, welcome.first_host) == ("a[1]", "a")
    assert (numbers.rank, numbers.size, numbers.local_rank, numbers.local_size, numbers.cross_size) == (1, 3, 1, 2, 1)
    assert job.of(Tell) == []
    job.ready()
    assert job.of(Retire) == [Retire(welcome.generation, "a[1] joins the others")]
    assert job.of(Tell)[0].message["hosts"] == HostUpdateResult.added
    job.leave()
    assert job.published[1] == ["a[0]", "a[1]", "b[0]"]


def numbers(places: list) -> dict[str, tuple[int, int, int, int]]:
    return {p.worker.name: (p.slot.rank, p.slot.size, p.slot.local_rank, p.slot.local_size) for p in places}


def test_newcomers_set_up_with_the_numbers_that_they_get_together() -> None:
    job = started({"a": 1, "c": 1})
    job.do(job.it.hosts_found, {"a": 1, "b": 2})  # b's come, and c goes
    starts = numbers(job.of(Start)[2:])
    assert starts == {"b[0]": (1, 3, 0, 2), "b[1]": (2, 3, 1, 2)}
    for number in (2, 3):
        job.do(job.it.arrived, number)
    assert numbers(job.of(Welcome)) == starts
    job.ready("b[1]")
    job.wait(10)  # b[0] is late for the next generation
    job.leave(sync=False)
    assert job.published[1] == ["a[0]", "b[1]"]
    job.do(job.it.hosts_found, {"a": 2, "b": 2})
    job.do(job.it.arrived, 4)
    assert numbers(job.of(Welcome)[2:]) == {"a[1]": (1, 4, 1, 2)}
    job.ready()
    job.leave(sync=False)
    assert numbers(job.of(Publish)[-4:])["a[1]"] == (1, 4, 1, 2)


def test_a_newcomer_that_ends_before_it_joined_ends_no_job() -> None:
    job = started({"a": 2}, num_proc=1, make_cooldown=lambda: Cooldown((10, 20), lambda: 0.0))
    job.do(job.it.hosts_found, {"a": 3})
    job.end("a[2]", 0)
    job.wait(9)
    assert len(job.of(Start)) == 3
    job.wait(1)
    assert len(job.of(Start)) == 4
    assert not job.it.is_over


def test_a_slot_that_is_removed() -> None:
    job = started({"a": 2, "b": 1}, num_proc=3)
    job.do(job.it.hosts_found, {"a": 1, "b": 1})
    (notice,) = job.of(Tell)
    assert notice.message["hosts"] == HostUpdateResult.removed
    job.wait(1)
    assert len(job.of(Tell)) == 1  # told once
    job.leave(sync=False)
    assert job.published[1] == ["a[0]", "b[0]"]
    assert not job.syncs[1]
    assert job.of(Tell)[1].message == {"removed": "a[1] has been removed from elastic job"}
    assert job.it.error is None
    assert not job.it.is_over


def test_hosts_that_are_removed_one_after_the_other() -> None:
    job = started({"a": 2, "b": 2, "c": 2}, num_proc=6)
    job.do(job.it.hosts_found, {"a": 2, "b": 2})
    job.do(job.it.hosts_found, {"a": 2})
    job.do(job.it.hosts_found, {"a": 2})
    assert [notice.message["leaving"] for notice in job.of(Tell)] == [[4, 5], [2, 3, 4, 5]]
    job.leave(may_go=[2, 3, 4, 5])
    assert job.published[1:] == [["a[0]", "a[1]"]]


def test_parts_of_the_state_that_nobody_took_over_are_waited_for() -> None:
    job = started({"a": 2, "b": 2, "c": 2}, num_proc=6)
    job.do(job.it.hosts_found, {"a": 2, "b": 2})
    job.leave("a[0]", may_go=[4, 5])
    job.do(job.it.hosts_found, {"a": 2})  # they know too late
    job.leave(may_go=[4, 5])
    assert job.published[1:] == [["a[0]", "a[1]", "b[0]", "b[1]"]]
    assert job.of(Tell)[-1].message == {"hosts": HostUpdateResult.removed, "leaving": [2, 3], "generation": 2}
    job.leave("a[0]", may_go=[2, 3])
    job.leave(may_go=[])  # these have not heard that all took part in the commit
    assert job.published[2] == job.published[1]
    job.leave(may_go=[2, 3])
    assert job.published[3:] == [["a[0]", "a[1]"]]


@pytest.mark.parametrize("may_go", [[], [1]], ids=["before a commit", "after the commit of a part that the dead took"])
def test_a_part_of_the_state_is_not_sent_away_when_its_copy_is_lost(may_go: list[int]) -> None:
    job = started({"a": 1, "b": 1, "c": 1}, num_proc=3)
    job.do(job.it.hosts_found, {"a": 1, "c": 1})
    job.end("c[0]", -9)
    job.leave(may_go=may_go)
    assert job.published[1] == ["a[0]", "b[0]"]
    assert job.of(Tell)[-1].message == {"hosts": HostUpdateResult.removed, "leaving": [1], "generation": 2}
    job.leave(may_go=[1])
    assert job.published[2] == ["a[0]"]


@pytest.mark.parametrize("forms", [True, False], ids=["in a generation", "while the next one forms"])
def test_nobody_is_sent_away_with_the_state_while_the_others_can_not_be_reached(forms: bool) -> None:
    """Their cable is pulled, and it is not known yet that they are lost."""
    job = started({"a": 1, "b": 1, "c": 1}, num_proc=3)
    job.do(job.it.hosts_found, {"b": 1, "c": 1, "d": 1})
    assert job.of(Tell)[-1].message == {"hosts": HostUpdateResult.removed, "leaving": [0], "generation": 1}
    job.end("c[0]", -9)
    for worker in list(job.it.workers.values())[:2]:
        if forms:
            job.leave(worker.name, lost_rank=1, may_go=[])
        else:
            job.do(job.it.failed_to_form, worker.number, 1, "it is not heard", 1)
    assert job.published[1:] == [["a[0]", "b[0]"]]
    job.end("b[0]", -9)
    job.leave(may_go=[])
    assert job.published[2:] == [["a[0]"]]
    job.ready("d[0]")
    job.leave()
    job.leave()
    assert job.published[3:] == [["a[0]", "d[0]"], ["d[0]"]], "first it gets the state"


def test_no_worker_is_removed_where_too_few_would_be_left() -> None:
    job = started({"a": 2}, min_num_proc=2)
    job.do(job.it.hosts_found, {})
    job.do(job.it.hosts_found, {})
    assert job.of(Tell) == []
    assert [say.text for say in job.of(Say)] == [
        "Discovery leaves fewer than 2 slots: the workers that there are go on."
    ]
    job.do(job.it.hosts_found, {"b": 2})
    assert [start.worker.name for start in job.of(Start)][2:] == ["b[0]", "b[1]"]
    job.ready()
    assert job.of(Tell)[-1].message["hosts"] == HostUpdateResult.mixed
    job.leave()
    assert job.published[1] == ["a[0]", "b[0]", "b[1]"]  # somebody has to bring the state
    assert job.of(Tell)[-1].message == {"hosts": HostUpdateResult.removed, "leaving": [0], "generation": 2}
    job.leave()
    assert job.published[2] == ["b[0]", "b[1]"]


def test_a_newcomer_that_is_not_needed_any_more_is_ended() -> None:
    job = started({"a": 2})
    job.do(job.it.hosts_found, {"a": 2, "b": 1})
    job.do(job.it.hosts_found, {"a": 2})
    assert [end.worker.name for end in job.of(End)] == ["b[0]"]
    assert job.of(Tell) == []
    assert list(job.it.workers) == [0, 1]


def test_never_more_workers_than_asked_for() -> None:
    job = started({"a": 2, "b": 9}, max_num_proc=3)
    assert [start.worker.name for start in job.of(Start)] == ["a[0]", "a[1]", "b[0]"]
    job.end("a[0]", 1)
    assert [start.worker.name for start in job.of(Start)][3:] == ["b[1]"]


def test_a_worker_that_is_not_heard_and_stays_is_ended() -> None:
    job = started({"a": 3}, num_proc=3)
    job.leave("a[0]", "a[2]", lost_rank=1)
    job.wait(4.9)
    assert job.of(End) == []
    job.wait(0.2)
    assert [(end.worker.name, end.at_once) for end in job.of(End)] == [("a[1]", True)]
    assert job.published[1] == ["a[0]", "a[2]"]


def test_a_stopped_worker_that_nobody_names_is_ended_and_a_busy_one_is_not() -> None:
    job = started({"a": 4}, num_proc=4)
    job.end("a[0]", -9)
    job.leave("a[1]", lost_rank=0)
    assert [tell.worker.name for tell in job.asked()] == ["a[2]", "a[3]"]
    job.do(job.it.answered, 2)
    job.wait(10.1)
    assert [end.worker.name for end in job.of(End)] == ["a[3]"]
    job.wait(1000)
    assert len(job.of(End)) == 1
    job.leave("a[2]")
    assert job.published[1] == ["a[1]", "a[2]"]


def failed_to_form(job: Job, *failures: tuple[int, int | None]) -> None:
    """Have a second generation fail on all its workers: with whom they did not hear."""
    for number in (0, 1, 2):
        job.it.left(number, True, None, job.now)
    job.it.take_actions()
    for number, lost in failures:
        job.it.failed_to_form(number, 2, f"text {number}", lost, job.now)
    job.follow()


def test_a_worker_that_the_others_cant_reach_is_left_out() -> None:
    job = started({"a": 2, "b": 1}, num_proc=3)
    failed_to_form(job, (0, 2), (1, 2), (2, None))
    assert [retire.generation for retire in job.retired()] == [2, 2]
    job.wait(1.1)
    assert [end.worker.name for end in job.of(End)] == ["b[0]"]
    assert job.published[-1] == ["a[0]", "a[1]"]


def test_a_worker_that_has_no_way_to_the_launcher_names_itself_and_is_left_out() -> None:
    job = started({"a": 2, "b": 1}, num_proc=3)
    failed_to_form(job, (2, 2), (0, None), (1, None))
    job.wait(1.1)
    assert [end.worker.name for end in job.of(End)] == ["b[0]"]
    assert job.published[-1] == ["a[0]", "a[1]"]


def test_a_worker_that_is_stopped_while_its_generation_forms_is_ended() -> None:
    job = started({"a": 3}, num_proc=3)
    failed_to_form(job, (0, 2), (1, 2))
    job.wait(5.1)
    assert [end.worker.name for end in job.of(End)] == ["a[2]"]
    assert job.published[-1] == ["a[0]", "a[1]"]


def test_workers_that_cant_come_together_are_told_and_not_tried_again() -> None:
    job = started({"a": 3}, num_proc=3)
    failed_to_form(job, (0, None), (1, None), (2, None))
    job.wait(1.1)
    assert [tell.message for tell in job.of(Tell)] == [{"refused": f"text {number}"} for number in range(3)]
    for name in ("a[0]", "a[1]", "a[2]"):
        job.end(name, 1)
    assert isinstance(job.it.error, WorkersFailedError)


def test_the_limit_of_resets() -> None:
    job = started({"a": 3}, num_proc=3, reset_limit=1)
    job.end("a[0]", 1)
    job.leave()
    assert not job.it.is_over
    job.end("a[1]", 1)
    job.leave()
    assert str(job.it.error) == "Horovod was shutdown because number of resets exceeded limit: 1."


def waited(job: Job, rank: int, times: int, every: float = 300.0) -> None:
    """Have rank 0 say that the others wait for a rank, again and again."""
    for time in range(times):
        job.now += every if time else 0.0
        job.do(job.it.waited, job.it.generation, rank)


def test_a_slow_host_leaves_for_slots_that_are_free_elsewhere() -> None:
    job = started({"a": 2, "b": 2, "c": 2}, num_proc=4, max_num_proc=4, slow_seconds=600)
    waited(job, 2, 2)
    assert len(job.of(Start)) == 4
    job.wait(300.0)
    waited(job, 3, 1)
    assert [say.text for say in job.of(Say)] == [
        "Host b has kept the others waiting for 600 s. Other hosts' slots take its place."
    ]
    assert [start.worker.name for start in job.of(Start)[4:]] == ["c[0]", "c[1]"]
    assert job.of(Tell) == []  # training goes on until they are there
    job.ready()
    assert [tell.message["hosts"] for tell in job.of(Tell)] == [HostUpdateResult.mixed]
    assert job.of(Tell)[0].message["leaving"] == [2, 3]
    job.leave()
    assert job.published[1] == ["a[0]", "a[1]", "c[0]", "c[1]"]
    waited(job, 2, 4)
    assert job.of(Say)[1].text == (
        "Host c has kept the others waiting for 600 s and stays: of the 2 slots that could take its place 0 are free."
    )


def test_a_host_that_is_slow_now_and_then_stays() -> None:
    job = started({"a": 2, "b": 2}, max_num_proc=2, slow_seconds=600)
    waited(job, 1, 5, 900.0)
    assert job.of(Say) == []
    job.do(job.it.waited, 7, 1)
    job.do(job.it.waited, 1, 9)
    for patient in ({}, {"slow_seconds": None}):
        job = started({"a": 1, "b": 1, "c": 1}, max_num_proc=2, **patient)
        waited(job, 1, 9)
        assert job.of(Say) == []


def test_a_slow_host_leaves_though_those_in_its_place_do_not_start() -> None:
    job = started({"a": 2, "b": 1, "c": 1}, num_proc=3, max_num_proc=3, slow_seconds=0)
    waited(job, 2, 1)
    job.end("c[0]", 1)
    job.leave()
    assert job.published[1] == ["a[0]", "a[1]"]


def test_a_lost_host_takes_its_workers_and_its_other_slots_with_it() -> None:
    job = started({"a": 2, "b": 3}, num_proc=3, max_num_proc=4)
    job.do(job.it.host_lost, "b", "was lost")
    assert [say.text for say in job.of(Say)] == ["Worker b[0], rank 2 was lost.", "Worker b[1], rank 3 was lost."]
    job.leave()
    assert job.published[1] == ["a[0]", "a[1]"]
    assert len(job.of(Start)) == 4
    assert job.it.next_deadline() is None


def test_the_end_of_a_job() -> None:
    job = started({"a": 2})
    job.end("a[0]", 0)
    assert not job.it.is_over
    job.end("a[1]", 0)
    assert job.it.is_over
    assert job.it.error is None


def test_who_waits_for_one_that_has_finished_is_ended_with_a_word() -> None:
    job = started({"a": 2})
    job.end("a[0]", 0)
    job.leave("a[1]")
    told = [say.text for say in job.of(Say)]
    assert told == ["Worker a[0], rank 0 ended with status 0 while another was still training, and the job with it."]
    assert (job.it.is_over, job.it.error) == (True, None)


def test_workers_that_never_ask_for_a_generation_end_by_themselves() -> None:
    job = Job({"a": 3})
    job.end("a[0]", 0)
    job.ready("a[1]")  # too late: nobody waits for it
    assert [end.worker.name for end in job.of(End)] == ["a[1]"]
    job.end("a[2]", 0)
    assert job.it.is_over
    assert job.it.error is None


def test_a_failure_after_the_first_has_ended_well_is_the_jobs() -> None:
    job = started({"a": 2})
    job.end("a[0]", 0)
    job.end("a[1]", 3)
    assert (job.it.error.name, job.it.error.status) == ("a[1]", 3)


def test_all_workers_have_died() -> None:
    job = started({"a": 2})
    job.end("a[0]", -9)
    job.end("a[1]", 7)
    assert (job.it.error.name, job.it.error.status) == ("a[1]", 7)


def test_ranks_of_survivors_and_newcomers() -> None:
    old = [Worker(i, host, slot, has_state=True) for i, (host, slot) in enumerate([("a", 1), ("b", 0), ("b", 1)])]
    new = [Worker(7, "a", 0), Worker(8, "c", 0), Worker(9, "b", 2)]
    ranked = assign(old, new)
    assert [worker.name for worker in ranked] == ["a[1]", "a[0]", "b[0]", "b[1]", "b[2]", "c[0]"]
    numbers = slots_of(ranked)
    assert [n.local_rank for n in numbers] == [1, 0, 0, 1, 2, 0]
    assert [n.cross_rank for n in numbers] == [0, 0, 1, 1, 0, 2]
    assert [n.cross_size for n in numbers] == [2, 3, 3, 2, 1, 3]
    old[0].has_state = False  # it came last, and the others died before it was synchronised
    assert assign(old, new)[0].name == "b[0]"


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_every_generation_is_whole(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 (events, no secrets)
    job = started({"a": 2, "b": 2}, num_proc=3, max_num_proc=5, make_cooldown=lambda: Cooldown((1, 4), draw.random))
    for _ in range(60):
        if job.it.is_over:
            break
        living = list(job.it.workers.values())
        event = draw.choice(("kill", "leave", "leave", "ready", "ready", "hosts", "wait", "wait"))
        if event == "kill" and living:
            job.end(draw.choice(living).name, draw.choice((-9, 1)))
        elif event == "leave":
            job.leave(sync=draw.random() < 0.5, may_go=draw.choice((None, [], list(range(4)))))
        elif event == "ready":
            job.ready()
        elif event == "hosts":
            job.do(job.it.hosts_found, {host: draw.randrange(4) for host in draw.sample("abc", draw.randrange(4))})
        else:
            job.wait(draw.choice((0.1, 1.0, 5.0, 31.0)))
        places = [(worker.host, worker.slot) for worker in job.it.workers.values()]
        assert len(set(places)) == len(places)
        assert len(job.it.members) <= 5
    for names in job.published:
        assert 1 <= len(names) == len(set(names))
    publishes = job.of(Publish)
    for generation in range(1, job.it.generation + 1):
        ranks = [p.slot.rank for p in publishes if p.generation == generation]
        assert ranks == list(range(len(ranks)))
        known = {p.worker.number for p in publishes if p.generation < generation}
        first = next(p.worker.number for p in publishes if p.generation == generation)
        assert generation == 1 or first in known  # rank 0 has the job's state
