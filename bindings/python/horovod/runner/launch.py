"""``horovodrun``: starts a job of several processes on one or more hosts."""

from __future__ import annotations

import argparse
import contextlib
import errno
import glob
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from horovod.command_line import fail, is_unread, tool
from horovod.common.util import gloo_built, mpi_built, whole_number
from horovod.runner import _results
from horovod.runner.agent_host import count_cores, reason
from horovod.runner.check_build import check_build as check_build
from horovod.runner.common.util import config_parser
from horovod.runner.common.util.hosts import parse_host_files, parse_hosts, parse_hosts_and_slots, too_few_slots
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.debugging import PATIENCE
from horovod.runner.elastic.discovery import (
    FixedHosts,
    HostDiscovery,
    HostDiscoveryScript,
    check_cooldown_range,
)
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.external import ExternalLauncherError
from horovod.runner.function import pickled_call
from horovod.runner.gloo_run import NoCommandError, launch_gloo, launch_gloo_elastic
from horovod.runner.host_check import check_hosts, make_cache
from horovod.runner.job import JobFailedError, JobInterruptedError
from horovod.runner.js_run import is_jsrun_installed, launch_jsrun
from horovod.runner.mpi_run import launch_mpi
from horovod.runner.options import MOST_PROCESSES, make_parser
from horovod.runner.printer import open_closed_streams, say
from horovod.runner.util import lsf, network
from horovod.runner.util.cache import Cache

# Options that nothing reads: in a job that is not elastic, beside another launcher.
_ELASTIC = (
    "max_num_proc", "slots_per_host", "elastic_timeout", "reset_limit", "blacklist_cooldown_range",
    "replace_slow_hosts",
)  # fmt: skip
_EXTERNAL = ("mpi_args", "binding_args")
_COUNTS = ("num_proc", "min_num_proc", "max_num_proc", "slots_per_host", "ssh_port")
_FILES = ("hostfile", "config_file", "host_discovery_script", "output_filename")
_DEBUGGING = ("stdin", "debug")
_OWN = ("termination_grace_seconds", "fold", *_DEBUGGING)  # of our own launcher
_SAY_SECONDS = 1.0  # after a signal, for whoever reads the launcher's last words
_BATCH_SYSTEMS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")  # in their jobs mpirun needs no ssh
_NO_GLOO = (
    "Gloo support has not been built. The gloo transport is not usable on this machine; `roda-info` prints the reason. "
    "Without --gloo the fastest usable transport is chosen."
)
_NO_MPI = (
    "MPI support has not been built. The mpi transport is not usable on this machine; `roda-info` prints the reason. "
    "Without --mpi horovodrun starts the processes itself."
)
_NO_LSF = (
    "Horovod did not detect an LSF job. jsrun starts jobs inside of one alone: submit this by bsub, or run without "
    "--jsrun."
)


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
    for text in args.single_nics or []:
        args.nics = [*(args.nics or []), text]
        if "," in text:
            print(
                f"horovodrun: --network-interface {text} is deprecated, please use --network-interfaces {text} instead",
                file=sys.stderr,
            )
    if args.config_file:
        try:
            config, unknown = config_parser.read_config(args.config_file)
        except OSError as error:
            raise ValueError(f"--config-file {args.config_file}: {reason(error)}") from error
        for line in unknown:  # Horovod ignores them, so they end no job
            print(f"horovodrun: {line}", file=sys.stderr)
        config_parser.set_args_from_config(args, config, given)
    config_parser.validate_config_args(args)
    if args.num_proc is None and args.host_discovery_script:
        parser.error("-np N is needed beside --host-discovery-script: how many processes the job begins with")
    check_counts(args)
    return args


def check_counts(args: argparse.Namespace) -> None:
    """Check the types of arguments, which other code fills in, too; ValueError names one of another type."""
    for name, least in (*dict.fromkeys(_COUNTS, 1).items(), ("reset_limit", None)):
        if getattr(args, name) is not None:
            setattr(args, name, whole_number(name, getattr(args, name), least))
    for name in ("hosts", *_FILES):
        if not isinstance(getattr(args, name), (str, os.PathLike, type(None))):
            raise ValueError(f"{name}={getattr(args, name)!r} must be a text")
    for name in _FILES:
        if getattr(args, name) == "":  # of a variable that is not set, as a rule
            raise ValueError(f"{name}='' must be the name of a file")


# --- from arguments to a job ---


def is_gloo_used(use_gloo: bool | None = None, use_mpi: bool | None = None, use_jsrun: bool | None = None) -> bool:
    """Tell whether :func:`run_controller` would launch by itself rather than through mpirun or jsrun."""
    return bool(use_gloo) or not (use_mpi or use_jsrun or _prefers_jsrun())


def _prefers_jsrun() -> bool:
    """Tell whether the hosts of this LSF job may be closed to anybody but jsrun."""
    return lsf.LSFUtils.using_lsf() and is_jsrun_installed() and mpi_built()


def run_controller(
    use_gloo: bool | None,
    gloo_run: Callable[[], Any],
    use_mpi: bool | None,
    mpi_run: Callable[[], Any],
    use_jsrun: bool | None,
    js_run: Callable[[], Any],
    verbosity: int = 0,
) -> Any:
    """Call the launcher that the user asked for; ValueError when it is not there.

    By default that is our own, but jsrun in an LSF job that has it.
    """
    verbose = verbosity >= 2
    if use_gloo:
        if not gloo_built(verbose=verbose):
            raise ValueError(_NO_GLOO)
    elif use_mpi:
        if not mpi_built(verbose=verbose):
            raise ValueError(_NO_MPI)
        return mpi_run()
    elif use_jsrun:
        if not mpi_built(verbose=verbose):
            raise ValueError(_NO_MPI)
        if not lsf.LSFUtils.using_lsf():
            raise ValueError(_NO_LSF)
        return js_run()
    elif _prefers_jsrun():
        return js_run()
    return gloo_run()


def _interfaces(values: Sequence[str] | str | None) -> list[str]:
    if values is None:
        return []
    texts = [values] if isinstance(values, str) else values
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _number(value: float | None, variable: str, default: float) -> float:
    name, given = variable.removeprefix("HOROVOD_").lower(), value
    if given is None:
        name, given = variable, os.environ.get(variable) or default  # type: ignore[assignment]
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(given, bool) and float(given) >= 0:  # type: ignore[arg-type]
            return float(given)  # type: ignore[arg-type]
    raise ValueError(f"{name}={given!r} must be a number of seconds")


def _processes_here() -> int:
    """Return how many processes this machine is for, and say so: one for each GPU, or else for each core."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = glob.glob("/dev/nvidia[0-9]*") if visible is None else visible.split(",")
    gpus = sum(name.strip() not in ("", "-1") for name in names)
    count, what = (gpus, "GPU") if gpus else (count_cores(), "core")
    print(f"horovodrun: -np {count}: a process for each {what} of this machine", file=sys.stderr)
    return count


def _with_python(command: Sequence[str]) -> list[str]:
    """Put a Python before a script that can't be executed by itself."""
    is_script = command[0].endswith(".py") and os.path.isfile(command[0]) and shutil.which(command[0]) is None
    return [*([sys.executable] if is_script else []), *command]


def make_settings(args: argparse.Namespace) -> Settings:
    """Return the settings that parsed arguments ask for."""
    try:
        named = parse_host_files(args.hostfile) if args.hostfile else args.hosts
    except OSError as error:
        raise ValueError(f"--hostfile {args.hostfile}: {reason(error)}") from error
    if not named and not args.host_discovery_script and lsf.LSFUtils.using_lsf():
        found = lsf.LSFUtils.get_compute_hosts_and_slots()
        if len(found) == 1:  # one slot may have several GPUs
            found = {host: max(slots, args.num_proc or 0) for host, slots in found.items()}
        named = ",".join(f"{host}:{slots}" for host, slots in found.items())
    hosts = named or f"localhost:{args.num_proc or _processes_here()}"
    infos = parse_hosts(hosts)
    num_proc = args.num_proc or sum(info.slots for info in infos)
    if num_proc > MOST_PROCESSES:
        raise ValueError(f"{num_proc} processes are too many: at most {MOST_PROCESSES}")
    return Settings(
        num_proc=num_proc,
        hosts=hosts,
        verbose=int(args.verbose or 0),
        ssh_port=args.ssh_port,
        ssh_identity_file=args.ssh_identity_file,
        nics=_interfaces(args.nics),
        output_filename=args.output_filename,
        prefix_output_with_timestamp=bool(args.prefix_output_with_timestamp),
        fold=bool(args.fold),
        stdin=args.stdin,
        debug=args.debug,
        remote_shell=args.rsh_agent or os.environ.get("HOROVOD_RSH_AGENT"),
        start_timeout=_number(args.start_timeout, "HOROVOD_START_TIMEOUT", 30),
        termination_grace=_number(args.termination_grace_seconds, "HOROVOD_TERMINATION_GRACE_SECONDS", 5),
        extra_mpi_args=args.mpi_args,
        binding_args=args.binding_args,
        tcp_flag=bool(args.tcp),
    )


def _worker_environment(args: argparse.Namespace) -> dict[str, str]:
    env = config_parser.set_env_from_args(dict(os.environ), args)
    if args.tcp:
        env["NCCL_IB_DISABLE"] = "1"
    if args.use_gloo:
        env["HOROVOD_CPU_OPERATIONS"] = "gloo"
    if args.debug is not None or (args.stdin is not None and sys.stdin.isatty()):
        env.update(PATIENCE)
    return env


def _without_effect(args: argparse.Namespace) -> list[str]:
    """Return a line for every option that was given and that nothing will read."""
    reasons = dict.fromkeys(_ELASTIC, "it needs --min-np or --host-discovery-script")
    if is_elastic(args):
        reasons = dict.fromkeys(_DEBUGGING, "elastic jobs have no such option")
    if is_gloo_used(args.use_gloo, args.use_mpi, args.use_jsrun):
        reasons.update(dict.fromkeys(_EXTERNAL, "only --mpi and --jsrun read it"))
    else:
        reasons.update(dict.fromkeys(_OWN, "mpirun and jsrun have no such option"))
    for option in config_parser.OPTIONS:
        if option.only_with is not None and getattr(args, option.only_with) is None:
            reasons[option.dest] = f"it needs {_flag_of(option.only_with)}"
    given = {dest: why for dest, why in reasons.items() if getattr(args, dest) not in (None, False)}
    return [f"{_flag_of(dest)} has no effect: {why}" for dest, why in given.items()]


def _flag_of(dest: str) -> str:
    flags = (action.option_strings for action in make_parser()._actions if action.dest == dest)
    return max(next(flags), key=lambda flag: (flag.startswith("--"), -len(flag)))


def is_elastic(args: argparse.Namespace) -> bool:
    """Tell whether parsed arguments ask for a job that may lose and gain workers."""
    return bool(args.host_discovery_script or args.min_num_proc)


def make_elastic_settings(args: argparse.Namespace) -> ElasticSettings:
    """Return the settings of an elastic job that parsed arguments ask for."""
    settings = make_settings(args)
    least, most = args.min_num_proc or settings.num_proc, args.max_num_proc
    if not 1 <= least <= settings.num_proc:
        raise ValueError(f"--min-np {least} must be at least 1, and at most -np {settings.num_proc}")
    if most is not None and most < settings.num_proc:
        raise ValueError(f"--max-np {most} must be at least -np {settings.num_proc}")
    if args.reset_limit is not None and args.reset_limit < 0:
        raise ValueError(f"--reset-limit {args.reset_limit} must be >= 0")
    if args.replace_slow_hosts is not None and args.replace_slow_hosts < 0:
        raise ValueError(f"--replace-slow-hosts {args.replace_slow_hosts} must be >= 0")
    check_cooldown_range(args.blacklist_cooldown_range)
    if args.host_discovery_script:
        discovery: HostDiscovery = HostDiscoveryScript(args.host_discovery_script, args.slots_per_host)
    else:
        _, slots = parse_hosts_and_slots(settings.hosts)
        if sum(slots.values()) < settings.num_proc:  # no wait would bring more
            raise ValueError(too_few_slots(settings.num_proc, parse_hosts(settings.hosts)))
        discovery = FixedHosts(slots)
    return ElasticSettings(
        **{**vars(settings), "elastic": True},
        discovery=discovery,
        min_num_proc=least,
        max_num_proc=most,
        elastic_timeout=_number(args.elastic_timeout, "HOROVOD_ELASTIC_TIMEOUT", 600),
        reset_limit=args.reset_limit,
        cooldown_range=args.blacklist_cooldown_range,
        has_fixed_hosts=isinstance(discovery, FixedHosts),
        slow_seconds=args.replace_slow_hosts,
    )


def _check_all_hosts_ssh_successful(
    host_addresses: Sequence[str],
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    fn_cache: Cache | None = None,
) -> bool:
    """Tell whether commands can be run on all hosts; those where they can't are printed."""
    settings = Settings(len(host_addresses), "", ssh_port=ssh_port, ssh_identity_file=ssh_identity_file)
    try:
        check_hosts(settings, host_addresses, fn_cache)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return False
    return True


def _check_before_mpirun(args: argparse.Namespace, settings: Settings) -> None:
    """Check that remote hosts can be reached where mpirun uses ssh: its own errors name no host."""
    if any(variable in os.environ for variable in _BATCH_SYSTEMS):
        return
    names = list(dict.fromkeys(host.hostname for host in parse_hosts(settings.hosts)))
    remote = network.filter_local_addresses(names)
    if remote:
        check_hosts(settings, remote, None if args.disable_cache else make_cache(settings))


def _run_elastic(args: argparse.Namespace, function: bytes | None = None) -> dict[int, bytes]:
    if args.use_mpi or args.use_jsrun:
        raise ValueError(
            "Gloo support is required to use elastic training: horovodrun itself starts its workers. Leave out "
            "--mpi and --jsrun."
        )
    for line in _without_effect(args):
        print(f"horovodrun: {line}", file=sys.stderr)
    return launch_gloo_elastic(args.command, make_elastic_settings(args), _worker_environment(args), function)


def _run(args: argparse.Namespace) -> list[Any] | None:
    """Run the job that parsed arguments describe, or ``horovod.runner._HorovodArgs``; other code calls this.

    Returns what the function `run_func` returned, by rank, where there is one.
    """
    function = getattr(args, "run_func", None)
    if function is None:
        _launch(args)
        return None
    return _results(args, pickled_call("horovod.run", function, (), None))


def _launch(args: argparse.Namespace, function: bytes | None = None) -> dict[int, bytes]:
    """Run the job that arguments describe; return what its pickled function returned, by rank."""
    try:
        return _start(args, function)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise OSError(error.errno, f"the launcher met a limit: {reason(error)}") from error


def _start(args: argparse.Namespace, function: bytes | None) -> dict[int, bytes]:
    if args.log_level:
        logging.getLogger().setLevel({"TRACE": "DEBUG", "FATAL": "CRITICAL"}.get(args.log_level, args.log_level))
    if is_elastic(args):
        return _run_elastic(args, function)
    for line in _without_effect(args):
        print(f"horovodrun: {line}", file=sys.stderr)
    settings = make_settings(args)
    if settings.verbose >= 2:
        print(
            f"horovodrun: {settings.num_proc} processes on {settings.hosts}: {shlex.join(args.command)}",
            file=sys.stderr,
        )

    def launch() -> dict[int, bytes]:
        return launch_gloo(args.command, settings, _worker_environment(args), function)

    def launch_by_mpi() -> dict[int, bytes]:
        _check_before_mpirun(args, settings)
        return launch_mpi(args.command, settings, _worker_environment(args), function)

    def launch_by_jsrun() -> dict[int, bytes]:
        return launch_jsrun(args.command, settings, _worker_environment(args), function)

    results: dict[int, bytes] = run_controller(
        args.use_gloo, launch, args.use_mpi, launch_by_mpi, args.use_jsrun, launch_by_jsrun, settings.verbose
    )
    return results


@tool
def run_commandline(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``horovodrun``: exits with the status of the first process that failed, 2 for wrong usage."""
    open_closed_streams()
    try:
        args = parse_args(argv)
        if not args.command:
            make_parser().error("the command to run is missing")
        args.command = _with_python(args.command)
    except (ValueError, OSError) as error:
        if is_unread(error):
            raise
        fail("horovodrun", error)
        sys.exit(2)
    try:
        _run(args)
    except JobInterruptedError as error:
        say(str(error), _SAY_SECONDS)
        sys.exit(error.exit_code)
    except JobFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except (ExternalLauncherError, NoCommandError) as error:
        fail("horovodrun", error)
        sys.exit(error.exit_code)
    except (ValueError, RuntimeError, OSError, TimeoutException) as error:
        if is_unread(error):
            raise
        fail("horovodrun", error)
        sys.exit(2 if isinstance(error, ValueError) else 1)  # what was asked for can't be, or it did not work


if __name__ == "__main__":
    sys.exit(run_commandline())
