"""Tunable options: one table of flag, place in the configuration file, and variable."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from horovod.common.model import read_text


def _flag(value: Any) -> str:
    return "1" if value else "0"


def _megabytes(value: Any) -> str:
    return str(int(value) * 1024 * 1024)


def _negated(value: Any) -> str:
    return "0" if value else "1"


@dataclass(frozen=True)
class Option:
    """A tunable.

    Attributes
    ----------
    dest : str
        Attribute of the parsed arguments.
    path : tuple of str
        Section and key in the configuration file.
    variable : str
        What the workers read.
    to_text : callable
        From the attribute's value to the variable's.
    minimum, maximum : float or None
        Bounds.
    only_with : str or None
        Another attribute that must be set, or the variable is not exported.
    """

    dest: str
    path: tuple[str, str]
    variable: str
    to_text: Callable[[Any], str] = str
    minimum: float | None = None
    maximum: float | None = None
    only_with: str | None = None


OPTIONS = (
    Option("fusion_threshold_mb", ("params", "fusion_threshold_mb"), "HOROVOD_FUSION_THRESHOLD", _megabytes, 0),
    Option("cycle_time_ms", ("params", "cycle_time_ms"), "HOROVOD_CYCLE_TIME", str, 0),
    Option("cache_capacity", ("params", "cache_capacity"), "HOROVOD_CACHE_CAPACITY", str, 0),
    Option("hierarchical_allreduce", ("params", "hierarchical_allreduce"), "HOROVOD_HIERARCHICAL_ALLREDUCE", _flag),
    Option("hierarchical_allgather", ("params", "hierarchical_allgather"), "HOROVOD_HIERARCHICAL_ALLGATHER", _flag),
    Option("torus_allreduce", ("params", "torus_allreduce"), "HOROVOD_TORUS_ALLREDUCE", _flag),
    Option("autotune", ("autotune", "enabled"), "HOROVOD_AUTOTUNE", _flag, only_with="autotune"),
    Option("autotune_log_file", ("autotune", "log_file"), "HOROVOD_AUTOTUNE_LOG", only_with="autotune"),
    Option(
        "autotune_warmup_samples",
        ("autotune", "warmup_samples"),
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
        minimum=0,
        only_with="autotune",
    ),
    Option(
        "autotune_steps_per_sample",
        ("autotune", "steps_per_sample"),
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
        minimum=0,
        only_with="autotune",
    ),
    Option(
        "autotune_bayes_opt_max_samples",
        ("autotune", "bayes_opt_max_samples"),
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        minimum=0,
        only_with="autotune",
    ),
    Option(
        "autotune_gaussian_process_noise",
        ("autotune", "gaussian_process_noise"),
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        minimum=0,
        maximum=1,
        only_with="autotune",
    ),
    Option("timeline_filename", ("timeline", "filename"), "HOROVOD_TIMELINE"),
    Option(
        "timeline_mark_cycles",
        ("timeline", "mark_cycles"),
        "HOROVOD_TIMELINE_MARK_CYCLES",
        _flag,
        only_with="timeline_filename",
    ),
    Option("no_stall_check", ("stall_check", "enabled"), "HOROVOD_STALL_CHECK_DISABLE", _flag),
    Option(
        "stall_check_warning_time_seconds",
        ("stall_check", "warning_time_seconds"),
        "HOROVOD_STALL_CHECK_TIME_SECONDS",
        minimum=0,
    ),
    Option(
        "stall_check_shutdown_time_seconds",
        ("stall_check", "shutdown_time_seconds"),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        minimum=0,
    ),
    Option("mpi_threads_disable", ("library_options", "mpi_threads_disable"), "HOROVOD_MPI_THREADS_DISABLE", _flag),
    Option("num_nccl_streams", ("library_options", "num_nccl_streams"), "HOROVOD_NUM_NCCL_STREAMS", minimum=0),
    Option("thread_affinity", ("library_options", "thread_affinity"), "HOROVOD_THREAD_AFFINITY", minimum=0),
    Option(
        "gloo_timeout_seconds", ("library_options", "gloo_timeout_seconds"), "HOROVOD_GLOO_TIMEOUT_SECONDS", minimum=0
    ),
    Option("log_level", ("logging", "level"), "HOROVOD_LOG_LEVEL"),
    Option("log_with_timestamp", ("logging", "with_timestamp"), "HOROVOD_LOG_HIDE_TIME", _negated),
)

NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
globals().update({option.variable: option.variable for option in OPTIONS})  # HOROVOD_FUSION_THRESHOLD and so on

_MOST_BYTES = 1 << 16  # of a file
_MOST_ALIASES = 16


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # which is Any, as in all the package's checks
    """Takes few aliases: merged (``<<: [*a, *a]``) in one another, each multiplies what there is to read."""

    aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            self.aliases += 1
            if self.aliases > _MOST_ALIASES:
                mark = self.peek_event().start_mark
                raise yaml.MarkedYAMLError(problem=f"more than {_MOST_ALIASES} aliases", problem_mark=mark)
        return super().compose_node(parent, index)


def read_config(path: str) -> tuple[dict[str, Any], list[str]]:
    """Return what a configuration file says, and a line for each of its names that has no meaning.

    Raises
    ------
    ValueError
        When the file is no YAML, or not of sections; the text says where.
    """
    try:
        config = yaml.load(read_text(Path(path), _MOST_BYTES), Loader=_Loader) or {}  # noqa: S506 (a safe one)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ValueError(f"{path}{where}: not YAML: {error.problem}") from None
    except OSError:
        raise
    except Exception as error:  # of any kind: bytes that are no text, dates that there are not, endless depth
        raise ValueError(f"{path}: not YAML: {(str(error) or repr(error)).splitlines()[0]}") from None
    known: dict[str, list[str]] = {"controller": [], "logging": ["hide_timestamp"]}
    for option in OPTIONS:
        known.setdefault(option.path[0], []).append(option.path[1])
    if not isinstance(config, dict):
        raise ValueError(f"{path}: sections are expected ({', '.join(known)}), not {config!r:.60}")
    unknown = []
    for section, keys in config.items():
        if section not in known:
            unknown.append(f"{path}: the section {section} has no meaning{_nearest(section, known)}")
        elif known[section] and not isinstance(keys, (dict, type(None))):
            raise ValueError(f"{path}: {section} is a section of {', '.join(known[section])}, not {keys!r:.60}")
        for key in keys if section in known and isinstance(keys, dict) else ():
            if key not in known[section]:
                unknown.append(f"{path}: {key} in {section} has no meaning{_nearest(key, known[section])}")
    return config, unknown


def _nearest(name: object, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), names, 1)
    return f"; did you mean {close[0]}?" if close else ""


def set_args_from_config(args: argparse.Namespace, config: Mapping[str, Any], override_args: set[str]) -> None:
    """Fill in options from a configuration file; those in `override_args` were given as flags and win."""
    for option in OPTIONS:
        section = config.get(option.path[0]) or {}
        if option.dest in override_args:
            continue
        if option.path[1] in section:
            value = section[option.path[1]]
            setattr(args, option.dest, not value if option.dest == "no_stall_check" else value)
        elif option.path == ("autotune", "enabled") and section:
            args.autotune = False
        elif option.path == ("stall_check", "enabled") and section:
            args.no_stall_check = False
    controller = config.get("controller")
    if controller is not None and not (args.use_gloo or args.use_mpi or getattr(args, "use_jsrun", False)):
        if str(controller).lower() not in ("gloo", "mpi"):
            raise ValueError(f"No such controller supported: {controller}")
        args.use_gloo = str(controller).lower() == "gloo"
        args.use_mpi = not args.use_gloo


def validate_config_args(args: argparse.Namespace) -> None:
    """Raise ValueError when an option is no value of its kind, or out of its bounds."""
    for option in OPTIONS:
        value = getattr(args, option.dest, None)
        if isinstance(value, (list, dict, set)) or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{option.dest}={value!r:.60} must be one value")
        if value is None or option.minimum is None:
            continue
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{option.dest}={value!r:.60} must be a number")
        if option.maximum is not None and not option.minimum <= value <= option.maximum:
            raise ValueError(f"{option.dest}={value} must be in [{option.minimum}, {option.maximum}]")
        if value < option.minimum:
            raise ValueError(f"{option.dest}={value} must be >= 0")


def set_env_from_args(env: dict[str, str], args: argparse.Namespace) -> dict[str, str]:
    """Put every option that was given into `env`, and return it."""
    for option in OPTIONS:
        value = getattr(args, option.dest, None)
        if value is not None and (option.only_with is None or getattr(args, option.only_with, None)):
            env[option.variable] = option.to_text(value)
    return env
