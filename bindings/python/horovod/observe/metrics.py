"""Rates of a job's ranks for Prometheus."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from horovod.observe.rates import Rates, lateness
from horovod.runner.util.door import Door

_METRICS: dict[str, tuple[str, str, Callable[[Rates], float | None]]] = {
    "roda_operations_total": ("counter", "Collectives that have ended.", lambda each: each.rank.ended),
    "roda_bytes_total": ("counter", "Bytes of their tensors on this rank.", lambda each: each.rank.ended_bytes),
    "roda_up": ("gauge", "1: the process runs, 0: it is stopped or gone.", lambda each: each.rank.process == "running"),
    "roda_wait_ratio": ("gauge", "Share of the time in which tensors wait for other ranks.", lambda each: each.waits),
    "roda_run_ratio": ("gauge", "Share of the time in which data move.", lambda each: each.runs),
    "roda_oldest_wait_seconds": ("gauge", "How long the oldest waits for other ranks.", lambda each: each.oldest_wait),
    "roda_steps_per_second": ("gauge", "How often the same tensors come again.", lambda each: each.steps),
}


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _labels(each: Rates) -> str:
    return f'rank="{each.rank.rank}",host="{_label(each.rank.host)}",pid="{each.rank.pid}"'


def prometheus(told: Sequence[Rates]) -> str:
    """Return the metrics in Prometheus' text format."""
    lines = []
    for name, (kind, about, value_of) in _METRICS.items():
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for each in told:
            value = value_of(each)
            if value is not None:
                lines.append(f"{name}{{{_labels(each)}}} {float(value):.17g}")
    lines += ["# HELP roda_late_ratio Share of the time in which others wait for it.", "# TYPE roda_late_ratio gauge"]
    lines += [f"roda_late_ratio{{{_labels(each)}}} {lateness(told, each.rank.rank):.17g}" for each in told]
    return "\n".join(lines) + "\n"


_REPLY = (
    "HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
    "Connection: close\r\n\r\n"
)
_MOST_OF_REQUEST = 1 << 13


class Metrics:
    """The latest metrics, in a file and on a port where that is asked for."""

    def __init__(self, file: Path | None, address: str, port: int | None) -> None:
        self._file = file
        self._text = ""
        self._door: Door | None = None
        if port is not None:
            try:
                self._door = Door(address, lambda: (b"", self._reply), _MOST_OF_REQUEST, "roda-metrics", port=port)
            except (OSError, OverflowError) as error:  # the latter for no number of a port
                reason = getattr(error, "strerror", None) or str(error)  # the error itself would hold this frame
                raise OSError(f"--prometheus-port {port}: can't listen there at {address}: {reason}") from error

    @property
    def port(self) -> int | None:
        """The port that is listened on."""
        return self._door.port if self._door else None

    def _reply(self, heard: bytearray) -> bytes | None:
        """Return the answer to an HTTP request, once all of the request has come."""
        if b"\r\n\r\n" not in heard and b"\n\n" not in heard:
            return None
        method, _, rest = bytes(heard).partition(b" ")
        is_ours = method in (b"GET", b"HEAD") and re.match(rb"/metrics[ ?\r\n]", rest) is not None
        body = self._text.encode() if is_ours else b"see /metrics\n"
        head = _REPLY.format("200 OK" if is_ours else "404 Not Found", len(body)).encode()
        return head if method == b"HEAD" else head + body

    def tell(self, told: Sequence[Rates]) -> None:
        """Publish the metrics. Readers of the file see the old ones or the new ones."""
        self._text = prometheus(told)
        if self._file is not None:
            fresh = self._file.parent / f".{self._file.name}.{os.getpid()}"
            try:
                fresh.write_text(self._text)
                fresh.replace(self._file)
            except OSError as error:
                fresh.unlink(missing_ok=True)
                raise OSError(f"--prometheus-file {self._file}: {error.strerror}") from error

    def close(self) -> None:
        """Listen no more."""
        if self._door is not None:
            self._door.close()
