"""The source distribution: it builds without a network, and says in one line what it lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 1800


def has_namespaces() -> bool:
    return subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    shutil.which("unshare") is None or not has_namespaces(), reason="no namespaces can be made here"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was committed, packed by the build's backend and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    code = "import mesonpy, sys; print(mesonpy.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(folder / done.stdout.splitlines()[-1]) as archive:
        archive.extractall(folder)  # noqa: S202 (made by this project)
    return next(path for path in folder.iterdir() if path.is_dir())


def set_up(source: Path, folder: Path, *hidden: str) -> subprocess.CompletedProcess[str]:
    """Configure a build on a machine where some folders are empty."""
    mounts = "".join(f"mount -t tmpfs tmpfs {path} && " for path in hidden)
    command = ["unshare", "-mn", "sh", "-c", f'{mounts}exec "$@"', "sh", "meson", "setup", folder, source]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_what_is_missing_is_named_in_one_line(source: Path, tmp_path: Path) -> None:
    done = set_up(source, tmp_path / "build", "/usr/include/nlohmann", "/usr/include/fmt")
    assert done.returncode != 0
    (line,) = [line for line in done.stdout.splitlines() if "ERROR" in line]
    assert line.endswith("not found, by the names of Debian's packages: libfmt-dev nlohmann-json3-dev")


def test_an_optional_library_leaves_its_transport_out(source: Path, tmp_path: Path) -> None:
    done = set_up(source, tmp_path / "build", "/usr/include/gloo", "/usr/include/infiniband", "/usr/include/CLI")
    assert done.returncode == 0, done.stdout
    summary = {line.split(":")[0].strip(): line for line in done.stdout.splitlines() if ": no: " in line}
    assert "(Debian: libgloo-dev)" in summary["gloo"]
    assert "(Debian: libibverbs-dev)" in summary["verbs"]


def test_it_installs_without_a_network(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--target", str(tmp_path / "site"), "--config-settings=compile-args=-j1", str(source)]
    done = subprocess.run(["unshare", "-n", *command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    info = tmp_path / "site" / "horovod" / "bin" / "roda-info"
    printed = subprocess.check_output([info, "--plugins"], text=True, env={**os.environ, "HOROVOD_PLUGIN_PATH": ""})
    assert "shm" in printed
