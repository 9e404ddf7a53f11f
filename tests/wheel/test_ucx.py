"""The wheel's ucx plugin over PyPI's UCX, where the loader finds none."""

from __future__ import annotations

import sys
from pathlib import Path

from test_install import LOADING_JOB, Environment

NO_LIBRARY = Path(__file__).resolve().parents[1] / "transports" / "ucx" / "no_library"


def test_ucx_of_pypi(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env", Path(sys.executable))
    environment.install(wheel, "libucx-cu12")
    [file] = environment.bin.parent.glob("lib/python*/site-packages/libucx/lib/libucp.so.0")
    program = [environment.bin / "python", "-c", LOADING_JOB, "/libucp"]
    hidden = {"LD_LIBRARY_PATH": str(NO_LIBRARY), "HOROVOD_CPU_OPERATIONS": "ucx"}
    printed = environment.run("horovodrun", "-np", "2", *program, **hidden)
    assert printed.count(f"ranks [0, 1] over {file}\n") == 2, printed
