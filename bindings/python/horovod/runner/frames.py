"""Frames that an agent sends (agent.py has the kinds), judged as far as they can be before all has come."""

from __future__ import annotations

import struct

HEADER = struct.Struct(">cII")  # kind, rank, length
_CHUNK = (1, 1 << 16)
# The fewest and the most bytes of a frame of each kind.
_LENGTHS = {
    **dict.fromkeys((b"o", b"e", b"c", b"m"), _CHUNK), **dict.fromkeys((b"a", b"u"), (1, 1024)),
    b"r": (1, 1 << 31), b"x": (4, 4), b"i": (0, 0),
}  # fmt: skip


class FrameError(Exception):
    """Bytes that no agent sends: at its place a shell, or a program, writes to its own output."""


def take_frame(buffer: bytearray, hostname: str) -> tuple[bytes, int, bytes] | None:
    """Return kind, rank and payload of the first frame, and take it out of the buffer; None while it is not all there.

    Raises
    ------
    FrameError
        When that is none, however much of it has come.
    """
    if len(buffer) < HEADER.size:
        return None
    kind, rank, length = HEADER.unpack_from(buffer)
    least, most = _LENGTHS.get(kind, (0, -1))
    if not least <= length <= most:
        raise FrameError(
            f"What came from the agent of host {hostname} is none of its messages: kind {kind!r}, rank {rank}, "
            f"{length} bytes. Does something there write to the output of the remote shell?"
        )
    if len(buffer) < HEADER.size + length:
        return None
    payload = bytes(buffer[HEADER.size : HEADER.size + length])
    del buffer[: HEADER.size + length]
    return kind, rank, payload
