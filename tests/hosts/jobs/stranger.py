"""Connects to the given hosts' listening ports with garbage, over and over, until the job has ended.

Arguments: the folder in which the job's ranks tell, and `address=namespace` of each host. Ports are found as
an administrator would find them.
"""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

GARBAGE = (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(64), b"\xff" * 4096, bytes(i * i % 251 for i in range(100000)))


def ports(namespace: str) -> list[int]:
    """List the ports that somebody listens on in a namespace."""
    command = ["ip", "netns", "exec", namespace, "cat", "/proc/net/tcp", "/proc/net/tcp6"]
    table = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in table.splitlines()]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == "0A"})


def main() -> None:
    """Attack until the job has told enough; then tell how often somebody listened."""
    told, hosts = Path(sys.argv[1]), dict(text.split("=") for text in sys.argv[2:])
    knocks = 0
    while not (told / "over").exists():
        held = []
        for address, namespace in hosts.items():
            for port in ports(namespace):
                for data in GARBAGE:
                    with contextlib.suppress(OSError):
                        connection = socket.create_connection((address, port), timeout=2)
                        held.append(connection)  # open until the next round
                        connection.settimeout(2)
                        connection.sendall(data)
                        knocks += 1
        for connection in held:
            connection.close()
    print(f"{knocks} knocks")


main()
