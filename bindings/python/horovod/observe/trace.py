"""``roda-trace``: the timelines of a job's ranks as one page that says where the time goes, and what to do about it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from horovod.observe import page, steps, timeline


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roda-trace",
        description="Say where the time of a job's steps goes. Each rank writes a timeline with "
        "HOROVOD_TIMELINE='trace.{rank}.json'.",
    )
    parser.add_argument("timelines", nargs="+", type=Path, help="files of the ranks, of one at least")
    parser.add_argument("-o", "--output", type=Path, default=Path("roda-trace.html"), help="the page (roda-trace.html)")
    parser.add_argument(
        "--perf", type=Path, metavar="FILE", help="what roda-perf --json printed on these hosts, to compare with"
    )
    return parser


def _read_measured(path: Path | None) -> dict[int, float]:
    """Return gigabytes a second by bytes, from what ``roda-perf --json`` prints."""
    if path is None:
        return {}
    try:
        told = [json.loads(line) for line in path.read_text().splitlines() if line]
        return {each["bytes"]: each["algbw_GBps"] for each in told if each["collective"] == "allreduce"}
    except (ValueError, KeyError, TypeError) as error:
        raise timeline.NoTimelineError(f"{path} is not what roda-perf --json prints: {error}") from error


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
        timelines = sorted(map(timeline.read, options.timelines), key=lambda each: each.rank)
        offsets = timeline.align(timelines)
        report = steps.analyse(timelines, _read_measured(options.perf))
        options.output.write_text(page.render(report))
    except (timeline.NoTimelineError, OSError) as error:
        print(f"roda-trace: {error}", file=sys.stderr)
        return 1
    for advice in report.advice:
        print(advice)
    apart = max(map(abs, offsets.values()))
    if apart >= 1000:
        print(f"The hosts' clocks are up to {apart / 1e3:.3g} ms apart, which is taken into account.")
    print(f"More is in {options.output}.")
    return 0
