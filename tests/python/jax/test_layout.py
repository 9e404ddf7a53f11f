"""What horovod.jax knows of the jaxlib that is installed: the layout of XLA's structs, versions, devices."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import horovod.jax as hvd
import jax
import pytest
from horovod.jax import _collectives, _ffi

HERE = Path(__file__).resolve()
INCLUDE = Path(_ffi.ffi.include_dir())


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.skipif(not _ffi.has_futures(), reason="this jaxlib has no futures to compare with")
def test_of_the_structs() -> None:
    if hvd.rank() != 0:
        return
    has_ordinals = "XLA_FFI_DeviceOrdinal_Get" in (INCLUDE / "xla/ffi/api/c_api.h").read_text()
    command = [
        "g++",
        "-std=c++20",
        "-fsyntax-only",
        *(["-DRODA_HAS_ORDINALS"] if has_ordinals else []),
        f"-I{HERE.parents[3]}",
        f"-I{INCLUDE}",
        str(HERE.parent / "layout.cc"),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_version_is_the_headers() -> None:
    header = (INCLUDE / "xla/ffi/api/c_api.h").read_text()
    major, minor = _ffi.api_version()
    assert re.search(rf"API_MAJOR {major}$", header, re.MULTILINE)
    assert re.search(rf"API_MINOR {minor}$", header, re.MULTILINE)


def test_an_import_after_the_first_computation_warns() -> None:
    if hvd.rank() != 0:
        return
    flag = "jax.config.read('jax_cpu_enable_async_dispatch')"
    program = f"import jax.numpy\njax.numpy.ones(1)\nprint({flag})\nimport horovod.jax\nprint({flag})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    before, after = ended.stdout.split()
    assert after == "False", ended.stderr
    assert ("Import horovod.jax first" in ended.stderr) is (before == "True")  # 0.4.31 has it off


def lowered_for(platform: str, function: Any) -> str:
    """Return the program that a compiler for such devices would get."""
    return jax.jit(function).trace(jax.numpy.ones(1)).lower(lowering_platforms=(platform,)).as_text()


def test_for_a_gpu_it_is_the_same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collectives._roda, "cuda_usable", lambda: True)
    text = lowered_for("cuda", lambda x: hvd.allreduce(x, name="on a gpu"))
    assert _ffi.TARGET in text
    assert "on a gpu" in text
    with pytest.raises(NotImplementedError, match="has no barrier"):
        lowered_for("cuda", lambda x: hvd.barrier(after=x))


def test_other_devices_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collectives._roda, "cuda_usable", lambda: False)
    with pytest.raises(NotImplementedError, match="roda-info says why.*default_device"):
        lowered_for("cuda", lambda x: hvd.allreduce(x))
    with pytest.raises(NotImplementedError, match="GPUs of CUDA only, and this one is for tpu"):
        lowered_for("tpu", lambda x: hvd.allreduce(x))
