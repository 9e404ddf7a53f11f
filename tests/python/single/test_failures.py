"""What the other ranks see when one goes away."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from conftest import Launch

# Rank 0 outlives the launcher's polite request, so that it can tell what it saw.
SURVIVOR = """
import os, signal, sys, torch
import horovod.torch as hvd
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hvd.init()
hvd.allreduce(torch.ones(4), name="warm-up")
if hvd.rank() == hvd.size() - 1:
    {leave}
try:
    for step in range(10000):
        hvd.allreduce(torch.ones(4), name=f"step.{{step}}")
except hvd.HorovodInternalError as error:
    with open(os.path.join(sys.argv[1], str(hvd.rank())), "w") as file:
        file.write(str(error))
"""


@pytest.mark.parametrize("transport", [[], ["--gloo"]], ids=["default", "gloo"])
@pytest.mark.parametrize("leave", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"], ids=["killed", "exited"])
def test_a_rank_that_dies_ends_the_others_with_an_error(
    horovodrun: Launch, tmp_path: Path, transport: list[str], leave: str
) -> None:
    script = tmp_path / "survivor.py"
    script.write_text(textwrap.dedent(SURVIVOR).format(leave=leave))
    done = horovodrun(
        *transport, "--termination-grace-seconds", "60", "-np", "3", sys.executable, str(script), str(tmp_path)
    )
    assert done.returncode == (137 if "SIGKILL" in leave else 3)
    for rank in (0, 1):
        assert (tmp_path / str(rank)).read_text(), done.stderr


def test_a_rank_that_shuts_down_ends_the_others_operations(horovodrun: Launch, tmp_path: Path) -> None:
    script = tmp_path / "survivor.py"
    script.write_text(textwrap.dedent(SURVIVOR).format(leave="hvd.shutdown(); sys.exit(0)"))
    done = horovodrun("-np", "2", sys.executable, str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0").read_text().startswith("Horovod has been shut down.")
