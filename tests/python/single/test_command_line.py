"""What the command lines have in common: help, wrong usage, and an end in silence."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from horovod import build_plugin, command_line, tools
from horovod.doctor import page
from horovod.observe import doctor, top, trace
from horovod.runner import launch, options
from test_from_elsewhere import DUMP
from traces import Job

PARSERS = {
    "horovodrun": options.make_parser,
    "roda-build-plugin": build_plugin._parser,
    "roda-config": tools.config_parser,
    "roda-info --doctor": page._parser,
    "roda-doctor": doctor._parser,
    "roda-top": top._parser,
    "roda-trace": trace._parser,
}


@pytest.mark.parametrize("name", PARSERS)
def test_help_begins_with_a_short_usage_and_examples(name: str) -> None:
    usage, blank, title, *rest = PARSERS[name]().format_help().splitlines()
    assert usage.startswith(f"usage: {name} ")
    assert len(usage) < 80
    assert (blank, title) == ("", "examples:")
    assert all(name in line for line in rest[:3] if "HOROVOD_TIMELINE" not in line)
    assert rest[3] == ""


@pytest.mark.parametrize("name", PARSERS)
def test_wrong_usage_is_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = PARSERS[name]()
    flag = next(each for each in parser._option_string_actions if each.startswith("--") and each != "--help")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([f"{flag}x"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"{name}: unrecognized arguments: {flag}x; did you mean {flag}? (`{name} --help` prints the options)"
    )


NATIVE = {"roda-info": "--json", "roda-perf": "--json", "roda-sim": "--json", "roda-conformance": "--list"}


@pytest.mark.parametrize("name", NATIVE)
def test_the_native_programs_speak_as_the_others_do(name: str) -> None:
    told = subprocess.run([name, "--help"], capture_output=True, text=True, check=True).stdout
    usage, blank, title, *rest = told.splitlines()
    assert (usage, blank, title) == (f"usage: {name} [OPTION]...", "", "examples:")
    assert all(name in line for line in rest[:3])
    assert rest[3] == ""
    assert not re.search("ENUM|TEXT|INT|FLOAT|->|\033", told), "types of C++"
    done = subprocess.run([name, NATIVE[name][:-1] + "x"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"{name}: unrecognized arguments: {NATIVE[name][:-1]}x; did you mean {NATIVE[name]}? "
        f"(`{name} --help` prints the options)\n"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    {
        "roda-perf -n 0": "--ranks: '0' is no number from 1 to 1024",
        "roda-perf -p sideways": "--place: 'sideways' is none of in, out, both",
        "roda-info --memory ssd": "--memory: 'ssd' is none of host, cuda",
        "roda-info --memory": "--memory: a value is missing",
        "roda-info --np 3": "--np requires --explain",
        "roda-info --explain allreduce": "--explain: a value is missing",
        "roda-sim -s 4X": "-s: no size: 4X (bytes, with K, M, G or T after them as in 64K and 1.5MiB)",
    }.items(),
)
def test_values_that_do_not_fit_are_told_as_they_were_typed(line: str, told: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    assert done.stderr == f"{line.split()[0]}: {told} (`{line.split()[0]} --help` prints the options)\n"


def test_one_letter_has_one_meaning() -> None:
    """Of the private key for ssh, as in ssh itself; and no other program has it."""
    meanings = {name: parser()._option_string_actions.get("-i") for name, parser in PARSERS.items()}
    assert {action.dest for action in meanings.values() if action} == {"ssh_identity_file"}
    assert meanings["roda-top"]
    for name in NATIVE:
        told = subprocess.run([name, "--help"], capture_output=True, text=True, check=True).stdout
        assert not re.search(r"^ *-i\b", told, re.MULTILINE), name


@pytest.mark.parametrize(
    ("call", "arguments", "line"),
    [
        (top.main, ["abc"], "roda-top: pid: 'abc' is no whole number (`roda-top --help` prints the options)"),
        (top.main, ["--interval", "x"], "--interval: 'x' is no number (`roda-top --help` prints the options)"),
        (
            top.main,
            ["--interval", "nan"],
            "roda-top: --interval must be above 0, and at most 86400 (a day) (`roda-top --help`",
        ),
        (
            top.main,
            ["--interval", "1e99"],
            "roda-top: --interval must be above 0, and at most 86400 (a day) (`roda-top --help`",
        ),
        (top.main, ["-5"], "roda-top: pid: '-5' is no process id (`roda-top --help`"),
        (top.main, ["--interval"], "roda-top: --interval: a value is missing (`roda-top --help` prints the options)"),
        (build_plugin.main, [], "roda-build-plugin: NAME is missing (`roda-build-plugin --help`"),
        (
            build_plugin.main,
            ["mip"],
            "roda-build-plugin: name: 'mip' is none of gloo, mpi, ucx (`roda-build-plugin --help`",
        ),
        (doctor.main, ["-H", "a", "--here"], "--here: not allowed with -H/--hosts (`roda-doctor --help`"),
        (launch.run_commandline, ["-np2", "t"], "unrecognized arguments: -np2; did you mean -np? (`horovodrun --help`"),
        (
            launch.run_commandline,
            ["-np", "99999999999", "t"],
            "-np/--num-proc: '99999999999' is neither a number of processes nor auto (`horovodrun --help`",
        ),
        (
            launch.run_commandline,
            ["-H", "a:99999999999", "t"],
            "horovodrun: 99999999999 processes are too many: at most 1048576",
        ),
        (trace.main, ["none.json"], "roda-trace: none.json: No such file or directory"),
        (trace.main, ["text.json"], "roda-trace: text.json is no timeline: it is no JSON: Expecting value"),
        (
            trace.main,
            ["x.json", "--perf", "/dev/null"],
            "roda-trace: /dev/null is not what roda-perf --json prints: it has no",
        ),
        (doctor.main, ["none/"], "roda-doctor: none: No such file or directory"),
    ],
)
def test_what_can_not_be_read_is_told_in_words(
    call: Callable[..., int],
    arguments: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.json").write_text("no")
    with pytest.raises(SystemExit) if "--help" in line or "horovodrun" in line else contextlib.nullcontext():
        assert call(arguments) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert line in told


CALLS = {
    "roda-config": "import sys; sys.argv = ['roda-config', '--plugindir']; from horovod.tools import config as main",
    "roda-doctor": "from horovod.observe.doctor import main",
    "roda-trace": "from horovod.observe.trace import main",
    "horovodrun": "from horovod.runner.launch import run_commandline as main",
}


@pytest.mark.parametrize("name", CALLS)
def test_nobody_reads_any_more(name: str, tmp_path: Path) -> None:
    traces = map(str, Job(2, 3).write(tmp_path))
    dump = tmp_path / "dump"
    dump.write_text(json.dumps(DUMP))
    arguments = {
        "roda-doctor": [str(dump)],
        "roda-trace": [*traces, "-o", str(tmp_path / "page")],
        "horovodrun": ["-np", "2", "yes"],
    }
    command = [sys.executable, "-c", f"{CALLS[name]}; raise SystemExit(main())", *arguments.get(name, [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        started.stdout.close()
        assert started.stderr.read() == ""
        assert started.wait(60) == 141


@pytest.mark.parametrize("to", [">/dev/full", ">/dev/full 2>&-", ">&- 2>&-"])
def test_nothing_can_be_printed(to: str, tmp_path: Path) -> None:
    traces = map(str, Job(2, 3).write(tmp_path))
    command = [sys.executable, "-c", f"import sys; {CALLS['roda-trace']}; sys.exit(main())", *traces]
    shell = ["sh", "-c", f'exec "$@" {to}', "sh", *command, "-o", str(tmp_path / "page")]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True)
    assert (tmp_path / "page").exists()
    assert done.stderr == ("-c: No space left on device\n" if to == ">/dev/full" else "")
    assert done.returncode == ("full" in to)


def test_a_terminal_that_is_not_utf_8_gets_what_it_can_show(tmp_path: Path) -> None:
    page = tmp_path / "grün.html"
    (trace_file,) = Job(1, 3).write(tmp_path)
    command = [sys.executable, "-c", f"{CALLS['roda-trace']}; raise SystemExit(main())", str(trace_file)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([*command, "-o", str(page)], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr?n.html" in done.stdout


def test_what_is_no_terminal_is_not_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    assert command_line.paints(terminal)("late", "31") == "late"
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert command_line.paints(terminal)("late", "31") == "\033[31mlate\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert command_line.paints(terminal)("late", "31") == "late"
