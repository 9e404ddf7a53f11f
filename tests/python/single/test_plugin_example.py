"""The example of a plugin, built against the installed package and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "plugin" / "unix.cc"

pytestmark = pytest.mark.skipif(
    shutil.which("c++") is None or shutil.which("roda-config") is None, reason="no compiler, or no installed package"
)


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_it_builds_and_passes_the_kit(tmp_path: Path) -> None:
    flags = run("roda-config", "--cflags").stdout.split()
    options = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", *flags]
    built = run("c++", *options, str(EXAMPLE), "-o", str(tmp_path / "roda_unix.so"))
    assert built.returncode == 0, built.stderr
    kit = run("roda-conformance", "--plugin", "unix", "--ranks", "2", HOROVOD_PLUGIN_PATH=str(tmp_path))
    assert kit.returncode == 0, kit.stdout + kit.stderr


def test_the_plugins_folder_is_there() -> None:
    assert Path(run("roda-config", "--plugindir").stdout.strip()).is_dir()
