"""``roda-trace``: the timelines of a job's ranks as one page that says where the time goes, and what to do about it."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from horovod.command_line import Parser, fail, tool
from horovod.common import model
from horovod.common.model import of
from horovod.observe import page, sampling, steps, timeline
from horovod.observe.advice import advise
from horovod.observe.flight import NoRecordError
from horovod.observe.jobs import find_timelines
from horovod.version import add_version


def _parser() -> Parser:
    parser = Parser(
        prog="roda-trace",
        usage="roda-trace [OPTION]... [PID | TIMELINE...]",
        examples=[
            ("HOROVOD_TIMELINE='trace.{rank}.json' horovodrun -np 4 python train.py", "writes the timelines"),
            ("roda-trace trace.*.json", "prints advice, and writes roda-trace.html"),
            ("roda-trace trace.*.json --perf perf.json -o page.html", "compares with what roda-perf measured"),
        ],
        description="Say where the time of a job's steps goes. Each rank writes a timeline with "
        "HOROVOD_TIMELINE='trace.{rank}.json'.",
    )
    add_version(parser)
    parser.add_argument(
        "timelines",
        nargs="*",
        type=Path,
        help="timelines of the ranks, or a process id of a job that writes them (default: the job that runs here)",
    )
    page = "HTML page to write (default: roda-trace.html)"
    parser.add_argument("-o", "--output", type=Path, default=Path("roda-trace.html"), metavar="FILE", help=page)
    parser.add_argument(
        "--perf", type=Path, metavar="FILE", help="output of `roda-perf --json` on these hosts, to compare with"
    )
    return parser


@dataclass
class _Measured:
    """A line of ``roda-perf --json``."""

    collective: str = of(model.text())
    bytes: int = of(model.whole())
    algbw_GBps: float = of(model.number(0))  # noqa: N815 (as it is printed)


_MEASURED = model.modelled(_Measured)
_MOST_BYTES = 1 << 26


def _read_measured(path: Path | None) -> dict[int, float]:
    """Return gigabytes a second by bytes, from what ``roda-perf --json`` prints."""
    if path is None:
        return {}
    told = []
    try:
        for number, line in enumerate(model.read_text(path, _MOST_BYTES).splitlines(), 1):
            if line:
                try:
                    told.append(_MEASURED.take(model.parse(line)))
                except model.Fault as fault:
                    raise fault.below(f"line {number}") from None
    except model.Fault as error:
        raise timeline.NoTimelineError(f"{path} is not what roda-perf --json prints: {error}") from error
    if not told:
        raise timeline.NoTimelineError(f"{path} is not what roda-perf --json prints: it has no line")
    return {each.bytes: each.algbw_GBps for each in told if each.collective == "allreduce" and each.bytes}


_BAR = 24  # characters


def _tell(text: str, share: float = 0.0) -> None:
    """Show what is done, and how much of it, where somebody looks."""
    if sys.stderr is not None and sys.stderr.isatty():
        bar = f"{'█' * round(_BAR * share):░<{_BAR}} " if text else ""
        print(f"\r\033[K{bar}{text}", end="", file=sys.stderr, flush=True)


def analyse(paths: Sequence[Path], measured: Mapping[int, float] | None = None) -> steps.Report:
    """Return the report of a job.

    Parameters
    ----------
    paths : sequence of Path
        Files of the ranks, of one at least.
    measured : mapping, optional
        The machine's measured gigabytes a second, by bytes of a launch.

    Raises
    ------
    NoTimelineError
        A file is no timeline, or has no step; the text says which, and why.
    """
    gc.disable()  # what is read has no cycles, and to look for some takes a quarter of the time
    try:
        return _analyse(paths, measured or {})
    finally:
        gc.enable()
        _tell("")


def _analyse(paths: Sequence[Path], measured: Mapping[int, float]) -> steps.Report:
    files = sorted(map(timeline.TimelineFile, paths), key=lambda file: file.about.rank)
    _tell("Looking for the steps")
    told, first = sampling.choose_steps(files)
    order: list[str] = []
    ranks: list[steps.RankSteps] = []
    left_out: list[str] = []
    for number, file in enumerate(files, 1):
        _tell(f"Reading rank {file.about.rank}: {number} of {len(files)}", number / len(files))
        own = first if first is not None and number == 1 else file.timeline(sampling.parts_of(file, told))
        first = first or own
        try:
            read = steps.of_rank(own, told, order)
            steps.check_run(read, ranks)
            ranks.append(read)
        except timeline.NoTimelineError as error:
            if not ranks:
                raise
            left_out.append(str(error))
    report = steps.report(told, ranks, cast("timeline.RankTimeline", first), order, measured, left_out)
    report.advice = advise(report)
    return report


def _refuse_timeline(output: Path) -> None:
    """See that the page takes the place of no timeline, as after ``-o trace.*.json``."""
    if output.is_file():
        with contextlib.suppress(timeline.NoTimelineError):
            timeline.TimelineFile(output)
            raise OSError(f"-o {output} is a timeline: the page would take its place")


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:  # of a full disk without the file's name
        raise OSError(f"{output}: {error.strerror}") from error


def _timelines(named: Sequence[Path]) -> Sequence[Path]:
    """Return the files that are named, or those of a job, which may be named by a process."""
    if len(named) == 1 and re.fullmatch("[0-9]{1,18}", str(named[0])) and not named[0].exists():
        return find_timelines("roda-trace", int(str(named[0])))
    return named or find_timelines("roda-trace")


@tool
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, and print its advice.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, without the program's name; by default this process's.

    Returns
    -------
    int
        0; 1 when a file can't be read or written.
    """
    options = _parser().parse_args(arguments)
    try:
        _refuse_timeline(options.output)
        report = analyse(_timelines(options.timelines), _read_measured(options.perf))
        _write(options.output, page.render(report))
    except (timeline.NoTimelineError, NoRecordError, OSError) as error:
        fail("roda-trace", error)
        return 1
    for sentence in [*report.advice, *report.left_out]:
        print(sentence)
    if report.clocks_apart >= 1000:
        print(f"The hosts' clocks are up to {report.clocks_apart / 1e3:.3g} ms apart, which is taken into account.")
    print(f"More is in {options.output}.")
    return 0
