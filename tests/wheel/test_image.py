"""The Dockerfile, built without a daemon on a bare root file system in place of Docker's image of Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from roots import CERTIFICATES, LIMIT_S, make_root, needs_debootstrap
from test_install import JOB

REPOSITORY = Path(__file__).resolve().parents[2]
BASE, IMAGE = "localhost/python", "localhost/roda"


class Images:
    """Images and containers in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.store = ["--root", folder / "images", "--runroot", folder / "containers", "--storage-driver", "vfs"]

    def buildah(self, *arguments: str | Path) -> str:
        """Runs it; returns what it prints."""
        done = subprocess.run(
            ["buildah", *self.store, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def make_base(self, root: Path) -> None:
        """Make an image with a `pip` and a `python` on its path, as Docker's has."""
        subprocess.run(["chroot", root, "python3", "-m", "venv", "/usr/local/python"], check=True, timeout=LIMIT_S)
        container = self.buildah("from", "scratch")
        self.buildah("add", "-q", container, root, "/")
        path = "PATH=/usr/local/python/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.buildah("config", "--env", path, "--env", f"PIP_CERT={CERTIFICATES}", container)
        self.buildah("commit", "-q", "--rm", container, BASE)


@needs_debootstrap
@pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed")
def test_the_image_runs_jobs(wheel: Path, tmp_path: Path) -> None:
    make_root("bookworm", tmp_path / "root")
    images = Images(tmp_path)
    images.make_base(tmp_path / "root")
    context = tmp_path / "context"
    shutil.copytree(REPOSITORY / "examples", context / "examples")
    (context / "build" / "wheels" / "dist").mkdir(parents=True)
    shutil.copy(wheel, context / "build" / "wheels" / "dist")
    # PyTorch would fetch gigabytes: it is another word in the same line.
    arguments = [f"--build-arg={given}" for given in (f"BASE={BASE}", "EXTRAS=mpi", "PACKAGES=numpy")]
    images.buildah("build", "--isolation", "chroot", *arguments, "-t", IMAGE, "-f", REPOSITORY / "Dockerfile", context)
    (tmp_path / "job.py").write_text(JOB)
    container = images.buildah("from", IMAGE)
    images.buildah("copy", container, tmp_path / "job.py", "job.py")
    run = ["run", "--isolation", "chroot", container, "--"]
    printed = images.buildah(*run, "horovodrun", "-np", "2", "python", "job.py")
    assert "rank 0 of 2" in printed
    assert "rank 1 of 2" in printed
    assert images.buildah(*run, "id", "-un") == "roda"
    assert "pytorch_digits.py" in images.buildah(*run, "ls", "examples")
    assert "shm" in images.buildah(*run, "roda-info", "--doctor")
