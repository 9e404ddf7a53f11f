"""The options of ``horovodrun``: its ``--help``, its manual page and what a shell completes are made of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from horovod import command_line
from horovod.version import __version__, roda_version


class _CheckBuild(argparse.Action):
    def __call__(self, _: argparse.ArgumentParser, namespace: argparse.Namespace, *__: Any) -> None:
        from horovod.runner.check_build import check_build

        check_build(getattr(namespace, "verbose", False) or False)


class Parser(command_line.Parser):
    """Leaves everything from the command on alone: its options may look like abbreviations of ours."""

    _trying = False

    def error(self, message: str) -> NoReturn:
        """Exit with a line that names what is wrong."""
        if self._trying:
            raise ValueError(message)
        super().error(message)

    def split(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return our own arguments, and the command: it begins where what stands before is complete in itself."""
        for i, word in enumerate(argv):
            if word == "--":
                return list(argv[:i]), list(argv[i + 1 :])
            if word.startswith("-"):
                continue
            self._trying = True
            try:
                self.parse_args(argv[:i])
            except ValueError:
                continue
            finally:
                self._trying = False
            return list(argv[:i]), list(argv[i:])
        return list(argv), []


def make_parser() -> Parser:
    """Return the parser of horovodrun's flags.

    An option that is not given leaves no attribute, so that what was given can be told from defaults.
    """
    parser = Parser(
        prog="horovodrun",
        usage="horovodrun [-np N] [OPTION]... COMMAND ...",
        examples=[
            ("horovodrun python train.py", "a process for each GPU of this machine, or else for each core"),
            ("horovodrun -np 8 -H node1:4,node2:4 python train.py", "on two hosts, reached by ssh"),
            ("horovodrun -np 4 --min-np 2 --host-discovery-script ./hosts.sh python train.py", "on hosts that change"),
        ],
        description="Run a program as several processes that train together.",
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    version = f"{__version__} (Roda {roda_version})"
    add("-v", "--version", action="version", version=version, help="print the version and exit")
    processes = "number of processes, or auto: one for each slot of the hosts; on this machine alone one for each GPU, "
    processes += "or else for each core (default: auto)"
    add("-np", "--num-proc", type=_count, dest="num_proc", metavar="N", help=processes)
    built = "print which frameworks and libraries this installation works with, and exit"
    add("-cb", "--check-build", action=_CheckBuild, nargs=0, help=built)
    add("--verbose", action="store_true", help="print what the launcher does")
    add("--config-file", metavar="FILE", help="YAML file with options; those of the command line win")
    grace = "seconds between SIGTERM and SIGKILL when a job is ended (default: HOROVOD_TERMINATION_GRACE_SECONDS, or 5)"
    add("--termination-grace-seconds", type=float, metavar="SECONDS", help=grace)
    groups = (_add_hosts, add_ssh, _add_output, _add_debugging, _add_elastic, _add_tunables, _add_library, _add_logging)
    for add_group in (*groups, _add_controllers):
        add_group(parser)
    add("command", nargs=argparse.REMAINDER, help="what each process executes")
    return parser


def _rank_or_all(text: str) -> str:
    if text != "all" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a rank nor all")
    return text if text == "all" else str(int(text))


def _add_debugging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("debugging")
    text = "rank that gets this command's standard input, or all: for breakpoint() and input()"
    group.add_argument("--stdin", type=_rank_or_all, metavar="RANK", help=text)
    text = "rank that waits for a debugger (debugpy); the others wait for that rank, without a time-out"
    group.add_argument("--debug", type=int, metavar="RANK", help=text)


MOST_PROCESSES = 1 << 20


def _count(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or not 0 < int(text) <= MOST_PROCESSES:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of processes nor auto")
    return int(text)


def _above_zero(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _add_switch(group: Any, name: str, text: str, off_text: str = argparse.SUPPRESS, dest: str | None = None) -> None:
    dest = dest or name.replace("-", "_")
    group.add_argument(f"--{name}", action="store_true", dest=dest, default=argparse.SUPPRESS, help=text)
    group.add_argument(f"--no-{name}", action="store_false", dest=dest, default=argparse.SUPPRESS, help=off_text)


def add_ssh(parser: argparse.ArgumentParser) -> None:
    """Add how other hosts are reached."""
    group = parser.add_argument_group("SSH")
    group.add_argument("-p", "--ssh-port", type=int, metavar="PORT", help="port of the hosts' ssh servers")
    group.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key for ssh")
    agent = "command in place of ssh, called as `COMMAND HOST SHELL_COMMAND` (default: HOROVOD_RSH_AGENT, or ssh)"
    group.add_argument("--rsh-agent", metavar="COMMAND", help=agent)


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output of the processes")
    fold = "print the same line of several ranks as one, which begins with their numbers: [0-3]<stdout>:"
    group.add_argument("--fold", action="store_true", help=fold)
    stamp = "begin each line with the time, to the millisecond"
    group.add_argument("-prefix-timestamp", "--prefix-output-with-timestamp", action="store_true", help=stamp)
    files = "also write what each rank R prints, to DIR/rank.R/stdout and DIR/rank.R/stderr"
    group.add_argument("--output-filename", metavar="DIR", help=files)


def _add_tunables(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reducing and gathering")
    fusion = "largest bucket of tensors that are reduced together, in MiB; 0: each tensor alone"
    group.add_argument("--fusion-threshold-mb", type=int, metavar="MIB", help=fusion)
    cycle = "longest time that a ready tensor waits for others that travel with it, in milliseconds"
    group.add_argument("--cycle-time-ms", type=float, metavar="MS", help=cycle)
    cache = "how many tensors ranks agree on by number instead of by name; 0: none"
    group.add_argument("--cache-capacity", type=int, metavar="N", help=cache)
    levels = "inside hosts first, then between them; by default the engine chooses"
    _add_switch(group, "hierarchical-allreduce", f"reduce {levels}", "never reduce in these two levels")
    _add_switch(group, "hierarchical-allgather", f"gather {levels}", "never gather in these two levels")
    torus = "reduce along the rows and columns of a grid of ranks; by default the engine chooses"
    _add_switch(group, "torus-allreduce", torus, "never reduce over such a grid")

    group = parser.add_argument_group("tuning while the job runs")
    _add_switch(group, "autotune", "in the first steps, try values for the options above, and keep the fastest")
    log = "CSV file for the values found; a later job like this one that gets the file takes them, and does not search"
    group.add_argument("--autotune-log-file", metavar="FILE", help=log)
    group.add_argument(
        "--autotune-warmup-samples", type=int, metavar="N", help="samples at the start that are not counted"
    )
    group.add_argument("--autotune-steps-per-sample", type=int, metavar="N", help="training steps in a sample")
    group.add_argument("--autotune-bayes-opt-max-samples", type=int, metavar="N", help="most samples of a search")
    noise = "how much the times of like samples are expected to differ, from 0 to 1"
    group.add_argument("--autotune-gaussian-process-noise", type=float, metavar="X", help=noise)

    group = parser.add_argument_group("timeline")
    timeline = "file for when each tensor waited and moved on rank 0; with {rank} in its name every rank writes one, "
    timeline += "which roda-trace reads"
    group.add_argument("--timeline-filename", metavar="FILE", help=timeline)
    _add_switch(group, "timeline-mark-cycles", "also write when the engine looked for tensors that are ready")

    group = parser.add_argument_group("stalled tensors")
    group.add_argument(
        "--no-stall-check", action="store_true", help="do not warn of tensors that some ranks submit and others do not"
    )
    group.add_argument("--stall-check", action="store_false", dest="no_stall_check", help=argparse.SUPPRESS)
    warn = "seconds until a warning names such tensors (default: 60)"
    end = "seconds until such tensors end the job; 0: never (default: 600)"
    group.add_argument("--stall-check-warning-time-seconds", type=int, metavar="SECONDS", help=warn)
    group.add_argument("--stall-check-shutdown-time-seconds", type=int, metavar="SECONDS", help=end)


def _add_elastic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("elastic jobs")
    least = "fewest processes that the job goes on with when others are lost"
    most = "most processes that the job grows to when hosts are added"
    group.add_argument("--min-np", "--min-num-proc", type=_above_zero, dest="min_num_proc", metavar="N", help=least)
    group.add_argument("--max-np", "--max-num-proc", type=_above_zero, dest="max_num_proc", metavar="N", help=most)
    slots = "processes on each host for which the discovery script prints no number"
    group.add_argument("--slots-per-host", type=_above_zero, metavar="N", help=slots)
    patience = "seconds to wait until hosts have enough slots (default: HOROVOD_ELASTIC_TIMEOUT, or 600)"
    group.add_argument("--elastic-timeout", type=int, metavar="SECONDS", help=patience)
    resets = "how often the set of processes may change before the job ends"
    group.add_argument("--reset-limit", type=int, metavar="N", help=resets)
    slow = "seconds for which the others wait for a host until other hosts' free slots take its place (default: never)"
    group.add_argument("--replace-slow-hosts", type=int, metavar="SECONDS", help=slow)
    cooldown = "seconds until a host that failed is used again: MIN the first time, then longer, up to MAX"
    group.add_argument("--blacklist-cooldown-range", type=int, nargs=2, metavar=("MIN", "MAX"), help=cooldown)


def _add_library(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("libraries")
    _add_switch(group, "mpi-threads-disable", "ask MPI for a single thread")
    group.add_argument("--mpi-args", metavar="ARGS", help="with --mpi: further arguments of mpirun")
    group.add_argument("--binding-args", metavar="ARGS", help="with --mpi: mpirun's arguments that bind processes")
    group.add_argument("--tcp", action="store_true", help="move data over TCP, not InfiniBand")
    group.add_argument("--num-nccl-streams", type=int, metavar="N", help="CUDA streams that NCCL's calls take turns on")
    affinity = "core that the engine's thread is bound to, on hosts with one process"
    group.add_argument("--thread-affinity", type=int, metavar="CORE", help=affinity)
    gloo = "with --gloo: seconds that connecting, or one operation, may take"
    group.add_argument("--gloo-timeout-seconds", type=int, metavar="SECONDS", help=gloo)


def _add_logging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("log of the engine")
    levels = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"]
    group.add_argument(
        "--log-level", type=str.upper, choices=levels, help="print messages of this level and those that are worse"
    )
    stamps = group.add_mutually_exclusive_group()
    stamps.add_argument("--log-with-timestamp", action="store_true", help=argparse.SUPPRESS)
    no_time = "print messages without the time"
    stamps.add_argument("--log-without-timestamp", action="store_false", dest="log_with_timestamp", help=no_time)
    stamps.add_argument("--log-hide-timestamp", action="store_false", dest="log_with_timestamp", help=argparse.SUPPRESS)
    stamps.add_argument(
        "--no-log-hide-timestamp", action="store_true", dest="log_with_timestamp", help=argparse.SUPPRESS
    )


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts")
    which = group.add_mutually_exclusive_group()
    hosts = "host:slots,host:slots (default: the hosts of an LSF job, or this machine)"
    which.add_argument("-H", "--hosts", metavar="HOSTS", help=hosts)
    file = "file with a line `HOST slots=N` for each host, or a batch system's file"
    which.add_argument("-hostfile", "--hostfile", metavar="FILE", help=file)
    script = "program that prints a line `HOST:N` for each host that is available at the moment"
    which.add_argument("--host-discovery-script", metavar="FILE", help=script)
    start = "seconds in which all hosts must be reached (default: HOROVOD_START_TIMEOUT, or 30)"
    group.add_argument("--start-timeout", type=int, metavar="SECONDS", help=start)
    interfaces = "network interfaces that ranks of different hosts may use: eth0,eth1"
    group.add_argument("--network-interfaces", action="append", dest="nics", metavar="NAMES", help=interfaces)
    one = "one such interface; may be given several times"
    group.add_argument("--network-interface", action="append", dest="single_nics", metavar="NAME", help=one)
    again = "with --mpi: try to reach all hosts, also those that were reached within the last hour"
    group.add_argument("--disable-cache", action="store_true", help=again)


def _add_controllers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("starting and moving data").add_mutually_exclusive_group()
    gloo = "use Gloo for tensors in host memory"
    group.add_argument("--gloo", action="store_true", dest="use_gloo", help=gloo)
    group.add_argument("--mpi", action="store_true", dest="use_mpi", help="start by mpirun, and use MPI")
    group.add_argument("--jsrun", action="store_true", dest="use_jsrun", help="start by jsrun, in an LSF job")
