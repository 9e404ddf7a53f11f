"""accelerate over a default group of the backend roda."""

from __future__ import annotations

import horovod.torch as hvd
import pytest
import torch
import torch.distributed as dist

accelerate = pytest.importorskip("accelerate")


def test_training() -> None:
    if hvd.size() == 1:
        pytest.skip("accelerate does without a group then")
    if not dist.is_initialized():
        dist.init_process_group("roda")
    accelerator = accelerate.Accelerator(cpu=True)
    assert (accelerator.num_processes, accelerator.process_index) == (hvd.size(), hvd.rank())
    torch.manual_seed(0)
    whole = torch.nn.Linear(3, 1)
    model, x = torch.nn.Linear(3, 1), torch.randn(4 * hvd.size(), 3)
    model.load_state_dict(whole.state_dict())
    rows = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(rows, 4))
    for own, target in loader:
        loss = torch.nn.functional.mse_loss(model(own), target)
        accelerator.backward(loss)
        optimizer.step()
    losses = accelerator.gather(loss.detach().view(1))
    expected = torch.nn.functional.mse_loss(whole(x), x.sum(1, keepdim=True))
    assert torch.allclose(losses.mean(), expected.detach())
    expected.backward()
    torch.optim.SGD(whole.parameters(), 0.1).step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(model.parameters(), whole.parameters()))
