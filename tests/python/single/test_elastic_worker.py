"""What a worker of an elastic job tells its launcher."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from horovod.common.exceptions import HorovodInternalError
from horovod.runner.elastic.worker import Channel


def test_the_thread_that_listens_takes_no_signals() -> None:
    ours, theirs = socket.socketpair()
    before = set(os.listdir("/proc/self/task"))
    Channel(ours.detach(), lambda *_: None)
    (thread,) = set(os.listdir("/proc/self/task")) - before
    status = Path("/proc/self/task", thread, "status").read_text()
    blocked = int(next(line for line in status.splitlines() if line.startswith("SigBlk:")).split()[1], 16)
    assert blocked >> (signal.SIGUSR1 - 1) & 1
    theirs.close()


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("cannot reach the rendezvous at 10.0.0.1:4: Network is unreachable", 2),
        ("lost the rendezvous: Connection timed out", 2),
        ("b[0] could not come together with the others: cannot reach the rendezvous at 10.0.0.1:4", None),
    ],
)
def test_a_worker_without_a_way_to_the_launcher_names_itself(
    monkeypatch: pytest.MonkeyPatch, text: str, lost: int | None
) -> None:
    monkeypatch.setenv("HOROVOD_RANK", "0")
    ours, launchers = socket.socketpair()
    channel = Channel(ours.detach(), lambda *_: None)
    orders = [{"generation": 7, "environment": {"HOROVOD_RANK": "2"}, "sync": True}, {"removed": "no place"}]
    launchers.sendall("".join(json.dumps(order) + "\n" for order in orders).encode())

    def fail(generation: int) -> None:
        raise HorovodInternalError(text)

    with pytest.raises(SystemExit), launchers, launchers.makefile("rb") as told:
        try:
            channel.join(fail, as_guest=False)
        finally:
            left, failed = json.loads(told.readline()), json.loads(told.readline())
            assert left["ready"]
            assert failed == {"failed": 7, "text": text, "lost": lost}
