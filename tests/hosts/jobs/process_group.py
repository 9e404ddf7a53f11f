"""A sum of torch.distributed's, by the backend roda, of processes that torch's own store brings together."""

import torch
import torch.distributed as dist
from checks import require, tell

dist.init_process_group("roda")
total = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(total)
require(bool((total == dist.get_world_size() * (dist.get_world_size() + 1) / 2).all()), "a sum")
tell(f"fine {dist.get_rank()}")
dist.destroy_process_group()
