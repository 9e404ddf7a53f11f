"""``horovodrun``: starts a job of several processes on one or more hosts."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import horovod
from horovod.common.util import gloo_built, mpi_built
from horovod.runner.common.util import config_parser
from horovod.runner.common.util.hosts import parse_host_files, parse_hosts
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic.discovery import (
    FixedHosts,
    HostDiscovery,
    HostDiscoveryScript,
    check_cooldown_range,
)
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.gloo_run import launch_gloo, launch_gloo_elastic
from horovod.runner.job import JobFailedError, JobInterruptedError
from horovod.runner.mpi_run import MpirunFailedError, launch_mpi

# Options that nothing reads: in a job that is not elastic, beside another launcher.
_ELASTIC = ("max_num_proc", "slots_per_host", "elastic_timeout", "reset_limit", "blacklist_cooldown_range")
_OUR_LAUNCHERS = ("start_timeout", "termination_grace_seconds")
_MPIRUNS = ("mpi_args", "binding_args")
_NO_GLOO = (
    "Gloo support has not been built. The gloo transport is not usable on this machine; `roda-info` prints the reason. "
    "Without --gloo the fastest usable transport is chosen."
)
_NO_MPI = (
    "MPI support has not been built. The mpi transport is not usable on this machine; `roda-info` prints the reason. "
    "Without --mpi horovodrun starts the processes itself."
)
_NO_JSRUN = (
    "Horovod did not detect an LSF job. Launching through jsrun is not available in this version: run without --jsrun."
)


class _CheckBuild(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        from horovod.runner.check_build import report

        print(report(verbose=getattr(namespace, "verbose", False) or False))
        parser.exit(0)


class _Parser(argparse.ArgumentParser):
    """Leaves everything from the command on alone: its options may look like abbreviations of ours."""

    _trying = False

    def error(self, message: str) -> NoReturn:
        if self._trying:
            raise ValueError(message)
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` prints the options)\n")

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


def make_parser() -> _Parser:
    """Return the parser of horovodrun's flags.

    An option that is not given leaves no attribute, so that what was given can be told from defaults.
    """
    parser = _Parser(
        prog="horovodrun",
        description="Run a program as several processes that train together.",
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    add("-v", "--version", action="version", version=horovod.__version__, help="print the version and exit")
    add("-np", "--num-proc", type=int, dest="num_proc", help="number of processes")
    add("-cb", "--check-build", action=_CheckBuild, nargs=0, help="print what is usable on this machine and exit")
    add("--disable-cache", action="store_true", help="accepted; nothing is cached between runs")
    add("--start-timeout", type=int, help="seconds for reaching the hosts [HOROVOD_START_TIMEOUT, 30]")
    nics = "network interfaces to use, separated by commas"
    add("--network-interfaces", "--network-interface", action="append", dest="nics", help=nics)
    add("--output-filename", help="folder for files with each process's output, one folder rank.<R> each")
    add("--verbose", action="store_true", help="tell what is done")
    add("--config-file", help="YAML file with options; flags win over it")
    grace = "seconds between SIGTERM and SIGKILL when a job is ended [HOROVOD_TERMINATION_GRACE_SECONDS, 5]"
    add("--termination-grace-seconds", type=float, help=grace)
    for add_group in (_add_ssh, _add_tunables, _add_elastic, _add_library, _add_logging, _add_hosts, _add_controllers):
        add_group(parser)
    add("command", nargs=argparse.REMAINDER, help="what each process executes")
    return parser


def _add_switch(group: Any, name: str, text: str, off_text: str = argparse.SUPPRESS, dest: str | None = None) -> None:
    dest = dest or name.replace("-", "_")
    group.add_argument(f"--{name}", action="store_true", dest=dest, default=argparse.SUPPRESS, help=text)
    group.add_argument(f"--no-{name}", action="store_false", dest=dest, default=argparse.SUPPRESS, help=off_text)


def _add_ssh(parser: argparse.ArgumentParser) -> None:
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
    group.add_argument("--autotune-log-file", help="CSV file")
    group.add_argument("--autotune-warmup-samples", type=int, help="samples discarded at the start")
    group.add_argument("--autotune-steps-per-sample", type=int, help="steps in a sample")
    group.add_argument("--autotune-bayes-opt-max-samples", type=int, help="most samples")
    group.add_argument("--autotune-gaussian-process-noise", type=float, help="noise that the search assumes, 0 to 1")

    group = parser.add_argument_group("timeline")
    group.add_argument("--timeline-filename", help="where rank 0 writes the timeline")
    _add_switch(group, "timeline-mark-cycles", "mark cycles in it")

    group = parser.add_argument_group("stall check")
    group.add_argument("--no-stall-check", action="store_true", help="do not report stalled tensors")
    group.add_argument("--stall-check", action="store_false", dest="no_stall_check", help=argparse.SUPPRESS)
    group.add_argument("--stall-check-warning-time-seconds", type=int, help="seconds until a tensor counts as stalled")
    group.add_argument("--stall-check-shutdown-time-seconds", type=int, help="seconds until a stall ends the job")


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
    group.add_argument("--thread-affinity", type=int, help="core of the engine's thread")
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
    group.add_argument("-H", "--hosts", help="host:slots,host:slots; by default this host")
    group.add_argument("-hostfile", "--hostfile", help="file with lines `<host> slots=<n>`")
    group.add_argument("--host-discovery-script", help="script that prints the hosts of an elastic job")


def _add_controllers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("controller").add_mutually_exclusive_group()
    group.add_argument("--gloo", action="store_true", dest="use_gloo", help="use Gloo for tensors in host memory")
    group.add_argument("--mpi", action="store_true", dest="use_mpi", help="use MPI")
    group.add_argument("--jsrun", action="store_true", dest="use_jsrun", help="launch with jsrun")


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line; what was not given is None.

    Parameters
    ----------
    argv : sequence of str, optional
        Without the program's name; by default that of this process.

    Raises
    ------
    ValueError
        When an option of the command line or the configuration file is out of its bounds.
    """
    parser = make_parser()
    own, command = parser.split(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(own)
    args.command = command
    given = set(vars(args))
    for action in parser._actions:
        if action.dest not in (argparse.SUPPRESS, "help", "version") and not hasattr(args, action.dest):
            setattr(args, action.dest, None)
    args.verbose = 2 if args.verbose else 0
    if args.config_file:
        config, unknown = config_parser.read_config(args.config_file)
        for line in unknown:  # Horovod ignores them, so they end no job
            print(f"horovodrun: {line}", file=sys.stderr)
        config_parser.set_args_from_config(args, config, given)
    config_parser.validate_config_args(args)
    if args.num_proc is None:
        parser.error("the following arguments are required: -np/--num-proc")
    if args.num_proc < 1:
        raise ValueError(f"num_proc={args.num_proc} must be > 0")
    if not args.command:
        parser.error("the command to run is missing")
    return args


# --- from arguments to a job ---


def is_gloo_used(use_gloo: bool | None = None, use_mpi: bool | None = None, use_jsrun: bool | None = None) -> bool:
    """Tell whether :func:`run_controller` would launch by itself rather than through mpirun or jsrun."""
    return bool(use_gloo) or not (use_mpi or use_jsrun)


def run_controller(
    use_gloo: bool | None,
    gloo_run: Callable[[], Any],
    use_mpi: bool | None,
    mpi_run: Callable[[], Any],
    use_jsrun: bool | None,
    js_run: Callable[[], Any],
    verbosity: int = 0,
) -> Any:
    """Call the launcher that the user asked for, or our own; ValueError when it is not there."""
    del js_run
    verbose = verbosity >= 2
    if use_gloo:
        if not gloo_built(verbose=verbose):
            raise ValueError(_NO_GLOO)
    elif use_mpi:
        if not mpi_built(verbose=verbose):
            raise ValueError(_NO_MPI)
        return mpi_run()
    elif use_jsrun:
        raise ValueError(_NO_JSRUN)
    return gloo_run()


def _interfaces(values: Sequence[str] | str | None) -> list[str]:
    if values is None:
        return []
    texts = [values] if isinstance(values, str) else values
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _number(value: float | None, variable: str, default: float) -> float:
    if value is not None:
        return float(value)
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        raise ValueError(f"{variable}={os.environ[variable]!r} must be a number of seconds") from None


def make_settings(args: argparse.Namespace) -> Settings:
    """Return the settings that parsed arguments ask for."""
    try:
        named = parse_host_files(args.hostfile) if args.hostfile else args.hosts
    except OSError as error:
        raise ValueError(f"--hostfile {args.hostfile}: {error.strerror}") from error
    hosts = named or f"localhost:{args.num_proc}"
    parse_hosts(hosts)
    return Settings(
        num_proc=args.num_proc,
        hosts=hosts,
        verbose=int(args.verbose or 0),
        ssh_port=args.ssh_port,
        ssh_identity_file=args.ssh_identity_file,
        nics=_interfaces(args.nics),
        output_filename=args.output_filename,
        prefix_output_with_timestamp=bool(args.prefix_output_with_timestamp),
        remote_shell=args.rsh_agent or os.environ.get("HOROVOD_RSH_AGENT"),
        start_timeout=_number(args.start_timeout, "HOROVOD_START_TIMEOUT", 30),
        termination_grace=_number(args.termination_grace_seconds, "HOROVOD_TERMINATION_GRACE_SECONDS", 5),
        extra_mpi_args=args.mpi_args,
        binding_args=args.binding_args,
        tcp=bool(args.tcp),
    )


def _worker_environment(args: argparse.Namespace) -> dict[str, str]:
    env = config_parser.set_env_from_args(dict(os.environ), args)
    if args.tcp:
        env["NCCL_IB_DISABLE"] = "1"
    if args.use_gloo:
        env["HOROVOD_CPU_OPERATIONS"] = "gloo"
    return env


def _without_effect(args: argparse.Namespace) -> list[str]:
    """Return a line for every option that was given and that nothing will read."""
    reasons = {} if is_elastic(args) else dict.fromkeys(_ELASTIC, "it needs --min-np or --host-discovery-script")
    others = _OUR_LAUNCHERS if args.use_mpi else _MPIRUNS
    reasons.update(dict.fromkeys(others, "mpirun has no such option" if args.use_mpi else "only --mpi reads it"))
    for option in config_parser.OPTIONS:
        if option.only_with is not None and getattr(args, option.only_with) is None:
            reasons[option.dest] = f"it needs {_flag_of(option.only_with)}"
    return [f"{_flag_of(dest)} has no effect: {why}" for dest, why in reasons.items() if getattr(args, dest)]


def _flag_of(dest: str) -> str:
    flags = (action.option_strings for action in make_parser()._actions if action.dest == dest)
    return max(next(flags), key=lambda flag: (flag.startswith("--"), -len(flag)))


def is_elastic(args: argparse.Namespace) -> bool:
    """Tell whether parsed arguments ask for a job that may lose and gain workers."""
    return bool(args.host_discovery_script or args.min_num_proc)


def make_elastic_settings(args: argparse.Namespace) -> ElasticSettings:
    """Return the settings of an elastic job that parsed arguments ask for."""
    settings = make_settings(args)
    least, most = args.min_num_proc or args.num_proc, args.max_num_proc
    if not 1 <= least <= args.num_proc:
        raise ValueError(f"--min-np {least} must be at least 1, and at most -np {args.num_proc}")
    if most is not None and most < args.num_proc:
        raise ValueError(f"--max-np {most} must be at least -np {args.num_proc}")
    if args.reset_limit is not None and args.reset_limit < 0:
        raise ValueError(f"--reset-limit {args.reset_limit} must be >= 0")
    check_cooldown_range(args.blacklist_cooldown_range)
    if args.host_discovery_script:
        discovery: HostDiscovery = HostDiscoveryScript(args.host_discovery_script, args.slots_per_host)
    else:
        discovery = FixedHosts({host.hostname: host.slots for host in parse_hosts(settings.hosts)})
    return ElasticSettings(
        **vars(settings),
        discovery=discovery,
        min_num_proc=least,
        max_num_proc=most,
        elastic_timeout=_number(args.elastic_timeout, "HOROVOD_ELASTIC_TIMEOUT", 600),
        reset_limit=args.reset_limit,
        cooldown_range=args.blacklist_cooldown_range,
    )


def _run_elastic(args: argparse.Namespace, function: bytes | None = None) -> dict[int, bytes]:
    if args.use_mpi or args.use_jsrun:
        raise ValueError(
            "Gloo support is required to use elastic training: horovodrun itself starts its workers. Leave out "
            "--mpi and --jsrun."
        )
    for line in _without_effect(args):
        print(f"horovodrun: {line}", file=sys.stderr)
    return launch_gloo_elastic(args.command, make_elastic_settings(args), _worker_environment(args), function)


def _run(args: argparse.Namespace, function: bytes | None = None) -> dict[int, bytes]:
    """Run the job that parsed arguments describe; return what its function returned, by rank."""
    if is_elastic(args):
        return _run_elastic(args, function)
    for line in _without_effect(args):
        print(f"horovodrun: {line}", file=sys.stderr)
    if args.log_level:
        logging.getLogger().setLevel({"TRACE": "DEBUG", "FATAL": "CRITICAL"}.get(args.log_level, args.log_level))
    settings = make_settings(args)
    if settings.verbose >= 2:
        print(
            f"horovodrun: {settings.num_proc} processes on {settings.hosts}: {shlex.join(args.command)}",
            file=sys.stderr,
        )

    def launch() -> dict[int, bytes]:
        return launch_gloo(args.command, settings, _worker_environment(args), function)

    def launch_by_mpi() -> dict[int, bytes]:
        return launch_mpi(args.command, settings, _worker_environment(args), function)

    return run_controller(args.use_gloo, launch, args.use_mpi, launch_by_mpi, args.use_jsrun, launch, settings.verbose)


def run_commandline(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``horovodrun``: exits with the status of the first process that failed, 2 for wrong usage."""
    try:
        args = parse_args(argv)
    except (ValueError, OSError) as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        _run(args)
    except (JobFailedError, JobInterruptedError) as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except MpirunFailedError as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (ValueError, RuntimeError, OSError, TimeoutException) as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ValueError) else 1)  # what was asked for can't be, or it did not work


if __name__ == "__main__":
    run_commandline()
