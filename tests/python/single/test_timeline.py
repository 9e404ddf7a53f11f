from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from conftest import Launch

BINDING = str(Path(__file__).parents[1] / "binding")
SCRIPT = f"""
import sys
sys.path.insert(0, {BINDING!r})
import arrays as hvd
import numpy as np
from horovod.common.life_cycle import start_timeline, stop_timeline
hvd.init()
if len(sys.argv) > 1:
    start_timeline(sys.argv[1], mark_cycles=True)
for _ in range(3):
    hvd.allreduce(np.ones(4), name="loss")
    hvd.broadcast(np.ones(4), 0, name="weights")
if len(sys.argv) > 1:
    stop_timeline()
    hvd.barrier()  # the other rank comes no farther before
    hvd.allreduce(np.ones(4), name="later")
hvd.shutdown()
"""


def check(path: Path) -> str:
    text = path.read_text()
    events = json.loads(text)
    assert isinstance(events, list)
    names = {event.get("name") for event in events}
    assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "NEGOTIATE_BROADCAST", "BROADCAST"} <= names
    tensors = {
        event["args"]["name"] for event in events if event.get("name") == "process_name" and "name" in event["args"]
    }
    assert {"allreduce.loss", "broadcast.weights"} <= tensors
    assert "start_time_since_epoch_in_micros" in text
    return text


def test_timeline_of_a_whole_job(horovodrun: Launch, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    done = horovodrun("-np", "2", "--timeline-filename", str(path), sys.executable, "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    assert "CYCLE_START" not in check(path)


def test_timeline_started_and_stopped_by_calls(horovodrun: Launch, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    armed = dict(os.environ, HOROVOD_TIMELINE="DYNAMIC")
    done = horovodrun("-np", "2", sys.executable, "-c", SCRIPT, str(path), env=armed)
    assert done.returncode == 0, done.stderr
    text = check(path)
    assert "CYCLE_START" in text
    assert "later" not in text


def test_a_timeline_that_is_not_armed_cannot_be_stopped(horovodrun: Launch) -> None:
    script = "from horovod.common.life_cycle import init, stop_timeline; init(); stop_timeline()"
    done = horovodrun("-np", "1", sys.executable, "-c", script)
    assert done.returncode != 0
    assert "ValueError: Set HOROVOD_TIMELINE=DYNAMIC to enable dynamic timeline usage." in done.stderr


def test_a_timeline_that_is_not_armed_cannot_be_started(horovodrun: Launch, tmp_path: Path) -> None:
    done = horovodrun("-np", "1", sys.executable, "-c", SCRIPT, str(tmp_path / "timeline.json"))
    assert done.returncode != 0
    assert "Set HOROVOD_TIMELINE=DYNAMIC to enable dynamic timeline usage." in done.stderr


# The limit comes only then: shared memory is files, too.
FILLS = """
import resource, sys
sys.path.insert(0, {binding!r})
import arrays as hvd
import numpy as np
from horovod.common.life_cycle import start_timeline
hvd.init()
hvd.allreduce(np.ones(4), name="loss")
start_timeline("{path}")
limit = 1 << 16
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for step in range(1000):
    loss = hvd.allreduce(np.full(4, float(step)), name="loss")
hvd.shutdown()
print("loss", loss[0].item())
"""


@pytest.mark.parametrize("name", ["timeline.json", "/dev/full"])
def test_a_disk_that_is_full_ends_the_timeline_alone(horovodrun: Launch, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    armed = dict(os.environ, HOROVOD_TIMELINE="DYNAMIC")
    done = horovodrun("-np", "2", sys.executable, "-c", FILLS.format(path=path, binding=BINDING), env=armed)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:loss 1998.0", "[1]<stdout>:loss 1998.0"]
    (line,) = done.stderr.splitlines()
    why = "No space left on device" if name == "/dev/full" else "File too large"
    assert line.endswith(f"The timeline '{path}' ends here: {why}. The job goes on.")
    if name != "/dev/full":
        assert json.loads(path.read_text()), "what came before is complete"
