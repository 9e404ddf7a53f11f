"""Parameters that no rank has a gradient of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from horovod.common.basics import Max
from horovod.common.operations import expect
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops
from horovod.torch._tensors import start


def ask_for_unused(
    parameters: Sequence[torch.Tensor], name: str, process_set: ProcessSet
) -> Callable[[], list[torch.Tensor]]:
    """Start to ask all ranks which parameters have a gradient; the result waits, and returns those that have none.

    To be called before zeros take the place of this rank's missing gradients.
    """
    used = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8)
    handle = start(*_ops.prepare_allreduce(used, True, f"{name}.used", Max, 1.0, 1.0, process_set))
    return lambda: [each for each, is_used in zip(parameters, expect(handle).tolist()) if not is_used]
