"""``roda-doctor``: what a job does, or died of, in one sentence, and a line for each rank."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from horovod.command_line import Parser, fail, tool
from horovod.observe import flight
from horovod.observe.diagnosis import describe, diagnose
from horovod.observe.jobs import find_job
from horovod.observe.others import Others, add_others
from horovod.version import add_version


def _print_rank(rank: flight.Rank, is_verbose: bool) -> None:
    state = f", {rank.process}" if rank.process else ""
    waits = sum(each.waits for each in rank.operations)
    runs = sum(each.runs for each in rank.operations)
    line = f"  rank {rank.rank} ({rank.host}, process {rank.pid}{state}): {rank.ended} operations ended"
    print(line + (f", {runs} run" if runs else "") + (f", {waits} wait for other ranks" if waits else ""))
    for each in [each for each in rank.operations if not each.ended][:4]:
        begun = each.agreed or each.submitted
        verb = "runs" if each.runs else "waits"
        print(f"      {verb} for {rank.seconds_since(begun):.1f} s: {describe(each)}")
    if rank.where:
        print(f"      at {rank.where}")
    for frame in rank.stack if is_verbose else []:
        print(f"          {frame}")


def _parser() -> Parser:
    parser = Parser(
        prog="roda-doctor",
        usage="roda-doctor [OPTION]... [PID | DUMP]...",
        examples=[
            ("roda-doctor", "examine the job that runs on this machine"),
            ("roda-doctor 4711", "examine the job of process 4711: a rank, or the launcher"),
            ("roda-doctor dumps/", "examine a job that died, by its dumps in RODA_FLIGHT_FOLDER"),
        ],
        description="Say what a job does, or died of: which rank diverged first, and what the others wait for. "
        "The processes need not answer. (For what works on this machine: roda-info --doctor.)",
    )
    parser.add_argument(
        "job",
        nargs="*",
        help="process id of a rank or the launcher, or dumps, or folders of dumps (default: the job that runs here)",
    )
    add_others(parser)
    add_version(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the stack of each rank's main thread, too")
    parser.add_argument("--json", action="store_true", help="print the ranks' records as JSON, as a dump has them")
    parser.add_argument("--dump", metavar="FOLDER", type=Path, help="also write a dump, into this folder")
    return parser


def _read(options: argparse.Namespace, job: str) -> tuple[list[flight.Rank], float]:
    """Return the ranks, and within how many seconds they were looked at."""
    if re.fullmatch("[0-9]{1,18}", job) is None:
        return flight.read_files(Path(job)), 0.0
    live = flight.open_job(int(job))
    with Others(options, ["horovod.observe.doctor", "--json"], flight.ranks_of) as others:
        began = time.monotonic()
        others.ask(live.hosts(), live.read())
        ranks = live.look()
        others.wait()
        answers = others.answers()
        for host, why in others.unknown().items():
            print(f"roda-doctor: nothing is known of {host}: {why}", file=sys.stderr)
        apart = time.monotonic() - began if answers else 0.0
        return [*ranks, *(rank for answer in answers for rank in answer)], apart


@tool
def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the job does.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, without the program's name; by default this process's.

    Returns
    -------
    int
        0; 1 when there is nothing to read.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.marked:
            looks = [(flight.open_marked(options.marked).look(), 0.0)]
        else:
            looks = [_read(options, job) for job in options.job or [str(find_job("roda-doctor"))]]
        ranks = sorted({rank.rank: rank for read, _ in looks for rank in read}.values(), key=lambda rank: rank.rank)
        if options.dump:
            flight.write_dump(ranks, options.dump)
    except (flight.NoRecordError, OSError) as error:
        fail("roda-doctor", error)
        return 1
    if options.json:
        print(json.dumps(flight.as_dict(ranks)))
        return 0
    for sentence in diagnose(ranks, apart=max(apart for _, apart in looks)):
        print(sentence)
    print()
    for rank in ranks:
        _print_rank(rank, options.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
