"""``roda-top``: what the ranks of a job do, now and again."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from horovod.command_line import Parser, fail, is_unread, paints, tool
from horovod.observe import flight
from horovod.observe.diagnosis import bytes_in_words
from horovod.observe.jobs import find_job
from horovod.observe.metrics import Metrics
from horovod.observe.others import Others, add_others
from horovod.observe.rates import Rates, diagnosis, lateness, line_of, rates, rates_of
from horovod.runner.util import network
from horovod.version import add_version

_ORDERS: dict[str, Callable[[Rates], float]] = {
    "rank": lambda each: each.rank.rank,
    "wait": lambda each: each.waits,
    "run": lambda each: each.runs,
    "bytes": lambda each: each.bytes,
}


_HEIGHTS = "▁▂▃▄▅▆▇█"
_REMEMBERED = 40  # looks
_DAY = 86400  # seconds


def sparkline(rates: Sequence[float]) -> str:
    """Return rates as a row of bars, of which the largest is the highest."""
    most = max(rates, default=0.0) or 1.0
    return "".join(_HEIGHTS[round((len(_HEIGHTS) - 1) * each / most)] for each in rates)


def _sorted(told: Iterable[Rates], order: str) -> list[Rates]:
    by_rank = sorted(told, key=lambda each: each.rank.rank)
    return sorted(by_rank, key=_ORDERS[order], reverse=order != "rank")


def table(
    told: Sequence[Rates],
    unknown: Mapping[str, str],
    paint: Callable[[str, str], str] = lambda text, _: text,
    size: os.terminal_size | None = None,
) -> str:
    """Return the view: a line for each rank, what is wrong with the job, and the hosts of which nothing is known.

    With the `size` of a terminal lines of ranks are cut to fit, and ranks that have no room are counted.
    """
    width = max((len(each.rank.host) for each in told), default=4)
    head = (
        f"{'rank':>5} {'host':{width}} {'process':>8} {'state':8} {'steps/s':>8} {'ops/s':>9} {'bytes/s':>10} "
        "wait late  run  transports"
    )
    columns = size.columns if size else len(head) + 1000
    room = max(size.lines - _OTHER_LINES, 1) if size else len(told)
    lines = [paint(head[:columns], "2")]
    for each in told[:room]:
        rank = each.rank
        steps = "-" if each.steps is None else f"{each.steps:.3g}"
        line = (
            f"{rank.rank:5} {rank.host:{width}} {rank.pid:8} {rank.process:8} {steps:>8} {each.operations:9.1f} "
            f"{bytes_in_words(each.bytes):>10} {each.waits:4.0%} {lateness(told, rank.rank):4.0%} {each.runs:4.0%}  "
            f"{rank.transports}"
        )
        lines.append(line[:columns] if rank.process == "running" else paint(line[:columns], "31"))
    more = len(told) - room
    lines += [f"… and {more} more rank{'s' if more > 1 else ''}"] * (more > 0)
    first, *others = diagnosis(told)
    lines += ["", paint(first, "1"), *others]
    return "\n".join([*lines, *(f"Nothing is known of {host}: {why}" for host, why in unknown.items())])


_OTHER_LINES = 10  # of a terminal: head, what is wrong, steps, keys


def as_json(told: Sequence[Rates], unknown: Mapping[str, str]) -> str:
    """Return the same as a line of JSON."""
    ranks = [
        {
            "rank": each.rank.rank, "host": each.rank.host, "pid": each.rank.pid, "state": each.rank.process,
            "steps_per_second": each.steps, "operations_per_second": each.operations, "bytes_per_second": each.bytes,
            "wait_ratio": each.waits, "late_ratio": lateness(told, each.rank.rank), "run_ratio": each.runs,
            "oldest_wait_seconds": each.oldest_wait,
            "transports": each.rank.transports,
        }
        for each in told
    ]  # fmt: skip
    return json.dumps({"ranks": ranks, "diagnosis": diagnosis(told), "unknown": dict(unknown)})


def _parser() -> Parser:
    parser = Parser(
        prog="roda-top",
        usage="roda-top [OPTION]... [PID]",
        examples=[
            ("roda-top", "show the job that runs on this machine, until it ends"),
            ("roda-top 4711 --once --json", "look once at the job of process 4711, for programs"),
            ("roda-top --quiet --prometheus-port 9400", "only serve metrics, at port 9400 of this machine"),
        ],
        description="Show what the ranks of a job do, until it ends. The processes are only looked at. "
        "On a terminal q quits, and s sorts by another column.",
    )
    add_others(parser)
    add_version(parser)
    parser.add_argument(
        "pid", type=int, nargs="?", help="process id of a rank or the launcher (default: the job that runs here)"
    )
    interval = "seconds between looks (default: 1)"
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help=interval)
    parser.add_argument("--once", action="store_true", help="look once, over one interval, and end")
    parser.add_argument("--json", action="store_true", help="print a line of JSON at each look")
    parser.add_argument("--quiet", action="store_true", help="show nothing; only write metrics for Prometheus")
    parser.add_argument("--prometheus-file", type=Path, metavar="FILE", help="write metrics to a file at each look")
    parser.add_argument("--prometheus-port", type=int, metavar="PORT", help="serve metrics at /metrics; 0: a free port")
    parser.add_argument(
        "--prometheus-address",
        metavar="ADDRESS",
        help="address on which the port is served (127.0.0.1, or ::1 where that alone is there)",
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


class _Terminal:
    """The terminal, where there is one: cleared between looks, coloured, and asked for keys."""

    def __init__(self, is_used: bool) -> None:
        self._is_used = is_used and sys.stdin.isatty() and sys.stdout.isatty()
        self.paint = paints(sys.stdout)
        self._saved: list[Any] = []

    def __enter__(self) -> _Terminal:
        if self._is_used:
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._saved:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)

    @property
    def size(self) -> os.terminal_size | None:
        """The terminal's columns and lines; None where there is no terminal."""
        return os.get_terminal_size(sys.stdout.fileno()) if self._is_used else None

    def show(self, text: str, steps: Sequence[float], order: str) -> None:
        """Show a look, and how many steps a second there were in those before."""
        if self._is_used:
            row = f"steps/s  {sparkline(steps)}  {steps[-1]:.3g}\n\n" if any(steps) else ""
            keys = self.paint(f"sorted by {order}; s: by another column, q: quit", "2")
            text = f"\033[H\033[J{text}\n\n{row}{keys}"
        print(text, flush=True)

    def wait(self, seconds: float) -> str:
        """Return the key that is pressed within a time; nothing when none is."""
        if not self._is_used:
            time.sleep(seconds)
        elif select.select([sys.stdin], [], [], seconds)[0]:
            return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"
        return ""


def _pause(terminal: _Terminal, interval: float, order: str, show: Callable[[str], None]) -> str:
    """Wait for the next look; return by which column it is sorted, or nothing to quit."""
    limit = time.monotonic() + interval
    while (left := limit - time.monotonic()) > 0:
        key = terminal.wait(left)
        if key == "q":
            return ""
        if key == "s":
            columns = list(_ORDERS)
            order = columns[(columns.index(order) + 1) % len(columns)]
            show(order)
    return order


def _watch(looks: Looks, others: Others[list[Rates]], options: argparse.Namespace, metrics: Metrics) -> None:
    here: list[Rates] = []
    told: list[Rates] = []
    steps: deque[float] = deque(maxlen=_REMEMBERED)
    order = "rank"

    def show(order: str) -> None:
        if options.json:
            print(as_json(_sorted(told, order), others.unknown()), flush=True)
        elif told and not options.quiet:
            view = table(_sorted(told, order), others.unknown(), terminal.paint, terminal.size)
            terminal.show(view, steps, order)

    with _Terminal(is_used=not (options.once or options.quiet or options.json)) as terminal:
        while True:
            others.ask(looks.job.hosts(), [each.rank for each in here] or looks.job.read())
            order = _pause(terminal, options.interval, order, show)
            if not order:
                return
            if options.once:
                others.wait()
            here = looks.look()
            all_told = [*here, *(each for answer in others.answers() for each in answer)]
            told = list({each.rank.rank: each for each in all_told}.values())
            steps.append(statistics.median(each.steps or 0.0 for each in told) if told else 0.0)
            metrics.tell(_sorted(told, "rank"))
            show(order)
            if options.once or (_are_gone(told) and others.are_over()):
                return


@tool
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
    if not 0 < options.interval <= _DAY:
        parser.error(f"--interval must be above 0, and at most {_DAY} (a day)")
    if options.pid is not None and options.pid < 1:
        parser.error(f"pid: '{options.pid}' is no process id")
    metrics = None
    try:
        if options.marked:
            _tell(Looks(lambda: flight.open_marked(options.marked)), options.interval)
            return 0
        pid = find_job("roda-top") if options.pid is None else options.pid
        looks = Looks(lambda: flight.open_job(pid))
        address = options.prometheus_address or network.loopback_address()
        metrics = Metrics(options.prometheus_file, address, options.prometheus_port)
        if options.prometheus_port == 0:
            host = network.host_of_url(address)
            print(f"metrics are at http://{host}:{metrics.port}/metrics", file=sys.stderr)
        with Others(options, ["horovod.observe.top", "--interval", str(options.interval)], rates_of) as others:
            _watch(looks, others, options, metrics)
    except (flight.NoRecordError, OSError) as error:
        if is_unread(error):
            raise
        fail("roda-top", error)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if metrics is not None:
            metrics.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
