"""As the synthetic benchmarks: what is built decides about Adasum's rate, and speeds of all ranks are added up."""

from __future__ import annotations

import argparse
import timeit

import horovod.torch as hvd
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--num-warmup-batches", type=int, default=1)
parser.add_argument("--num-batches-per-iter", type=int, default=2)
parser.add_argument("--num-iters", type=int, default=2)
parser.add_argument("--use-adasum", action="store_true")
args = parser.parse_args()
args.cuda = torch.cuda.is_available()

hvd.init()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 14 * 14, 10))
lr_scaler = hvd.size() if not args.use_adasum else 1
if args.cuda and args.use_adasum and hvd.nccl_built():
    lr_scaler = hvd.local_size()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * lr_scaler)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Adasum if args.use_adasum else hvd.Average,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
data, target = torch.randn(args.batch_size, 3, 16, 16), torch.LongTensor(args.batch_size).random_() % 10


def benchmark_step() -> None:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()


def log(s: str, nl: bool = True) -> None:
    if hvd.rank() != 0:
        return
    print(s, end="\n" if nl else "")


timeit.timeit(benchmark_step, number=args.num_warmup_batches)
img_secs = []
for _ in range(args.num_iters):
    time = timeit.timeit(benchmark_step, number=args.num_batches_per_iter)
    img_secs.append(args.batch_size * args.num_batches_per_iter / time)
total = hvd.allreduce(torch.tensor([sum(img_secs), 1.0]), op=hvd.Sum, name="img_secs")
log(f"Total on {hvd.size()} device(s): from {int(total[1])} ranks, more than none {bool(total[0] > 0)}")
log(f"lr {optimizer.param_groups[0]['lr']:.2f}, {type(optimizer).__module__.split('.')[0]}")
