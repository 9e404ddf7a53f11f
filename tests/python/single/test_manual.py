"""Manual pages and completion for shells, made anew of what the installed programs print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest

MAKE = Path(__file__).parents[3] / "tools" / "manual" / "make.py"
INSTALLED = shutil.which("roda-info") is not None
ENTRIES = metadata.distribution("roda-horovod").entry_points if INSTALLED else []
PROGRAMS = [entry.name for entry in ENTRIES if entry.group == "console_scripts"]

pytestmark = pytest.mark.skipif(not INSTALLED, reason="the package's commands are not on the PATH")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    for name in PROGRAMS:
        subprocess.run([sys.executable, MAKE, folder, "1.2.3", name, name], check=True, timeout=60)
    return folder


# As zsh's compgen does when it calls a function.
IN_ZSH = "autoload -Uz compinit bashcompinit; compinit -D; bashcompinit; . {}; emulate sh; setopt kshglob noshglob; "


def completed(made: Path, *words: str, shell: str = "bash") -> set[str]:
    """Return what a shell offers for the last of the words."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (IN_ZSH if shell == "zsh" else ". {}; ").format(made / words[0])
    script += f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
    script += f'_{words[0].replace("-", "_")}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {word for word in done.stdout.split() if word.startswith(words[-1])}  # zsh does that later


def test_pages_name_every_option_and_nothing_of_this_machine(made: Path) -> None:
    for name in PROGRAMS:
        page = (made / f"{name}.1").read_text().replace("\\-", "-").replace("\\&", "")
        assert page.startswith(f'.TH {name.upper()} 1 "" "Roda 1.2.3"\n.SH NAME\n{name} - ')
        printed = subprocess.check_output([name, "--help"], text=True)
        assert "\n.SH OPTIONS\n" in page
        options = set(re.findall(r"^  (-.*?)(?:  |$)", printed, re.MULTILINE))
        assert all(option.split()[0].split(",")[0] in page for option in options)
        assert str(Path.home()) not in page
    assert r"\fB\-np N, \-\-num\-proc N\fR" + "\nnumber of processes, or auto" in (made / "horovodrun.1").read_text()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaints(made: Path) -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", *(str(made / f"{name}.1") for name in PROGRAMS)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_options_and_their_values(made: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    offered = partial(completed, made, shell=shell)
    assert offered("horovodrun", "--min") == {"--min-np", "--min-num-proc"}
    assert offered("horovodrun", "-np", "2", "--log-level", "W") == {"WARNING"}
    assert offered("horovodrun", "-np", "2", "python", "--min") == set()  # python's own
    assert offered("roda-info", "--memory", "") == {"host", "cuda"}
    assert offered("roda-conformance", "--pl") == {"--plugin"}
    assert offered("roda-build-plugin", "m") == {"mpi"}
    assert offered("roda-config", "--") == {"--cflags", "--help", "--plugindir", "--version"}


@pytest.mark.parametrize(
    "call",
    [
        "from horovod.runner.options import make_parser; make_parser().parse_args()",
        "from horovod.build_plugin import main; main()",
        "from horovod.tools import config; config()",
        "from horovod.observe.doctor import main; main()",
        "from horovod.observe.top import main; main()",
        "from horovod.observe.trace import main; main()",
    ],
)
def test_the_build_asks_for_help_without_any_package(call: str, tmp_path: Path) -> None:
    """As pip's build does, whose environment has no more than what builds."""
    sources = Path(__file__).parents[3] / "bindings" / "python"
    run = [sys.executable, "-S", "-c", call, "--help"]
    done = subprocess.run(
        run, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(sources)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
