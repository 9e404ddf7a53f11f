from __future__ import annotations

from pathlib import Path

import pytest
from horovod.runner.common.util.hosts import (
    HostInfo,
    SlotInfo,
    get_host_assignments,
    lay_out,
    parse_host_files,
    parse_hosts,
    parse_hosts_and_slots,
)
from horovod.runner.common.util.settings import Settings
from horovod.runner.util.remote import get_ssh_command, remote_arguments


def test_parse_hosts() -> None:
    assert parse_hosts("a:2,b-1.x:4") == [HostInfo("a", 2), HostInfo("b-1.x", 4)]
    assert parse_hosts_and_slots("a:2,b:1") == (["a", "b"], {"a": 2, "b": 1})
    assert parse_hosts_and_slots("b:2,a:0,b:1") == (["b", "a"], {"b": 3, "a": 0})


def test_ipv6_addresses(tmp_path: Path) -> None:
    hosts = "[::1]:2,[fd00::2%eth0]:1,[::ffff:10.0.0.1]:4,a:1"
    names = ["::1", "fd00::2%eth0", "::ffff:10.0.0.1", "a"]
    assert [host.hostname for host in parse_hosts(hosts)] == names
    file = tmp_path / "hosts"
    file.write_text("[::1] slots=2\nfd00::2%eth0\n[::ffff:10.0.0.1]:4\na\n")
    assert parse_host_files(str(file)) == hosts
    file.write_text("::1 2\nfd00::5 slots=3\n[::1]:1\n")
    assert parse_host_files(str(file)) == "[::1]:3,[fd00::5]:3"
    with pytest.raises(ValueError, match=r"available slots \(2\): \[::1\]:2;"):
        get_host_assignments(parse_hosts("[::1]:2"), 3)


def test_names_that_would_be_options_are_refused(tmp_path: Path) -> None:
    told = "Host name '-oProxyCommand' begins with '-'"
    with pytest.raises(ValueError, match=told):
        parse_hosts("a:1,-oProxyCommand:2")
    (tmp_path / "hosts").write_text("-oProxyCommand slots=2\n")
    with pytest.raises(ValueError, match=told):
        parse_host_files(str(tmp_path / "hosts"))
    settings = Settings(1, "")
    for remote_shell in (None, "/opt/agent"):
        settings.remote_shell = remote_shell
        with pytest.raises(ValueError, match=told):
            remote_arguments(settings, "-oProxyCommand", "true")
    with pytest.raises(ValueError, match=told):
        get_ssh_command("true", "-oProxyCommand")


def test_ssh_is_told_where_its_options_end() -> None:
    settings = Settings(1, "", ssh_port=5, ssh_identity_file="my key")
    words = remote_arguments(settings, "host", "a 'b'")
    assert words[0] == "ssh"
    assert words[-3:] == ["--", "host", "a 'b'"]
    assert {"-p", "5", "-i", "my key"} < set(words[1:-3])


@pytest.mark.parametrize("text", ["[a]:2", "[::1]", "::1:2", "a", "a:", ":2", "a:b", "a:1;b:2", "", "a b:1"])
def test_bad_hosts(text: str) -> None:
    with pytest.raises(
        ValueError, match="Invalid host input, please make sure it has format as : worker-0:2,worker-1:2."
    ):
        parse_hosts(text)


def test_hostfile(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("first slots=2\n\n# nothing\nsecond slots=4   # more\n")
    assert parse_host_files(str(file)) == "first:2,second:4"
    file.write_text("a slots=2 max_slots=8\nb:3\nc 4 all.q@c UNDEFINED\nd\nc\nd\n")
    assert parse_host_files(str(file)) == "a:2,b:3,c:5,d:2"
    for text, told in (
        (b"a slots=many", "hosts: 'a slots=many': 'many' is no number of slots"),
        ("a slots=²".encode(), "hosts: 'a slots=²': '²' is no number of slots"),
        (b"\x7fELF\xff", "hosts is no text in UTF-8"),
        (b"# none\n", "hosts names no host"),
        (b"a" * 3000, "hosts: '.*' is no name of a host: it has 3000 characters"),
    ):
        file.write_bytes(text)
        with pytest.raises(ValueError, match=told):
            parse_host_files(str(file))


def test_ranks_fill_hosts_in_order_and_stop_at_the_maximum() -> None:
    slots = get_host_assignments(parse_hosts("b:2,a:3"), 4, 4)
    assert slots == [
        SlotInfo("b", 0, 0, 0, 4, 2, 2),
        SlotInfo("b", 1, 1, 0, 4, 2, 2),
        SlotInfo("a", 2, 0, 1, 4, 2, 2),
        SlotInfo("a", 3, 1, 1, 4, 2, 2),
    ]
    assert len(get_host_assignments(parse_hosts("b:2,a:3"), 4)) == 5


def test_a_host_may_claim_any_number_of_slots() -> None:
    slots = get_host_assignments(parse_hosts("b:2,a:999999999999999999999"), 4, 4)
    assert [slot.hostname for slot in slots] == ["b", "b", "a", "a"]


def test_cross_numbers_count_hosts_with_that_local_rank() -> None:
    slots = get_host_assignments(parse_hosts("a:1,b:3,c:2"), 6, 6)
    numbers = {(s.hostname, s.local_rank): (s.cross_rank, s.cross_size) for s in slots}
    assert numbers == {
        ("a", 0): (0, 3),
        ("b", 0): (1, 3),
        ("b", 1): (0, 2),
        ("b", 2): (0, 1),
        ("c", 0): (2, 3),
        ("c", 1): (1, 2),
    }


def test_hosts_that_are_named_twice_and_hosts_without_slots() -> None:
    slots = get_host_assignments(parse_hosts("a:1,zero:0,b:1,a:1"), 3, 3)
    numbers = [(s.hostname, s.rank, s.local_rank, s.local_size, s.cross_rank, s.cross_size) for s in slots]
    assert numbers == [("a", 0, 0, 2, 0, 2), ("b", 1, 0, 1, 1, 2), ("a", 2, 1, 2, 0, 1)]


def test_too_few_slots() -> None:
    with pytest.raises(ValueError, match=r"Requested more processes \(5\) than there are available slots \(3\)"):
        get_host_assignments(parse_hosts("a:1,b:2"), 5, 5)


def test_response_string() -> None:
    slot = SlotInfo("a", 3, 1, 0, 8, 4, 2)
    assert slot.to_response_string() == "3,8,1,4,0,2"
    assert SlotInfo.from_response_string("3,8,1,4,0,2") == SlotInfo("", 3, 1, 0, 8, 4, 2)


def test_the_numbers_of_ranks_on_several_hosts() -> None:
    slots = lay_out(["a", "a", "b", "a", "b"])
    assert [slot.local_rank for slot in slots] == [0, 1, 0, 2, 1]
    assert [slot.local_size for slot in slots] == [3, 3, 2, 3, 2]
    assert [slot.cross_rank for slot in slots] == [0, 0, 1, 0, 1]
    assert [slot.cross_size for slot in slots] == [2, 2, 2, 1, 2]
