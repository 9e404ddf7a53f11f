"""``import horovod.torch`` and torch's compiler, in either order."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

IS_SKIPPED = """
from torch._dynamo import convert_frame
rules = getattr(convert_frame, "trace_rules", None) or convert_frame.skipfiles
assert rules.check(horovod.torch.allreduce)
"""


@pytest.mark.parametrize(
    "program",
    [
        "import sys, horovod.torch; assert 'torch._dynamo' not in sys.modules, 'takes seconds'; import torch._dynamo",
        "import torch._dynamo, horovod.torch",
    ],
)
def test_the_tracer_keeps_out_of_the_package(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program + IS_SKIPPED], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
