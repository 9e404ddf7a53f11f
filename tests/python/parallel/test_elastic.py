from __future__ import annotations

import horovod.torch as hvd
import torch
from horovod.torch.elastic import ElasticSampler, TorchState


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
