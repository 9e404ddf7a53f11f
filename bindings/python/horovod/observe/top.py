"""``roda-top``: what the ranks of a job on this host do, now and again, for people and for Prometheus."""

from __future__ import annotations

import argparse
import http.server
import os
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from horovod.observe import flight
from horovod.observe.diagnosis import bytes_in_words, diagnose
from horovod.observe.steps import length, union, within

_OF_STEPS_NS = 60 * 10**9  # steps are counted over a minute at most


@dataclass
class Rates:
    """What one rank did between two looks."""

    rank: flight.Rank
    operations: float  # a second
    bytes: float  # a second
    steps: float | None  # a second; None: no name came twice
    waits: float  # share of the time in which something waits for other ranks
    runs: float  # share of the time in which data move
    oldest_wait: float  # seconds


def _steps(rank: flight.Rank) -> float | None:
    """Return how often the same names come again; the median, as some come more than once in a step."""
    ends: dict[tuple[int, str], list[int]] = defaultdict(list)
    for each in rank.operations:
        if each.ended > rank.taken - _OF_STEPS_NS:
            ends[each.key].append(each.ended)
    rates = [(len(own) - 1) * 1e9 / (own[-1] - own[0]) for own in ends.values() if own[-1] > own[0]]
    return statistics.median(rates) if rates else None


def rates(before: flight.Rank, after: flight.Rank) -> Rates:
    """Return what a rank did between two looks at it."""
    begin = before.taken
    if after.last > len(after.operations) and after.operations:
        begin = max(begin, after.operations[0].submitted)  # more than is remembered
    window = (begin, after.taken)
    span = max(window[1] - window[0], 1)
    waits = union((each.submitted, each.agreed or each.ended or after.taken) for each in after.operations)
    runs = union((each.launched, each.ended or after.taken) for each in after.operations if each.launched)
    seconds = max(after.taken - before.taken, 1) / 1e9
    return Rates(
        rank=after,
        operations=(after.ended - before.ended) / seconds,
        bytes=(after.ended_bytes - before.ended_bytes) / seconds,
        steps=_steps(after),
        waits=length(within(waits, window)) / span,
        runs=length(within(runs, window)) / span,
        oldest_wait=max((after.seconds_since(each.submitted) for each in after.operations if each.waits), default=0.0),
    )


def table(told: Sequence[Rates]) -> str:
    """Return the view, a line for each rank and what is wrong with the job."""
    lines = [
        f"{'rank':>5} {'process':>8} {'state':8} {'steps/s':>8} {'ops/s':>9} {'bytes/s':>10} wait  run  transports"
    ]
    for each in told:
        rank = each.rank
        steps = "-" if each.steps is None else f"{each.steps:.3g}"
        lines.append(
            f"{rank.rank:5} {rank.pid:8} {rank.process:8} {steps:>8} {each.operations:9.1f} "
            f"{bytes_in_words(each.bytes):>10} {each.waits:4.0%} {each.runs:4.0%}  {rank.transports}"
        )
    return "\n".join([*lines, "", *diagnose([each.rank for each in told])])


_METRICS = {
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


def prometheus(told: Sequence[Rates]) -> str:
    """Return the metrics in Prometheus' text format."""
    lines = []
    for name, (kind, about, value_of) in _METRICS.items():
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        for each in told:
            value = value_of(each)
            if value is not None:
                labels = f'rank="{each.rank.rank}",host="{_label(each.rank.host)}",pid="{each.rank.pid}"'
                lines.append(f"{name}{{{labels}}} {float(value):.17g}")
    return "\n".join(lines) + "\n"


class Metrics:
    """The latest metrics, in a file and on a port where that is asked for."""

    def __init__(self, file: Path | None, address: str, port: int | None) -> None:
        self._file = file
        self._text = ""
        self._server: http.server.ThreadingHTTPServer | None = None
        if port is not None:
            try:
                self._server = http.server.ThreadingHTTPServer((address, port), self._handler())
            except (OSError, OverflowError) as error:  # the latter for no number of a port
                reason = getattr(error, "strerror", None) or error
                raise OSError(f"--prometheus-port {port}: can't listen there at {address}: {reason}") from error
            threading.Thread(target=self._server.serve_forever, name="roda-metrics", daemon=True).start()

    @property
    def port(self) -> int | None:
        """The one that is listened on."""
        return self._server.server_address[1] if self._server else None

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        metrics = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10  # for who connects and says nothing

            def do_GET(self) -> None:  # noqa: N802 (the base class' name)
                is_ours = self.path == "/metrics"
                body = metrics._text.encode() if is_ours else b"see /metrics\n"
                self.send_response(200 if is_ours else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *ignored: object) -> None:
                pass

        return Handler

    def tell(self, told: Sequence[Rates]) -> None:
        """Publish them. Readers of the file see the old ones or the new ones."""
        self._text = prometheus(told)
        if self._file is not None:
            fresh = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            fresh.write_text(self._text)
            fresh.replace(self._file)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roda-top",
        description="Show what the ranks of a job on this host do, until it ends. The processes are only looked at.",
    )
    parser.add_argument("pid", type=int, help="process id of a rank or of the launcher")
    parser.add_argument("-i", "--interval", type=float, default=1.0, metavar="SECONDS", help="between looks (1)")
    parser.add_argument("--once", action="store_true", help="look once, for an interval, and end")
    parser.add_argument("--quiet", action="store_true", help="show nothing: for Prometheus alone")
    parser.add_argument("--prometheus-file", type=Path, metavar="FILE", help="write metrics to a file at each look")
    parser.add_argument("--prometheus-port", type=int, metavar="PORT", help="serve them at /metrics; 0: any free port")
    parser.add_argument(
        "--prometheus-address", default="127.0.0.1", metavar="ADDRESS", help="that is listened on (127.0.0.1)"
    )
    return parser


def _watch(job: flight.LiveJob, options: argparse.Namespace, metrics: Metrics) -> None:
    before = {rank.rank: rank for rank in job.read()}
    clear = "\033[H\033[J" if sys.stdout.isatty() and not options.once else ""
    while True:
        time.sleep(options.interval)
        after = {rank.rank: rank for rank in job.read()}
        told = [rates(before[rank], after[rank]) for rank in sorted(after) if rank in before]
        metrics.tell(told)
        if not options.quiet:
            print(f"{clear}{table(told)}", flush=True)
        if options.once or all(rank.process == "gone" for rank in after.values()):
            return
        before = after


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch the job.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, without the program's name; by default this process's.

    Returns
    -------
    int
        0; 1 when there is no such job, or the metrics can't be published.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.interval <= 0:
        parser.error("--interval must be above 0")
    metrics = None
    try:
        job = flight.open_job(options.pid)
        metrics = Metrics(options.prometheus_file, options.prometheus_address, options.prometheus_port)
        if options.prometheus_port == 0:
            print(f"metrics are at http://{options.prometheus_address}:{metrics.port}/metrics", file=sys.stderr)
        _watch(job, options, metrics)
    except (flight.NoRecordError, OSError) as error:
        print(f"roda-top: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if metrics is not None:
            metrics.close()
    return 0
