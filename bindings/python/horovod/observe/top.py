"""``roda-top``: what the ranks of a job do, now and again, for people and for Prometheus."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from horovod.common import model
from horovod.common.model import of
from horovod.observe import flight
from horovod.observe.diagnosis import bytes_in_words, diagnose, in_brief
from horovod.observe.others import Others, add_others
from horovod.observe.steps import length, union, within
from horovod.runner.util import network
from horovod.runner.util.door import Door
from horovod.version import add_version

_OF_STEPS_NS = 60 * 10**9  # steps are counted over a minute at most


_RATE = model.number()


@dataclass
class Rates:
    """What one rank did between two looks."""

    operations: float = of(_RATE)  # a second
    bytes: float = of(_RATE)  # a second
    steps: float | None = of(model.optional(_RATE))  # a second; None: no name came twice
    waits: float = of(_RATE)  # share of the time in which something waits for other ranks
    runs: float = of(_RATE)  # share of the time in which data move
    oldest_wait: float = of(_RATE)  # seconds
    rank: flight.Rank = None  # type: ignore[assignment] (told apart from the rest)


@dataclass
class _Line:
    rates: list[Rates] = of(model.listed(model.modelled(Rates), 1 << 20))


_LINE = model.modelled(_Line)


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


def line_of(told: Sequence[Rates]) -> str:
    """Return what another host is told of this one's ranks."""
    numbers = [{name: value for name, value in vars(each).items() if name != "rank"} for each in told]
    return json.dumps({**flight.as_dict(in_brief(each.rank) for each in told), "rates": numbers})


def rates_of(line: str) -> list[Rates]:
    """Return what a line of another host tells.

    Raises
    ------
    NoRecordError
        It tells nothing.
    """
    ranks = flight.ranks_of(line)
    try:
        told: list[Rates] = _LINE.take(model.parse(line)).rates
    except model.Fault as error:
        raise flight.NoRecordError(f"its ranks have no rates: {error}") from error
    return [replace(rates, rank=rank) for rates, rank in zip(told, ranks)]


def table(told: Sequence[Rates], unknown: Mapping[str, str]) -> str:
    """Return the view: a line for each rank, what is wrong with the job, and the hosts of which nothing is known."""
    width = max((len(each.rank.host) for each in told), default=4)
    lines = [
        f"{'rank':>5} {'host':{width}} {'process':>8} {'state':8} {'steps/s':>8} {'ops/s':>9} {'bytes/s':>10} "
        "wait  run  transports"
    ]
    for each in told:
        rank = each.rank
        steps = "-" if each.steps is None else f"{each.steps:.3g}"
        lines.append(
            f"{rank.rank:5} {rank.host:{width}} {rank.pid:8} {rank.process:8} {steps:>8} {each.operations:9.1f} "
            f"{bytes_in_words(each.bytes):>10} {each.waits:4.0%} {each.runs:4.0%}  {rank.transports}"
        )
    lines += ["", *diagnose([each.rank for each in told])]
    return "\n".join([*lines, *(f"Nothing is known of {host}: {why}" for host, why in unknown.items())])


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
        """The one that is listened on."""
        return self._door.port if self._door else None

    def _reply(self, heard: bytearray) -> bytes | None:
        """Return what is answered to an HTTP request, once all of it has come."""
        if b"\r\n\r\n" not in heard and b"\n\n" not in heard:
            return None
        method, _, rest = bytes(heard).partition(b" ")
        is_ours = method in (b"GET", b"HEAD") and re.match(rb"/metrics[ ?\r\n]", rest) is not None
        body = self._text.encode() if is_ours else b"see /metrics\n"
        head = _REPLY.format("200 OK" if is_ours else "404 Not Found", len(body)).encode()
        return head if method == b"HEAD" else head + body

    def tell(self, told: Sequence[Rates]) -> None:
        """Publish them. Readers of the file see the old ones or the new ones."""
        self._text = prometheus(told)
        if self._file is not None:
            fresh = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            fresh.write_text(self._text)
            fresh.replace(self._file)

    def close(self) -> None:
        """Listen no more."""
        if self._door is not None:
            self._door.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roda-top",
        description="Show what the ranks of a job do, until it ends. The processes are only looked at.",
        conflict_handler="resolve",  # -i is the interval here, and no key of ssh
    )
    add_others(parser)
    add_version(parser)
    parser.add_argument("pid", type=int, nargs="?", help="process id of a rank, or of the launcher, on this host")
    parser.add_argument("-i", "--interval", type=float, default=1.0, metavar="SECONDS", help="between looks (1)")
    parser.add_argument("--once", action="store_true", help="look once, for an interval, and end")
    parser.add_argument("--quiet", action="store_true", help="show nothing: for Prometheus alone")
    parser.add_argument("--prometheus-file", type=Path, metavar="FILE", help="write metrics to a file at each look")
    parser.add_argument("--prometheus-port", type=int, metavar="PORT", help="serve them at /metrics; 0: any free port")
    parser.add_argument(
        "--prometheus-address",
        default=network.loopback_address(),
        metavar="ADDRESS",
        help="that is listened on (%(default)s)",
    )
    return parser


class Looks:
    """Looks at this host's ranks, one after the other."""

    def __init__(self, find: Callable[[], flight.LiveJob]) -> None:
        self._find = find
        self.job = find()
        self._before = self._read()

    def _read(self) -> dict[tuple[int, int], flight.Rank]:
        return {(rank.generation, rank.pid): rank for rank in self.job.read()}

    def look(self) -> list[Rates]:
        """Return what they did since the last look."""
        after = self._read()
        if all(rank.last == self._before[key].last for key, rank in after.items() if key in self._before):
            with contextlib.suppress(flight.NoRecordError):  # an elastic job goes on in other memory
                self.job = self._find()
                after = self._read()
        told = [rates(self._before.get(key, rank), rank) for key, rank in after.items()]
        self._before = after
        return told


def _are_gone(told: Sequence[Rates]) -> bool:
    return all(each.rank.process == "gone" for each in told)


def _tell(looks: Looks, interval: float) -> None:
    """Tell the host that asks, until the job ends here, or nobody reads."""
    with contextlib.suppress(BrokenPipeError):
        while True:
            time.sleep(interval)
            told = looks.look()
            print(line_of(told), flush=True)
            if _are_gone(told):
                return


def _watch(looks: Looks, others: Others[list[Rates]], options: argparse.Namespace, metrics: Metrics) -> None:
    clear = "\033[H\033[J" if sys.stdout.isatty() and not options.once else ""
    here: list[Rates] = []
    while True:
        others.ask(looks.job.hosts(), [each.rank for each in here] or looks.job.read())
        time.sleep(options.interval)
        if options.once:
            others.wait()
        here = looks.look()
        all_told = [*here, *(each for answer in others.answers() for each in answer)]
        told = sorted({each.rank.rank: each for each in all_told}.values(), key=lambda each: each.rank.rank)
        metrics.tell(told)
        if not options.quiet:
            print(f"{clear}{table(told, others.unknown())}", flush=True)
        if options.once or (_are_gone(told) and others.are_over()):
            return


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
    if options.pid is None and not options.marked:
        parser.error("say which job: a process id")
    metrics = None
    try:
        if options.marked:
            _tell(Looks(lambda: flight.open_marked(options.marked)), options.interval)
            return 0
        looks = Looks(lambda: flight.open_job(options.pid))
        metrics = Metrics(options.prometheus_file, options.prometheus_address, options.prometheus_port)
        if options.prometheus_port == 0:
            host = network.host_of_url(options.prometheus_address)
            print(f"metrics are at http://{host}:{metrics.port}/metrics", file=sys.stderr)
        with Others(options, ["horovod.observe.top", "-i", str(options.interval)], rates_of) as others:
            _watch(looks, others, options, metrics)
    except (flight.NoRecordError, OSError) as error:
        print(f"roda-top: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if metrics is not None:
            metrics.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
