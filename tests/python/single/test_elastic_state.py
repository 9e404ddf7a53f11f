"""Elastic state without a job: what is saved, restored and announced."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from horovod.common.elastic import ObjectState, State, notification_manager, run_fn
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.runner.elastic.worker import HostUpdateResult
from horovod.torch.elastic import sampler as sampler_module, state as state_module
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState, get_handler_registry, set_handler_registry


def alone(obj: object, **_: object) -> object:
    return obj


def object_state(**values: object) -> ObjectState:
    return ObjectState(alone, lambda: 0, **values)


def test_attributes_are_saved_and_restored() -> None:
    state = object_state(batch=1, name="a")
    state.batch, state.name, state.unknown = 5, "b", "not part of the state"
    state.restore()
    assert (state.batch, state.name) == (1, "a")
    state.batch = 7
    state.save()
    state.batch = 8
    state.restore()
    assert state.batch == 7
    assert state.unknown == "not part of the state"


def test_sync_takes_over_what_was_broadcast() -> None:
    state = ObjectState(lambda obj: {"batch": 40}, lambda: 1, batch=1)
    state.sync()
    assert state.batch == 40
    state.batch = 41
    state.restore()
    assert state.batch == 40


def test_a_change_of_hosts_interrupts_once() -> None:
    state = object_state(batch=1)
    state.check_host_updates()
    state.on_hosts_updated(1, HostUpdateResult.added)
    state.on_hosts_updated(1, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert not caught.value.skip_sync
    state.on_hosts_updated(1, HostUpdateResult.added)  # no newer than the one before
    state.check_host_updates()
    state.on_hosts_updated(2, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.commit()
    assert caught.value.skip_sync


class Recorder(State):
    def __init__(self) -> None:
        super().__init__(alone, lambda: 0)
        self.calls: list[str] = []
        for name in ("save", "restore", "sync", "reset"):
            setattr(self, name, lambda name=name: self.calls.append(name))


def test_the_loop_after_each_kind_of_interruption() -> None:
    state, calls = Recorder(), []
    state.register_reset_callbacks([lambda: calls.append("callback")])
    interruptions = [HorovodInternalError(), HostsUpdatedInterrupt(False), HostsUpdatedInterrupt(True)]

    def train(state: State, what: str, *, more: int) -> str:
        if interruptions:
            raise interruptions.pop(0)
        return f"{what} {more}"

    def reset() -> None:
        state.calls.append("engine")
        state.on_hosts_updated(9, HostUpdateResult.added)  # old news by the time of on_reset

    assert run_fn(train, reset)(state, "done", more=3) == "done 3"
    assert state.calls == [
        *("sync", "restore", "engine", "reset"),
        *("sync", "engine", "reset"),
        *("sync", "engine", "reset"),
    ]
    assert calls == ["callback"] * 3
    state.check_host_updates()


def test_collectives_of_reset_callbacks_and_of_the_synchronisation_may_fail_too() -> None:
    state = Recorder()
    ended = "Horovod has been shut down. The cause: Rank 1 died"
    failures = {kind: [KeyError(ended), HorovodInternalError()] for kind in ("sync", "callback")}

    def fail(where: str) -> None:
        state.calls.append(where)
        if failures[where]:
            raise failures[where].pop()

    state.sync = lambda: fail("sync")
    state.register_reset_callbacks([lambda: fail("callback")])
    assert run_fn(lambda state: "done", lambda: state.calls.append("engine"), KeyError)(state) == "done"
    again = ["restore", "engine", "reset", "callback"]
    assert state.calls == ["sync", *again, *again, *again, "sync", *again, "sync"]

    failures["sync"] = [KeyError("of the user's")]
    with pytest.raises(KeyError, match="of the user's"):
        run_fn(lambda state: "done", lambda: None, KeyError)(state)


def test_other_exceptions_pass_and_the_listener_goes() -> None:
    state = Recorder()

    def train(state: State) -> None:
        notification_manager.handle_hosts_updated(3, HostUpdateResult.removed)
        state.check_host_updates()

    def fail(state: State) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        run_fn(fail, lambda: None)(state)
    notification_manager.handle_hosts_updated(1, HostUpdateResult.added)
    state.check_host_updates()
    calls = []

    def reset() -> None:
        calls.append("reset")
        raise StopIteration

    with pytest.raises(StopIteration):
        run_fn(train, reset)(state)
    assert calls == ["reset"]


# --- torch ---


@pytest.fixture
def lone_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Pretend to be a rank of a job."""

    def pretend(rank: int, size: int) -> None:
        monkeypatch.setattr(sampler_module, "rank", lambda: rank)
        monkeypatch.setattr(sampler_module, "size", lambda: size)

    monkeypatch.setattr(state_module, "broadcast_object", alone)
    monkeypatch.setattr(state_module, "broadcast_parameters", lambda params, root_rank: None)
    monkeypatch.setattr(state_module, "broadcast_optimizer_state", lambda optimizer, root_rank: None)
    pretend(0, 1)
    return pretend


def train_a_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_models_and_optimizers_go_back_to_the_last_commit(lone_rank: Callable[[int, int], None]) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = TorchState(model=model, optimizer=optimizer, batch=0)
    assert (state.model, state.optimizer, state.batch) == (model, optimizer, 0)
    train_a_step(model, optimizer)
    state.batch = 1
    state.commit()
    weight = model.weight.detach().clone()
    momentum = optimizer.state[model.weight]["momentum_buffer"].clone()
    for _ in range(2):  # the second time shows that the first left the copy alone
        train_a_step(model, optimizer)
        state.batch = 2
        state.restore()
        assert torch.equal(model.weight, weight)
        assert torch.equal(optimizer.state[model.weight]["momentum_buffer"], momentum)
        assert state.batch == 1


def test_another_model_is_saved_when_it_is_set(lone_rank: Callable[[int, int], None]) -> None:
    state = TorchState(model=torch.nn.Linear(1, 1), other=torch.nn.Linear(1, 1))
    replacement = torch.nn.Linear(1, 1)
    weight = replacement.weight.detach().clone()
    state.other = replacement
    with torch.no_grad():
        replacement.weight.add_(1.0)
    state.restore()
    assert state.other is replacement
    assert torch.equal(replacement.weight, weight)


def test_what_was_synchronised_is_gone_back_to(
    lone_rank: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def receive(params: dict[str, torch.Tensor], root_rank: int) -> None:
        for tensor in params.values():
            tensor.fill_(5.0)

    monkeypatch.setattr(state_module, "broadcast_parameters", receive)
    state = TorchState(model=torch.nn.Linear(1, 1))
    state.sync()
    torch.nn.init.zeros_(state.model.weight)
    state.restore()
    assert state.model.weight.item() == 5.0


def saved(handler: state_module.ModelStateHandler) -> dict[str, torch.Tensor]:
    return handler._saved


def test_a_commit_takes_the_memory_of_the_last_one() -> None:
    model = torch.nn.Linear(2, 3)
    handler = state_module.ModelStateHandler(model)
    places = {name: tensor.data_ptr() for name, tensor in saved(handler).items()}
    torch.nn.init.constant_(model.weight, 7.0)
    handler.save()
    assert {name: tensor.data_ptr() for name, tensor in saved(handler).items()} == places
    assert saved(handler)["weight"].tolist() == [[7.0] * 2] * 3
    other = copy.copy(handler)  # for a commit that is not complete yet: the last one stays
    torch.nn.init.constant_(model.weight, 8.0)
    other.save()
    assert saved(handler)["weight"].tolist() == [[7.0] * 2] * 3
    assert saved(other)["weight"].tolist() == [[8.0] * 2] * 3


def test_a_commit_of_what_is_of_another_kind_than_the_last(lone_rank: Callable[[int, int], None]) -> None:
    tied = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)])
    tied[1].weight = tied[0].weight
    state = TorchState(model=tied)
    others = [
        torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)]),
        torch.nn.ModuleList([torch.nn.Linear(2, 3, bias=False).double(), torch.nn.Linear(2, 2)]),
        torch.nn.ModuleList([torch.nn.Linear(2, 3, bias=False)]),
    ]
    others[1][1].weight = torch.nn.Parameter(torch.arange(4.0).view(2, 2).t())  # strided
    for model in others:
        expected = [parameter.tolist() for parameter in model.parameters()]
        state.model = model
        for _ in range(2):
            state.commit()
            for parameter in model.parameters():
                torch.nn.init.zeros_(parameter)
            state.restore()
            assert [parameter.tolist() for parameter in model.parameters()] == expected


def test_a_model_that_is_not_given_is_a_plain_attribute(lone_rank: Callable[[int, int], None]) -> None:
    state = TorchState(batch=0)
    assert (state.model, state.optimizer) == (None, None)
    state.model = "made later"
    state.restore()
    assert state.model is None
    state.model = "made later"
    state.commit()
    state.model = "another"
    state.restore()
    assert state.model == "made later"


def test_handlers_of_ones_own(lone_rank: Callable[[int, int], None]) -> None:
    class Counter:
        value = 0

    class CounterHandler(state_module.StateHandler):
        saved = 0

        def save(self) -> None:
            self.saved = self.value.value

        def restore(self) -> None:
            self.value.value = self.saved

        def sync(self) -> None:
            self.value.value = 100

    before = get_handler_registry()
    set_handler_registry([(Counter, CounterHandler), *before])
    try:
        state = TorchState(counter=Counter())
        state.counter.value = 3
        state.commit()
        state.counter.value = 4
        state.restore()
        assert state.counter.value == 3
        state.sync()
        assert state.counter.value == 100
    finally:
        set_handler_registry(before)


def test_sampler_shares_out_what_is_left(lone_rank: Callable[[int, int], None]) -> None:
    dataset = list(range(10))
    lone_rank(1, 2)
    sampler = ElasticSampler(dataset, shuffle=False)
    assert list(sampler) == [1, 3, 5, 7, 9]
    assert sampler.indices == [1, 3, 5, 7, 9]
    assert len(sampler) == 5
    sampler.record_batch(0, 1)  # each of two workers did one
    lone_rank(2, 3)
    sampler.reset()
    assert list(sampler) == [4, 7, 2]  # 2…9 padded by 2
    assert len(sampler) == 3
    sampler.set_epoch(1)
    assert sampler.state_dict() == {"epoch": 1, "processed_num": 0}
    assert list(sampler) == [2, 5, 8, 1]


def test_sampler_order_is_the_same_on_all_ranks_and_differs_between_epochs(
    lone_rank: Callable[[int, int], None],
) -> None:
    dataset = list(range(30))
    orders = []
    for epoch in range(2):
        seen = []
        for rank in range(3):
            lone_rank(rank, 3)
            sampler = ElasticSampler(dataset, seed=4)
            sampler.set_epoch(epoch)
            seen.append(list(sampler))
        assert sorted(index for part in seen for index in part) == dataset
        orders.append(seen)
    assert orders[0] != orders[1]


def test_sampler_of_few_samples_for_many_ranks(lone_rank: Callable[[int, int], None]) -> None:
    lone_rank(6, 7)
    sampler = ElasticSampler([1, 2], shuffle=False)
    assert list(sampler) == [0]
    sampler.record_batch(0, 1)
    sampler.reset()
    assert list(sampler) == []
    assert len(sampler) == 0


def test_sampler_is_part_of_a_state(lone_rank: Callable[[int, int], None]) -> None:
    sampler = ElasticSampler(list(range(8)), shuffle=False)
    state = TorchState(sampler=sampler, epoch=0)
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    state.restore()
    assert sampler.processed_num == 2
    assert list(sampler) == [2, 3, 4, 5, 6, 7]
    lone_rank(1, 2)
    state.on_reset()
    assert list(sampler) == [3, 5, 7]
    state.sync()
    assert sampler.processed_num == 2
