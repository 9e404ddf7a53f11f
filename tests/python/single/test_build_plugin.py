"""``roda-build-plugin``: plugins against what this machine has, and two ranks over each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import horovod
import pytest
from horovod import build_plugin

PERF = str(Path(horovod.__file__).parent / "bin" / "roda-perf")
INFO = str(Path(horovod.__file__).parent / "bin" / "roda-info")
TINY = ["-c", "allreduce", "-s", "64K", "--iterations", "3", "--json"]

pytestmark = pytest.mark.skipif(
    shutil.which("c++") is None or not build_plugin.SOURCE.is_dir(), reason="no compiler, or no sources in the package"
)


def build(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from horovod import build_plugin; sys.exit(build_plugin.main())"
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, env=environment, cwd=sys.prefix, capture_output=True, text=True, timeout=300, check=False
    )


# Compiled once on a machine where there is ccache, whatever folder the package lies in.
CACHED = {
    "PATH": f"/usr/lib/ccache:{os.environ['PATH']}",
    "CCACHE_BASEDIR": sys.prefix,
    "CCACHE_NOHASHDIR": "1",
}


def built(folder: Path, name: str, **variables: str) -> Path:
    """Build a plugin into a user's folder, and return its path."""
    done = build(name, XDG_DATA_HOME=str(folder), CXXFLAGS="-O0", **CACHED, **variables)  # half the time
    assert done.returncode == 0, done.stdout + done.stderr
    plugin = folder / "roda" / "plugins" / f"roda_{name}.so"
    assert str(plugin) in done.stdout
    assert os.listdir(plugin.parent) == [plugin.name]
    return plugin


def used(folder: Path, name: str) -> str:
    """Return the file that a process of this user opens for a transport."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    environment.pop("HOROVOD_PLUGIN_PATH", None)
    records = json.loads(subprocess.check_output([INFO, "--plugins", "--json"], env=environment))["plugins"]["plugins"]
    return next(each["path"] for each in records if each["name"] == name and each["usable"])


def sums_are_right(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"check": "ok"' in done.stdout


@pytest.mark.parametrize(
    ("compiler", "launcher", "options"),
    [
        ("mpicxx.openmpi", "mpirun.openmpi", ["-H", "localhost:2", "-bind-to", "none"]),
        ("mpicxx.mpich", "mpirun.mpich", ["-hosts", "localhost"]),
    ],
)
def test_mpi(tmp_path: Path, compiler: str, launcher: str, options: list[str]) -> None:
    if shutil.which(compiler) is None or shutil.which(launcher) is None:
        pytest.skip(f"no {compiler} or no {launcher}")
    plugin = built(tmp_path, "mpi", MPICXX=compiler)
    assert used(tmp_path, "mpi") == str(plugin)
    sums_are_right([launcher, "-np", "2", *options, PERF, "--launched", "-t", "mpi", *TINY], tmp_path)


@pytest.mark.parametrize(("name", "package"), [("ucx", "ucx"), ("gloo", None)])
def test_others(tmp_path: Path, name: str, package: str | None) -> None:
    if package and subprocess.run(["pkg-config", "--exists", package], check=False).returncode != 0:
        pytest.skip(f"pkg-config knows no {package}")
    if name == "gloo" and build_plugin._compile(["c++"], "#include <gloo/config.h>\n", "-fsyntax-only").status != 0:
        pytest.skip("Gloo's headers are not installed")
    plugin = built(tmp_path, name)
    assert used(tmp_path, name) == str(plugin)
    sums_are_right([PERF, "-n", "2", "-t", name, *TINY], tmp_path)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def refused(*arguments: str, **variables: str) -> str:
    done = build(*arguments, **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("roda-build-plugin: ")
    return line


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "there is no mpicxx in PATH" in refused("mpi", MPICXX="", PATH=str(tmp_path))
    assert "MPICXX" in refused("mpi", MPICXX="/nowhere/mpicxx")
    assert "there is no C++ compiler (/nowhere/g++)" in refused("gloo", CXX="/nowhere/g++")
    assert "there is no pkg-config" in refused("ucx", CXX=shutil.which("c++") or "", PATH=str(tmp_path))
    silent = program(tmp_path / "mpicxx", "echo 'no such option' >&2; exit 1")
    assert "does not tell how it compiles: no such option" in refused("mpi", MPICXX=silent)
    stranger = program(tmp_path / "stranger", f"echo '{shutil.which('c++')} -I{tmp_path}'")
    assert "finds no mpi.h" in refused("mpi", MPICXX=stranger)
    (tmp_path / "mpi.h").write_text("#define LAM_MPI 1\n")
    assert "neither Open MPI's nor of MPICH's family" in refused("mpi", MPICXX=stranger)
    (tmp_path / "mpi.h").write_text("#define OPEN_MPI 1\n")
    program(tmp_path / "stranger", f"echo {shutil.which('c++')} -I{tmp_path}; [ $1 = -show ]")
    assert "can't link a program" in refused("mpi", MPICXX=stranger)


Replace, Captured = pytest.MonkeyPatch, pytest.CaptureFixture[str]


def test_an_old_compiler_and_a_folder_that_is_not_ours(tmp_path: Path, monkeypatch: Replace, capsys: Captured) -> None:
    old = program(tmp_path / "old", "echo 'old: error: unrecognized command-line option -std=c++20' >&2; exit 1")
    source = build_plugin.SOURCE / "transports" / "mpi" / "plugin.cc"
    recipe = build_plugin.Recipe([old], [], [], [source], "a library")
    monkeypatch.setitem(build_plugin._RECIPES, "mpi", lambda: recipe)
    assert build_plugin.main(["mpi", "--output", str(tmp_path / "out")]) == 1
    assert "g++ 10 or clang++ 12 is needed" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "file").write_text("")
    assert build_plugin.main(["mpi", "--output", str(tmp_path / "file" / "below")]) == 1
    assert "below can't be made (Not a directory): name another folder with --output" in capsys.readouterr().err


def test_a_plugin_that_is_not_usable_is_not_installed(tmp_path: Path, monkeypatch: Replace, capsys: Captured) -> None:
    source = tmp_path / "nothing.cc"
    source.write_text("int nothing;\n")
    recipe = build_plugin.Recipe(["c++"], [], [], [source], "nothing")
    monkeypatch.setitem(build_plugin._RECIPES, "mpi", lambda: recipe)
    assert build_plugin.main(["mpi", "--output", str(tmp_path / "out")]) == 1
    assert "no symbol roda_plugin_info" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
