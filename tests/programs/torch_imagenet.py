"""As the ImageNet scripts: warm-up by batches, fp16 on the wire, several batches a step, a run from a checkpoint."""

from __future__ import annotations

import argparse
import os

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint-format", default="checkpoint-{epoch}.pth.tar")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batches-per-allreduce", type=int, default=2)
parser.add_argument("--warmup-epochs", type=float, default=1)
parser.add_argument("--base-lr", type=float, default=0.05)
args = parser.parse_args()

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)
verbose = hvd.rank() == 0

resume_from_epoch = 0
for epoch in range(args.epochs, 0, -1):
    if os.path.exists(args.checkpoint_format.format(epoch=epoch)):
        resume_from_epoch = epoch
        break
resume_from_epoch = hvd.broadcast(torch.tensor(resume_from_epoch), root_rank=0, name="resume_from_epoch").item()

inputs = torch.randn(256, 16)
dataset = TensorDataset(inputs, inputs[:, :4].argmax(1))
sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(dataset, batch_size=8 * args.batches_per_allreduce, sampler=sampler)

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
lr_scaler = args.batches_per_allreduce * hvd.size()
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * lr_scaler, momentum=0.9, weight_decay=5e-5)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16,
    backward_passes_per_step=args.batches_per_allreduce,
    op=hvd.Average,
    gradient_predivide_factor=1.0,
)
if resume_from_epoch > 0 and hvd.rank() == 0:
    checkpoint = torch.load(args.checkpoint_format.format(epoch=resume_from_epoch))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)


class Metric:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sum, self.n = torch.tensor(0.0), torch.tensor(0.0)

    def update(self, value: torch.Tensor) -> None:
        self.sum += hvd.allreduce(value.detach().cpu(), name=self.name)
        self.n += 1

    @property
    def avg(self) -> torch.Tensor:
        return self.sum / self.n


def adjust_learning_rate(epoch: int, batch_idx: int) -> None:
    if epoch < args.warmup_epochs:
        epoch += float(batch_idx + 1) / len(loader)
        lr_adj = 1.0 / hvd.size() * (epoch * (hvd.size() - 1) / args.warmup_epochs + 1)
    else:
        lr_adj = 1.0 if epoch < 3 else 1e-1
    for param_group in optimizer.param_groups:
        param_group["lr"] = args.base_lr * lr_scaler * lr_adj


for epoch in range(resume_from_epoch, args.epochs):
    model.train()
    sampler.set_epoch(epoch)
    train_loss = Metric("train_loss")
    for batch_idx, (data, target) in enumerate(loader):
        adjust_learning_rate(epoch, batch_idx)
        optimizer.zero_grad()
        for i in range(0, len(data), 8):
            loss = F.cross_entropy(model(data[i : i + 8]), target[i : i + 8])
            train_loss.update(loss)
            loss.div_(-(-len(data) // 8))
            loss.backward()
        optimizer.step()
    if verbose:
        print(f"epoch {epoch + 1} lr {optimizer.param_groups[0]['lr']:.3f} better {train_loss.avg.item() < 1.38}")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, args.checkpoint_format.format(epoch=epoch + 1))
same = hvd.allgather(torch.stack([parameter.double().sum() for parameter in model.parameters()])[None])
print(f"rank {hvd.rank()} resumed {resume_from_epoch} same {bool((same == same[:1]).all())}")
