"""The options of ``horovodrun``: its ``--help``, its manual page and what a shell completes are made of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from horovod import command_line
from horovod.version import __version__, roda_version


class _CheckBuild(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        from horovod.runner.check_build import report

        print(report(verbose=getattr(namespace, "verbose", False) or False))
        parser.exit(0)


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
        usage="horovodrun -np N [OPTION]... COMMAND ...",
        examples=[
            ("horovodrun -np 4 python train.py", "four processes on this machine"),
            ("horovodrun -np 8 -H node1:4,node2:4 python train.py", "on two hosts, reached by ssh"),
            ("horovodrun -np 4 --min-np 2 --host-discovery-script ./hosts.sh python train.py", "on hosts that change"),
        ],
        description="Run a program as several processes that train together.",
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    version = f"{__version__} (Roda {roda_version})"
    add("-v", "--version", action="version", version=version, help="print the version and exit")
    add("-np", "--num-proc", type=int, dest="num_proc", help="number of processes")
    add("-cb", "--check-build", action=_CheckBuild, nargs=0, help="print what is usable on this machine and exit")
    add("--disable-cache", action="store_true", help="with --mpi: ask hosts again that answered within the last hour")
    add("--start-timeout", type=int, help="seconds for reaching the hosts [HOROVOD_START_TIMEOUT, 30]")
    add("--network-interfaces", action="append", dest="nics", help="network interfaces to use, separated by commas")
    add("--network-interface", action="append", dest="single_nics", help="one of them; may be given several times")
    add("--output-filename", help="folder for files with each process's output, one folder rank.<R> each")
    add("--verbose", action="store_true", help="tell what is done")
    add("--config-file", help="YAML file with options; flags win over it")
    grace = "seconds between SIGTERM and SIGKILL when a job is ended [HOROVOD_TERMINATION_GRACE_SECONDS, 5]"
    add("--termination-grace-seconds", type=float, help=grace)
    for add_group in (add_ssh, _add_tunables, _add_elastic, _add_library, _add_logging, _add_hosts, _add_controllers):
        add_group(parser)
    add("command", nargs=argparse.REMAINDER, help="what each process executes")
    return parser


def _add_switch(group: Any, name: str, text: str, off_text: str = argparse.SUPPRESS, dest: str | None = None) -> None:
    dest = dest or name.replace("-", "_")
    group.add_argument(f"--{name}", action="store_true", dest=dest, default=argparse.SUPPRESS, help=text)
    group.add_argument(f"--no-{name}", action="store_false", dest=dest, default=argparse.SUPPRESS, help=off_text)


def add_ssh(parser: argparse.ArgumentParser) -> None:
    """Add how other hosts are reached."""
    group = parser.add_argument_group("SSH")
    group.add_argument("-p", "--ssh-port", type=int, help="port of the ssh servers")
    group.add_argument("-i", "--ssh-identity-file", help="private key")
    group.add_argument(
        "--rsh-agent", help="command called as `<command> <host> <shell command>` instead of ssh [HOROVOD_RSH_AGENT]"
    )


def _add_tunables(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tunables")
    group.add_argument("--fusion-threshold-mb", type=int, help="largest bucket of fused tensors, MiB; 0: no fusion")
    group.add_argument("--cycle-time-ms", type=float, help="longest time a ready tensor is held for others to join")
    group.add_argument("--cache-capacity", type=int, help="entries of the response cache; 0: off")
    _add_switch(group, "hierarchical-allreduce", "reduce inside hosts, then between them", "the opposite")
    _add_switch(group, "hierarchical-allgather", "gather inside hosts, then between them", "the opposite")
    _add_switch(group, "torus-allreduce", "reduce over a two-dimensional torus", "the opposite")

    group = parser.add_argument_group("autotune")
    _add_switch(group, "autotune", "tune while running")
    group.add_argument("--autotune-log-file", help="CSV file; one with what was found for such a job is gone by")
    group.add_argument("--autotune-warmup-samples", type=int, help="samples discarded at the start")
    group.add_argument("--autotune-steps-per-sample", type=int, help="steps in a sample")
    group.add_argument("--autotune-bayes-opt-max-samples", type=int, help="most samples")
    group.add_argument("--autotune-gaussian-process-noise", type=float, help="noise that the search assumes, 0 to 1")

    group = parser.add_argument_group("timeline")
    group.add_argument("--timeline-filename", help="where rank 0 writes the timeline; {rank} in it: every rank")
    _add_switch(group, "timeline-mark-cycles", "mark cycles in it")

    group = parser.add_argument_group("stall check")
    group.add_argument("--no-stall-check", action="store_true", help="do not report stalled tensors")
    group.add_argument("--stall-check", action="store_false", dest="no_stall_check", help=argparse.SUPPRESS)
    group.add_argument(
        "--stall-check-warning-time-seconds", type=int, help="seconds until a tensor counts as stalled (60)"
    )
    group.add_argument(
        "--stall-check-shutdown-time-seconds", type=int, help="seconds until a stall ends the job (600); 0: never"
    )


def _add_elastic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("elastic")
    group.add_argument("--min-np", "--min-num-proc", type=int, dest="min_num_proc", help="least number of processes")
    group.add_argument("--max-np", "--max-num-proc", type=int, dest="max_num_proc", help="most number of processes")
    group.add_argument("--slots-per-host", type=int, help="slots of discovered hosts that do not say")
    group.add_argument("--elastic-timeout", type=int, help="seconds to wait for enough slots")
    group.add_argument("--reset-limit", type=int, help="most resets")
    group.add_argument("--blacklist-cooldown-range", type=int, nargs=2, metavar=("MIN", "MAX"), help="seconds")


def _add_library(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("libraries")
    _add_switch(group, "mpi-threads-disable", "ask MPI for a single thread")
    group.add_argument("--mpi-args", help="appended to mpirun's arguments")
    group.add_argument("--tcp", action="store_true", help="no InfiniBand")
    group.add_argument("--binding-args", help="replaces mpirun's binding arguments")
    group.add_argument("--num-nccl-streams", type=int, help="device streams used in turn")
    group.add_argument("--thread-affinity", type=int, help="core of the engine's thread, of one process a host")
    group.add_argument("--gloo-timeout-seconds", type=int, help="time for connecting and for an operation")


def _add_logging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logging")
    levels = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"]
    group.add_argument("--log-level", choices=levels, help="least severe level to print")
    stamps = group.add_mutually_exclusive_group()
    stamps.add_argument("--log-with-timestamp", action="store_true", help=argparse.SUPPRESS)
    stamps.add_argument("--log-without-timestamp", action="store_false", dest="log_with_timestamp", help="no time")
    stamps.add_argument("--log-hide-timestamp", action="store_false", dest="log_with_timestamp", help=argparse.SUPPRESS)
    stamps.add_argument(
        "--no-log-hide-timestamp", action="store_true", dest="log_with_timestamp", help=argparse.SUPPRESS
    )
    stamps.add_argument(
        "-prefix-timestamp", "--prefix-output-with-timestamp", action="store_true", help="time before every output line"
    )


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts").add_mutually_exclusive_group()
    group.add_argument("-H", "--hosts", help="host:slots,host:slots; by default this host, or an LSF job's")
    group.add_argument("-hostfile", "--hostfile", help="file with lines `<host> slots=<n>`, or a batch system's")
    group.add_argument("--host-discovery-script", help="script that prints the hosts of an elastic job")


def _add_controllers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("controller").add_mutually_exclusive_group()
    group.add_argument("--gloo", action="store_true", dest="use_gloo", help="use Gloo for tensors in host memory")
    group.add_argument("--mpi", action="store_true", dest="use_mpi", help="use MPI")
    group.add_argument("--jsrun", action="store_true", dest="use_jsrun", help="launch with jsrun, in an LSF job")
