"""A timeline that begins and ends while the program runs, twice, and what is in it."""

from __future__ import annotations

import json
import os

import horovod.torch as hvd
import torch

hvd.init()
for number in (1, 2):
    path = f"timeline{number}.json"
    hvd.start_timeline(path, mark_cycles=True)
    hvd.allreduce(torch.ones(3), name=f"traced{number}")
    hvd.stop_timeline()
    hvd.barrier()
    hvd.allreduce(torch.ones(3), name="unseen")
hvd.barrier()
if hvd.rank() == 0:
    for number in (1, 2):
        with open(f"timeline{number}.json") as file:
            text = file.read()
        events = json.loads(text)
        kinds = [kind for kind in ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START") if f'"{kind}"' in text]
        traced = [name for name in ("allreduce.traced1", "allreduce.traced2", "allreduce.unseen") if name in text]
        print(f"timeline {number}: events {len(events) > 4} of {traced}, {kinds}")
        os.remove(f"timeline{number}.json")
