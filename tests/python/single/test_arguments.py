from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from horovod.runner import launch
from horovod.runner.common.util import config_parser
from horovod.runner.common.util.config_parser import set_env_from_args
from horovod.runner.common.util.env import exportable, get_env_rank_and_size
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import Timeout
from horovod.runner.launch import (
    _worker_environment,
    make_elastic_settings,
    make_settings,
    parse_args,
    run_commandline,
    run_controller,
)


def environment(*flags: str) -> dict[str, str]:
    """What these flags add to the variables of workers."""
    added = _worker_environment(parse_args(["-np", "2", *flags, "train"]))
    return {name: value for name, value in added.items() if os.environ.get(name) != value}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], {}),
        (["--fusion-threshold-mb", "10"], {"HOROVOD_FUSION_THRESHOLD": str(10 * 1024 * 1024)}),
        (["--cycle-time-ms", "2.5"], {"HOROVOD_CYCLE_TIME": "2.5"}),
        (["--cache-capacity", "0"], {"HOROVOD_CACHE_CAPACITY": "0"}),
        (["--hierarchical-allreduce"], {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}),
        (["--no-hierarchical-allreduce"], {"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}),
        (["--hierarchical-allgather"], {"HOROVOD_HIERARCHICAL_ALLGATHER": "1"}),
        (["--no-hierarchical-allgather"], {"HOROVOD_HIERARCHICAL_ALLGATHER": "0"}),
        (["--torus-allreduce"], {"HOROVOD_TORUS_ALLREDUCE": "1"}),
        (["--no-torus-allreduce"], {"HOROVOD_TORUS_ALLREDUCE": "0"}),
        (["--autotune-log-file", "x"], {}),
        (["--no-autotune", "--autotune-log-file", "x"], {}),
        (["--autotune", "--autotune-log-file", "x"], {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": "x"}),
        (["--no-autotune", "--autotune-warmup-samples", "5"], {}),
        (
            ["--autotune", "--autotune-warmup-samples", "5", "--autotune-steps-per-sample", "20"],
            {
                "HOROVOD_AUTOTUNE": "1",
                "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "5",
                "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20",
            },
        ),
        (
            ["--autotune", "--autotune-bayes-opt-max-samples", "40", "--autotune-gaussian-process-noise", "0.5"],
            {
                "HOROVOD_AUTOTUNE": "1",
                "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "40",
                "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.5",
            },
        ),
        (["--timeline-mark-cycles"], {}),
        (
            ["--timeline-filename", "t", "--timeline-mark-cycles"],
            {"HOROVOD_TIMELINE": "t", "HOROVOD_TIMELINE_MARK_CYCLES": "1"},
        ),
        (["--no-stall-check"], {"HOROVOD_STALL_CHECK_DISABLE": "1"}),
        (["--stall-check"], {"HOROVOD_STALL_CHECK_DISABLE": "0"}),
        (["--stall-check-warning-time-seconds", "7"], {"HOROVOD_STALL_CHECK_TIME_SECONDS": "7"}),
        (["--stall-check-shutdown-time-seconds", "9"], {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9"}),
        (["--mpi-threads-disable"], {"HOROVOD_MPI_THREADS_DISABLE": "1"}),
        (["--no-mpi-threads-disable"], {"HOROVOD_MPI_THREADS_DISABLE": "0"}),
        (["--num-nccl-streams", "2"], {"HOROVOD_NUM_NCCL_STREAMS": "2"}),
        (["--tcp"], {"NCCL_IB_DISABLE": "1"}),
        (["--thread-affinity", "3"], {"HOROVOD_THREAD_AFFINITY": "3"}),
        (["--gloo-timeout-seconds", "60"], {"HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}),
        (["--log-level", "info"], {"HOROVOD_LOG_LEVEL": "INFO"}),
        (["--log-without-timestamp"], {"HOROVOD_LOG_HIDE_TIME": "1"}),
        (["--log-with-timestamp"], {"HOROVOD_LOG_HIDE_TIME": "0"}),
    ],
)
def test_flags_become_variables(flags: list[str], expected: dict[str, str]) -> None:
    assert environment(*flags) == expected


@pytest.mark.parametrize(
    "flags",
    [
        ["--fusion-threshold-mb", "-1"],
        ["--cycle-time-ms", "-0.1"],
        ["--cache-capacity", "-1"],
        ["--autotune-warmup-samples", "-1"],
        ["--stall-check-warning-time-seconds", "-1"],
        ["--num-nccl-streams", "-1"],
        ["--thread-affinity", "-1"],
        ["--gloo-timeout-seconds", "-1"],
    ],
)
def test_bounds(flags: list[str]) -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        parse_args(["-np", "2", *flags, "train"])


def test_noise_is_between_zero_and_one() -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        parse_args(["-np", "2", "--autotune-gaussian-process-noise", "1.5", "train"])


def test_everything_after_the_command_belongs_to_it() -> None:
    args = parse_args(["-np", "2", "python", "train.py", "--verbose", "-np", "9", "--timeline", "t.json"])
    assert args.command == ["python", "train.py", "--verbose", "-np", "9", "--timeline", "t.json"]
    assert args.num_proc == 2
    assert not args.verbose


def test_a_command_line_without_a_command_is_parsed() -> None:
    """As Horovod does for code that has the rest from elsewhere; only running it needs a command."""
    args = parse_args(["-np", "2", "-H", "localhost:2"])
    assert (args.num_proc, args.hosts, args.command) == (2, "localhost:2", [])


def test_names_of_variables() -> None:
    assert config_parser.HOROVOD_FUSION_THRESHOLD == "HOROVOD_FUSION_THRESHOLD"
    assert config_parser.NCCL_IB_DISABLE == "NCCL_IB_DISABLE"
    names = {name for name in vars(config_parser) if name.startswith("HOROVOD_")}
    assert names == {option.variable for option in config_parser.OPTIONS}


def test_abbreviated_flags() -> None:
    assert parse_args(["--num-p", "3", "--fusion", "4", "train"]).fusion_threshold_mb == 4


def test_hosts_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_args(["-np", "2", "-H", "a:1", "--hostfile", "x", "t"])
    assert "--hostfile: not allowed with -H/--hosts" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["-np", "auto"]])
def test_how_many_processes_a_machine_is_for(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-7a,6")
    assert make_settings(parse_args([*given, "train"])).num_proc == 3
    assert capsys.readouterr().err == "horovodrun: -np 3: a process for each GPU of this machine\n"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert make_settings(parse_args([*given, "train"])).num_proc == launch.count_cores()
    assert capsys.readouterr().err.endswith("a process for each core of this machine\n")
    assert make_settings(parse_args([*given, "-H", "a:2,b:3", "train"])).num_proc == 5
    assert capsys.readouterr().err == ""


def test_a_script_needs_no_python_before_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("#!/bin/true\n")
    assert launch._with_python([str(script), "-x"]) == [sys.executable, str(script), "-x"]
    script.chmod(0o755)
    assert launch._with_python([str(script)]) == [str(script)]
    assert launch._with_python(["python", "train.py"]) == ["python", "train.py"]
    assert launch._with_python(["nowhere.py"]) == ["nowhere.py"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["-np", "two", "t"], "-np/--num-proc: 'two' is neither a number of processes nor auto"),
        (["-np", "0", "t"], "-np/--num-proc: '0' is neither a number of processes nor auto"),
        (["-np", "2", "--min-np", "0", "t"], "--min-np/--min-num-proc: '0' is no whole number above 0"),
        (["--nosuch", "-np", "2", "t"], "unrecognized arguments: --nosuch"),
        (["-np", "2"], "the command to run is missing"),
        (["--host-discovery-script", "x", "t"], "-np N is needed beside --host-discovery-script"),
        (["-np", "4", "-H", "localhost:2", "t"], "Requested more processes (4) than there are available slots (2)"),
        (["-np", "1", "-H", "localhost:0", "t"], "Requested more processes (1) than there are available slots (0)"),
        (["-np", "2", "--min-np", "1", "-H", "a:1,b:0", "t"], "(2) than there are available slots (1)"),
        (["-np", "2", "-H", "localhost:2:3", "t"], "Invalid host input"),
        (["-np", "2", "--hostfile", "/nowhere", "t"], "--hostfile /nowhere: No such file or directory"),
        (["-np", "2", "--config-file", "/nowhere", "t"], "--config-file /nowhere: No such file or directory"),
        (["-np", "2", "--hostfile", "/", "t"], "--hostfile /: Is a directory"),
        (["-np", "2", "--config-file", "/", "t"], "--config-file /: Is a directory"),
        (["-np", "2", "--hostfile", "", "t"], "hostfile='' must be the name of a file"),
        (["-np", "2", "--config-file", "", "t"], "config_file='' must be the name of a file"),
        (["-np", "2", "--host-discovery-script", "", "t"], "host_discovery_script='' must be the name of a file"),
        (["-np", "2", "--hostfile", "/dev/null", "t"], "/dev/null names no host"),
        (["-np", "2", "--min-np", "3", "t"], "--min-np 3 must be at least 1, and at most -np 2"),
        (["-np", "4", "--min-np", "1", "--max-np", "3", "t"], "--max-np 3 must be at least -np 4"),
        (["-np", "2", "--min-np", "1", "--reset-limit", "-1", "t"], "--reset-limit -1 must be >= 0"),
        (["-np", "2", "--min-np", "1", "--replace-slow-hosts", "-1", "t"], "--replace-slow-hosts -1 must be >= 0"),
        (["-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "9", "5", "t"], "blacklist_cooldown_range=9 5"),
        (["-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "0", "5", "t"], "within 1 and 3600"),
        (["-np", "2", "--min-np", "1", "--mpi", "t"], "Gloo support is required to use elastic training"),
    ],
)
def test_wrong_usage_is_told_in_a_line(capsys: pytest.CaptureFixture[str], argv: list[str], told: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        run_commandline(argv)
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("horovodrun: ")
    assert told in error
    assert error.count("\n") == 1


def test_a_number_in_a_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HOROVOD_START_TIMEOUT='soon' must be a number of seconds"):
        make_settings(parse_args(["-np", "3", "train"]))


NEEDS_ELASTIC = "has no effect: it needs --min-np or --host-discovery-script"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--max-np", "4"], f"--max-np {NEEDS_ELASTIC}"),
        (["--slots-per-host", "4"], f"--slots-per-host {NEEDS_ELASTIC}"),
        (["--elastic-timeout", "4"], f"--elastic-timeout {NEEDS_ELASTIC}"),
        (["--reset-limit", "4"], f"--reset-limit {NEEDS_ELASTIC}"),
        (["--replace-slow-hosts", "4"], f"--replace-slow-hosts {NEEDS_ELASTIC}"),
        (["--blacklist-cooldown-range", "4", "5"], f"--blacklist-cooldown-range {NEEDS_ELASTIC}"),
        (["--mpi-args=-x"], "--mpi-args has no effect: only --mpi and --jsrun read it"),
        (["--autotune-log-file", "x"], "--autotune-log-file has no effect: it needs --autotune"),
        (["--timeline-mark-cycles"], "--timeline-mark-cycles has no effect: it needs --timeline-filename"),
        (
            ["--mpi", "--termination-grace-seconds", "4", "--start-timeout", "4"],
            "--termination-grace-seconds has no effect: mpirun and jsrun have no such option",
        ),
        (["--timeline-filename", "t", "--timeline-mark-cycles", "--start-timeout", "4"], ""),
    ],
)
def test_flags_that_nothing_reads_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    monkeypatch.setattr("horovod.runner.launch.run_controller", lambda *_: None)
    run_commandline(["-np", "2", *flags, "train"])
    assert capsys.readouterr().err == (f"horovodrun: {told}\n" if told else "")


CONFIG = """
controller: gloo
params:
  {fusion_threshold_mb: 32, cycle_time_ms: 10, cache_capacity: 9, hierarchical_allreduce: true,
   hierarchical_allgather: false, torus_allreduce: true, unknown: 1}
autotune: {log_file: log.csv, warmup_samples: 5}
timeline: {filename: t.json, mark_cycles: true}
stall_check: {enabled: false, warning_time_seconds: 120, shutdown_time_seconds: 240}
library_options: {mpi_threads_disable: true, num_nccl_streams: 2, thread_affinity: 1, gloo_timeout_seconds: 50}
logging: {level: DEBUG, with_timestamp: false, hide_timestamp: true}
"""


def test_config_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    args = parse_args(["-np", "2", "--fusion-threshold-mb", "8", "--config-file", str(file), "train"])
    assert args.use_gloo
    assert set_env_from_args({}, args) == {
        "HOROVOD_FUSION_THRESHOLD": str(8 * 1024 * 1024),
        "HOROVOD_CYCLE_TIME": "10",
        "HOROVOD_CACHE_CAPACITY": "9",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
        "HOROVOD_TORUS_ALLREDUCE": "1",
        "HOROVOD_TIMELINE": "t.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "120",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "240",
        "HOROVOD_MPI_THREADS_DISABLE": "1",
        "HOROVOD_NUM_NCCL_STREAMS": "2",
        "HOROVOD_THREAD_AFFINITY": "1",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "50",
        "HOROVOD_LOG_LEVEL": "DEBUG",
        "HOROVOD_LOG_HIDE_TIME": "1",
    }


def test_autotuning_by_the_config_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "autotune: {enabled: true, log_file: log.csv, warmup_samples: 5, steps_per_sample: 20, "
        "bayes_opt_max_samples: 40, gaussian_process_noise: 0.5}"
    )
    assert set_env_from_args({}, parse_args(["-np", "2", "--config-file", str(file), "train"])) == {
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "log.csv",
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "5",
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "40",
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.5",
    }


def test_config_file_with_an_unknown_controller(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("controller: pigeons")
    with pytest.raises(ValueError, match="No such controller supported: pigeons"):
        parse_args(["-np", "2", "--config-file", str(file), "train"])
    assert parse_args(["-np", "2", "--gloo", "--config-file", str(file), "train"]).use_gloo


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "11")
    settings = make_settings(parse_args(["-np", "3", "--network-interfaces", "eth0,eth1", "train"]))
    assert settings.hosts == "localhost:3"
    assert settings.nics == ["eth0", "eth1"]
    assert settings.start_timeout == 11
    assert make_settings(parse_args(["-np", "3", "--start-timeout", "5", "train"])).start_timeout == 5


def test_settings_of_horovods_code() -> None:
    names = ("key", "run_func_mode", "tcp_flag", "binding_args", "extra_mpi_args", "output_filename", "start_timeout")
    unset = Settings(verbose=2, hosts="localhost:2", nics=None, **dict.fromkeys(names))
    assert (unset.num_proc, unset.verbose, unset.elastic, unset.nics) == (None, 2, False, [])
    assert unset.start_timeout == Settings().start_timeout
    deadline = Timeout(7, "{activity}")
    assert Settings(start_timeout=deadline).start_timeout is deadline
    elastic = make_elastic_settings(parse_args(["-np", "2", "--min-np", "1"]))
    assert elastic.elastic


def test_a_list_of_interfaces_under_the_name_of_one_is_deprecated(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["-np", "1", "--network-interface", "a", "--network-interfaces", "b,c", "--network-interface", "d", "train"]
    assert make_settings(parse_args(args)).nics == ["b", "c", "a", "d"]
    assert capsys.readouterr().err == ""
    assert make_settings(parse_args(["-np", "1", "--network-interface", "a,b", "train"])).nics == ["a", "b"]
    told = "--network-interface a,b is deprecated, please use --network-interfaces a,b instead"
    assert capsys.readouterr().err == f"horovodrun: {told}\n"


@pytest.mark.parametrize("elastic", [[], ["--min-np", "1"]])
def test_the_log_level_is_the_launchers_too(monkeypatch: pytest.MonkeyPatch, elastic: list[str]) -> None:
    levels: list[int] = []
    for name in ("run_controller", "launch_gloo_elastic"):
        monkeypatch.setattr(f"horovod.runner.launch.{name}", lambda *_: levels.append(logging.getLogger().level))
    before = logging.getLogger().level
    try:
        run_commandline(["-np", "1", *elastic, "--log-level", "TRACE", "train"])
    finally:
        logging.getLogger().setLevel(before)
    assert levels == [logging.DEBUG]


def test_controllers_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horovod.runner.launch.mpi_built", lambda verbose: False)
    with pytest.raises(ValueError, match="MPI support has not been built."):
        run_controller(False, lambda: None, True, lambda: None, False, lambda: None)
    with pytest.raises(ValueError, match="MPI support has not been built."):
        run_controller(False, lambda: None, False, lambda: None, True, lambda: None)
    assert run_controller(False, lambda: 7, False, lambda: None, False, lambda: None) == 7
    monkeypatch.setattr("horovod.runner.launch.mpi_built", lambda verbose: True)
    assert run_controller(False, lambda: None, True, lambda: 8, False, lambda: None) == 8
    monkeypatch.delenv("LSB_JOBID", raising=False)
    with pytest.raises(ValueError, match="Horovod did not detect an LSF job."):
        run_controller(False, lambda: None, False, lambda: None, True, lambda: None)


def test_what_is_sent_to_workers() -> None:
    kept = {"PATH": "/bin", "HOROVOD_X": "1", "MY_BASH_FUNC": "x"}
    dropped = {
        "BASH_FUNC_f%%": "() {}",
        "OLDPWD": "/",
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_CUDA_VISIBLE_DEVICES": "0",
        "_HOROVOD_SECRET_KEY": "x",
    }
    assert exportable({**kept, **dropped}) == kept


@pytest.mark.parametrize("prefix", ["HOROVOD_", "OMPI_COMM_WORLD_", "PMI_"])
def test_rank_and_size_of_a_worker(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    for other in ("HOROVOD_", "OMPI_COMM_WORLD_", "PMI_"):
        monkeypatch.delenv(f"{other}RANK", raising=False)
        monkeypatch.delenv(f"{other}SIZE", raising=False)
    assert get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv(f"{prefix}RANK", "3")
    with pytest.raises(RuntimeError):
        get_env_rank_and_size()
    monkeypatch.setenv(f"{prefix}SIZE", "5")
    assert get_env_rank_and_size() == (3, 5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("params: {cycle_time_ms: 1", "config.yaml:1:26: not YAML: expected ',' or '}'"),
        ("- 3", "config.yaml: sections are expected (controller, logging, params, "),
        ("params: 3", "config.yaml: params is a section of fusion_threshold_mb, "),
        ("params: \x19", "config.yaml: not YAML: unacceptable character"),
        ("timeline: {filename: !!int ''}", "config.yaml: not YAML: string index out of range"),
        ("timeline: {filename: 2026-13-45}", "config.yaml: not YAML: month must be in 1..12"),
        ("[" * 10_000, "config.yaml: not YAML: maximum recursion depth exceeded"),
        ("params: {fusion_threshold_mb: much}", "fusion_threshold_mb='much' must be a number"),
        ("params: {fusion_threshold_mb: .inf}", "fusion_threshold_mb=inf must be a number"),
        ("timeline: {filename: [a, b]}", "timeline_filename=['a', 'b'] must be one value"),
        ('timeline: {filename: "a\\0"}', "timeline_filename='a\\x00' must be one value"),
    ],
)
def test_a_wrong_config_file_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as exit_info:
        run_commandline(["-np", "2", "--config-file", str(file), "train"])
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_names_without_a_meaning_are_told_and_end_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("parameters: {}\nparams: {cycle_time: 3}\nlogging: {level: INFO}")
    assert parse_args(["-np", "2", "--config-file", str(file), "train"]).log_level == "INFO"
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("the section parameters has no meaning; did you mean params?")
    assert second.endswith("cycle_time in params has no meaning; did you mean cycle_time_ms?")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("roda-info", ["--nosuch"], "--nosuch"),
        ("roda-info", ["--explain", "allreduce", "4X"], "no size: 4X (bytes, with K, M, G or T after them"),
        ("roda-info", ["--explain", "scan", "4K"], "no collective: scan (one of allreduce, allgather"),
        ("roda-sim", ["--nosuch"], "--nosuch"),
        ("roda-sim", ["-s", "4X"], "no size: 4X"),
        ("roda-perf", ["-n", "0"], "is no number from 1 to 1024"),
        ("roda-perf", ["-d", "float9"], "no dtype: float9"),
        ("roda-perf", ["-a", "nosuch"], "no chosen collective has an algorithm nosuch"),
        ("roda-conformance", ["--nosuch"], "--nosuch"),
        ("roda-conformance", ["--ranks", "2"], "--plugin is required"),
        ("roda-conformance", ["--plugin", "tcp", "--ranks", "65"], "is no number from 1 to 64"),
        ("roda-config", ["--libs"], "roda-config: unrecognized arguments: --libs"),
        ("roda-config", [], "roda-config: --cflags or --plugindir is missing"),
    ],
)
def test_tools_end_with_two_for_wrong_usage(tool: str, arguments: list[str], told: str) -> None:
    program = shutil.which(tool)
    if program is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr + done.stdout
    helped = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert helped.returncode == 0
    assert helped.stdout
