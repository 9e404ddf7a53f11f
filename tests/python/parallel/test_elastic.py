from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
from common import process_set
from horovod.common.exceptions import HostsUpdatedInterrupt
from horovod.runner.elastic.worker import HostUpdateResult
from horovod.torch.elastic import ElasticSampler, TorchState, state as states


def test_sync_gives_everybody_the_state_of_rank_zero() -> None:
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1), momentum=0.9)
    sampler = ElasticSampler(list(range(20)))
    for _ in range(hvd.rank() + 1):
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        sampler.record_batch(0, 1)
    state = TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=hvd.rank())
    state.sync()
    seen = hvd.allgather_object((model.weight.tolist(), optimizer.state_dict(), sampler.state_dict(), state.epoch))
    assert all(str(other) == str(seen[0]) for other in seen)
    assert seen[0][2:] == ({"epoch": 0, "processed_num": hvd.size()}, 0)


def test_training_goes_on_from_the_last_commit_after_a_failed_collective() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    state = TorchState(model=model, optimizer=optimizer, step=0, failed=False)
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state: TorchState, steps: int) -> int:
        while state.step < steps:
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            state.step += 1
            if state.step == 3 and not resets:
                # Not committed: the ranks disagree, the step is lost and done again.
                shape = hvd.rank() + 1 if hvd.size() > 1 else 0
                if shape == 0:
                    raise hvd.HorovodInternalError("a lone rank has nobody to disagree with")
                hvd.allreduce(torch.ones(shape), name="disagree")
            if state.step != 3:
                state.commit()
        return state.step

    assert train(state, 4) == 4
    assert resets == [hvd.size()]
    assert model.weight.item() == -4.0
    assert hvd.is_initialized()


class Trainee:
    """A model, and a sharded optimizer that has state."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Linear(5, 3)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0, momentum=0.5)
        self.optimizer = hvd.DistributedOptimizer(optimizer, self.model.named_parameters(), sharded=True)
        self.state = TorchState(model=self.model, optimizer=self.optimizer, step=0)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(1, 5)).sum().backward()
        self.optimizer.step()
        self.state.step += 1

    def seen(self) -> object:
        momenta = self.optimizer.full_state_dict()["state"].values()
        tensors = [*self.model.parameters(), *(state["momentum_buffer"] for state in momenta)]
        return [tensor.tolist() for tensor in tensors], self.state.step


def test_a_sharded_optimizer_goes_back_to_its_last_commit() -> None:
    trainee = Trainee()
    trainee.state.sync()
    trainee.step()
    trainee.state.commit()
    committed = trainee.seen()
    trainee.step()
    assert trainee.seen() != committed
    trainee.state.restore()
    assert trainee.seen() == committed
    trainee.state.sync()
    assert trainee.seen() == committed


def test_a_commit_that_one_rank_knows_to_be_complete_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    trainee = Trainee()
    trainee.state.sync()
    trainee.step()
    expected = trainee.seen()

    def fails_on_the_last_rank() -> None:
        hvd.barrier()
        if hvd.rank() == hvd.size() - 1 and hvd.size() > 1:
            raise hvd.HorovodInternalError("planned")

    with monkeypatch.context() as patch:
        patch.setattr(states, "barrier", fails_on_the_last_rank)
        try:
            trainee.state.save()
        except hvd.HorovodInternalError:
            assert hvd.rank() == hvd.size() - 1
    trainee.step()
    trainee.state.restore()
    assert (trainee.state.step == 0) == (hvd.size() > 1 and hvd.rank() == hvd.size() - 1)
    trainee.state.sync()
    assert trainee.seen() == expected


def test_parts_of_ranks_that_leave_are_kept_by_one_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    trainee = Trainee()
    trainee.state.sync()
    trainee.step()
    expected = trainee.seen()
    monkeypatch.setattr(states.notification_manager, "leaving", lambda: list(range(1, hvd.size())))
    trainee.state.on_hosts_updated(1.0, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as interrupt:
        trainee.state.check_host_updates()
    assert not interrupt.value.skip_sync
    assert trainee.state.may_go == list(range(1, hvd.size()))
    handler = trainee.state._handlers["optimizer"]
    layouts = [part.layout for part in handler._kept]
    assert layouts == ([(r, hvd.size()) for r in range(hvd.size())] if hvd.rank() == 0 else [(hvd.rank(), hvd.size())])
    trainee.step()
    trainee.state.reset()
    assert trainee.state.may_go == []
    if hvd.rank() == 0:
        trainee.state.restore()
    else:
        trainee.state._number = 0  # a newcomer's: rank 0 alone has the commit
    trainee.state.sync()
    assert trainee.seen() == expected


@pytest.mark.skipif("hvd.size() < 2", reason="a lone rank has all parts")
def test_a_part_that_is_lost_before_the_first_commit() -> None:
    trainee = Trainee()
    trainee.step()  # or a checkpoint was loaded
    handler = trainee.state._handlers["optimizer"]
    handler.keep()
    if hvd.rank() == hvd.size() - 1:
        handler.has_commit = False  # a newcomer in the place of one that died
    with pytest.raises(RuntimeError, match=rf"of rank {hvd.size() - 1} of {hvd.size()} is lost: .* the first commit"):
        handler.sync()


def test_a_sharded_optimizer_of_a_process_set_is_refused() -> None:
    if hvd.size() < 2:
        pytest.skip("all ranks are the global set")
    with process_set([0]) as alone:
        parameters = [torch.nn.Parameter(torch.ones(1))]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), process_set=alone, sharded=True)
        with pytest.raises(ValueError, match="of all ranks"):
            TorchState(optimizer=optimizer)
