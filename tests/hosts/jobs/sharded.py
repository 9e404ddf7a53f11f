"""Steps of a sharded optimizer in an elastic job; a host is lost on the way, the one that LOST_HOST numbers if any.

All ranks see the same data, and four or two have the same mean of it: the figures do not depend on their number.
"""

import hashlib
import os
import signal

import horovod.torch as hvd
import torch
from checks import tell

LOST_HOST = int(os.environ.get("LOST_HOST", "-1"))

hvd.init()
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(7, 50), torch.nn.Tanh(), torch.nn.Linear(50, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), sharded=True)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, losses=[])


def digest() -> str:
    """Return what the weights and the whole optimizer state come to."""
    states = [state for _, state in sorted(optimizer.full_state_dict()["state"].items())]
    tensors = [*model.parameters(), *(state[key] for state in states for key in sorted(state))]
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    """Make twelve steps, and commit each third."""
    tell(f"begins with step {state.step}, {hvd.size()} ranks")
    while state.step < 12:
        optimizer.zero_grad()
        torch.manual_seed(state.step)
        loss = model(torch.randn(3, 7).double()).square().sum()
        loss.backward()
        optimizer.step()
        state.step += 1
        state.losses = [*state.losses, loss.item().hex()]
        if state.step == 8 and hvd.size() == 4 and (hvd.cross_rank(), hvd.local_rank()) == (LOST_HOST, 0):
            os.kill(os.getppid(), signal.SIGKILL)  # the host's agent, with which its ranks end
            signal.pause()  # until then
        if state.step % 3 == 0:
            state.commit()


train(state)
tell(f"figures {digest()} {' '.join(state.losses)}")
