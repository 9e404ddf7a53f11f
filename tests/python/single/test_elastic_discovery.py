"""What discovery scripts print and do, and how long what has failed is not used."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from horovod.runner.elastic.discovery import (
    Cooldown,
    DiscoveryError,
    FixedHosts,
    HostDiscoveryScript,
    check_cooldown_range,
    parse_hosts_and_slots,
)


def test_lines_of_hosts() -> None:
    assert parse_hosts_and_slots("b:2\n\n a.example-1:0 \nb:2\n", None, "s") == {"b": 2, "a.example-1": 0}
    assert list(parse_hosts_and_slots("b\na:3\n", 4, "s").items()) == [("b", 4), ("a", 3)]
    assert parse_hosts_and_slots("", None, "s") == {}
    assert parse_hosts_and_slots("[fd00::2]:2\n[::1]", 1, "s") == {"fd00::2": 2, "::1": 1}


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("a:2\nTraceback (most recent call last):", "'Traceback (most recent call last):', which is neither"),
        ("a:b", "'a:b', which is neither"),
        ("-oX:2", "Host name '-oX' begins with '-'"),
        ("a:-1", "which is neither"),
        ("a:1:2", "which is neither"),
        ("a:9999999", "which is neither"),
        ("a", "'a' without slots: print a:N, or give --slots-per-host"),
        ("a:2\na:3", "two numbers of slots of a: 2 and 3"),
        ("x" * 500 + "!", "xxx"),
    ],
)
def test_rubbish_is_named(output: str, told: str) -> None:
    with pytest.raises(DiscoveryError) as caught:
        parse_hosts_and_slots(output, None, "Discovery script s")
    assert told in str(caught.value)
    assert str(caught.value).startswith("Discovery script s printed ")
    assert len(str(caught.value)) < 300


def test_scripts(tmp_path: Path) -> None:
    script = tmp_path / "hosts.sh"
    script.write_text("#!/bin/sh\necho a:2\necho b\n")
    with pytest.raises(DiscoveryError, match=r"hosts.sh ended with status 126.*Make it executable \(chmod \+x\)"):
        HostDiscoveryScript(str(script)).find_available_hosts_and_slots()
    script.chmod(0o700)
    assert HostDiscoveryScript(str(script), slots=3).find_available_hosts_and_slots() == {"a": 2, "b": 3}
    with pytest.raises(DiscoveryError, match=r"nowhere.sh ended with status 127: .*not found"):
        HostDiscoveryScript(str(tmp_path / "nowhere.sh")).find_available_hosts_and_slots()
    script.write_text("#!/bin/sh\necho a:2; echo no network >&2; exit 3\n")
    with pytest.raises(DiscoveryError, match=r"^Failed to execute discovery script: .* status 3: no network\.$"):
        HostDiscoveryScript(str(script)).find_available_hosts_and_slots()


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_script_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    command = f"sleep 600 & echo $! > {told}; wait"
    with pytest.raises(DiscoveryError, match="has not ended within 0.5 seconds"):
        HostDiscoveryScript(command, timeout=0.5).find_available_hosts_and_slots()
    grandchild = int(told.read_text())
    deadline = time.monotonic() + 30  # a signal that was sent has not yet arrived
    while _is_alive(grandchild):
        assert time.monotonic() < deadline


def test_hosts_that_are_given() -> None:
    hosts = FixedHosts({"a": 1})
    found = hosts.find_available_hosts_and_slots()
    hosts.set({"b": 2})
    assert found == {"a": 1}
    assert hosts.find_available_hosts_and_slots() == {"b": 2}


def test_cooldowns() -> None:
    assert Cooldown().is_usable(0)
    forever = Cooldown()
    forever.fail(5)
    assert not forever.is_usable(1e12)
    doubling = Cooldown((10, 50), lambda: 0.5)
    ends = []
    for _ in range(4):
        doubling.fail(100)
        ends.append(doubling.until)
        assert not doubling.is_usable(ends[-1] - 1)
        assert doubling.is_usable(ends[-1])
    assert ends == [115, 125, 145, 150]


@pytest.mark.parametrize("bounds", [(0, 5), (6, 5), (1, 3601)])
def test_bounds_of_cooldowns(bounds: tuple[int, int]) -> None:
    check_cooldown_range(None)
    check_cooldown_range((1, 3600))
    with pytest.raises(ValueError, match="blacklist_cooldown_range"):
        check_cooldown_range(bounds)
