"""The doctor's page: what was found, as text or as JSON."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import horovod
from horovod.command_line import Parser, paints, tool
from horovod.doctor import machine, selftest, software
from horovod.doctor.finding import ABSENT, BROKEN, OK, WARNING, Finding
from horovod.version import add_version

_MARKS = {OK: "ok", ABSENT: "--", WARNING: "look", BROKEN: "BROKEN"}
_ABOUT_BANDWIDTH = (
    "An allreduce of 16 MiB of float32 by two ranks; `job` is what the engine chooses by itself. What it stands "
    "beside was measured here in the same run, for 0.25 s: for shm, mpi and ucx, two threads that copy 16 MiB at the "
    "same time, times 0.8 for the sum; for tcp and gloo, two plain connections over loopback, one in each direction. "
    "Networks and other machines were not measured."
)


def _parser() -> Parser:
    parser = Parser(
        prog="roda-info --doctor",
        usage="roda-info --doctor [OPTION]... [NAME]...",
        examples=[
            ("roda-info --doctor", "print what is usable here, and what is not"),
            ("roda-info --doctor torch nccl", "end with status 1 when torch or nccl is not usable"),
            ("roda-info --doctor --no-self-test --json", "start no ranks, and print JSON for programs"),
        ],
        description="Say what of Roda is usable on this machine, what is not, and the line that would make it usable.",
        epilog="Status: 0 when all that was asked for is usable, 1 when some of it is not, 2 for wrong usage.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="what must be usable: transports (shm, mpi, …), frameworks (torch, …), engine, job; by default engine and "
        "job, and what HOROVOD_CPU_OPERATIONS, HOROVOD_GPU_OPERATIONS and HOROVOD_CONTROLLER name",
    )
    parser.add_argument("--no-self-test", action="store_true", help="do not run two ranks over each usable transport")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is in order, too, and where files lie")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_version(parser)
    return parser


def examine() -> list[Finding]:
    """Return all that can be found without starting a job."""
    root = Path("/")
    has_gpu = machine.has_nvidia(root)
    answer, engine = software.ask_engine(with_torch=has_gpu)
    has_rdma = any((root / "sys/class/infiniband").glob("*"))
    return [
        engine,
        *software.installation(answer),
        *software.transports(answer, has_rdma, has_gpu),
        *software.frameworks(has_engine=bool(answer)),
        *software.mpi(os.environ.get("PATH", os.defpath)),
        *machine.examine(answer.get("topology", {}), root),
    ]


def for_host_memory(findings: Iterable[Finding]) -> list[str]:
    """Return the usable transports that carry host memory between processes."""
    usable = (each.name for each in findings if each.section == "Transports" and each.is_usable)
    return [name for name in usable if name not in ("nccl", "cuda")]


def unusable(findings: Sequence[Finding], asked: Iterable[str]) -> list[str]:
    """Return what was asked for and is not usable, or was not found at all."""
    states = {name: [each.is_usable for each in findings if each.name == name] for name in asked}
    return [name for name, usable in states.items() if not usable or not all(usable)]


def with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; one that may have failed because of another says what to do first."""
    launcher = next((each for each in findings if each.section == "MPI" and each.state in (BROKEN, ABSENT)), None)
    shared = next((each for each in findings if each.name == machine.SHARED_MEMORY and each.state == WARNING), None)

    def explained(each: Finding) -> Finding:
        if launcher and selftest.NO_MPIRUN in each.text:
            return replace(each, mend=launcher.mend)
        is_users = each.section == selftest.SECTION and each.state == BROKEN and each.name in ("mpi", "ucx")
        return replace(each, mend=f"first of all more shared memory: {shared.mend}") if shared and is_users else each

    return [explained(each) for each in findings]


def _is_told(each: Finding, asked: Sequence[str]) -> bool:
    return each.state in (BROKEN, WARNING) or each.name in asked or each.section == selftest.SECTION


def _print_text(findings: Sequence[Finding], asked: Sequence[str], missing: Sequence[str], is_verbose: bool) -> None:
    width = max(80, min(shutil.get_terminal_size((120, 24)).columns, 120))
    told = [each for each in findings if is_verbose or _is_told(each, asked)]
    wide = max((len(each.name) for each in told), default=0)
    usable = f"All that was asked for is usable: {', '.join(asked)}."
    verdict = f"Not usable: {', '.join(missing)}." if missing else usable
    print(f"Roda on {platform.node()}: {paints(sys.stdout)(verdict, '31' if missing else '32')}")
    section = ""
    for each in told:
        if each.section != section:
            section = each.section
            print(f"\n{section}")
            if section == selftest.SECTION and is_verbose:
                print(textwrap.fill(_ABOUT_BANDWIDTH, width, initial_indent="  ", subsequent_indent="  "))
        head = f"  {_MARKS[each.state]:6} {each.name:{wide}}  "
        text = each.text + (f"  {each.path}" if each.path and (is_verbose or each.state == BROKEN) else "")
        print(textwrap.fill(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False,
                            break_on_hyphens=False))  # fmt: skip
        if each.mend:
            print(f"{' ' * len(head)}-> {each.mend}")
    rest = [each for each in findings if each not in told]
    absent = ", ".join(each.name for each in rest if each.state == ABSENT)
    if absent:
        text = f"Not here, and not asked for: {absent}."
        print("\n" + textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False))
    if rest:
        count = sum(each.state == OK for each in rest)
        print(f"In order: {count} more thing{'s' * (count != 1)} (-v: all of this with paths).")


def _print_json(findings: Sequence[Finding], asked: Sequence[str], missing: Sequence[str]) -> None:
    entries = [asdict(each) for each in findings]
    versions = {"horovod": horovod.__version__, "roda": horovod.roda_version}
    found = {"host": platform.node(), "asked": asked, "unusable": missing, "findings": entries}
    print(json.dumps({**versions, **found}, indent=2))


@tool
def main(arguments: Sequence[str] | None = None) -> int:
    """See :func:`horovod.doctor.main`."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    findings = examine()
    basics = ["engine"] if options.no_self_test else ["engine", "job"]
    plugins = [each.name for each in findings if each.section == "Transports"]
    known = dict.fromkeys(("engine", "job", *plugins, *software.FRAMEWORKS))
    unknown = [name for name in options.names if name not in known and plugins]  # without an engine none are known
    if unknown:
        print(f"{parser.prog}: no {', '.join(unknown)} here; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    if not options.no_self_test:
        findings = with_causes([*findings, *selftest.examine(for_host_memory(findings))])
    asked = list(dict.fromkeys([*(options.names or basics), *software.asked_by(os.environ)]))
    missing = unusable(findings, asked)
    if options.json:
        _print_json(findings, asked, missing)
    else:
        _print_text(findings, asked, missing, options.verbose)
    return 1 if missing else 0
