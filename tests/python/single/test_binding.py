"""``horovod.common`` is all that a binding needs: it imports no framework, and NumPy arrays are one in a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Launch

FOLDER = Path(__file__).resolve().parents[1] / "binding"

EVERY_MODULE = """
import importlib, pkgutil, sys
for framework in ("torch", "tensorflow", "jax", "mxnet"):
    sys.modules[framework] = None
import horovod.common
names = [module.name for module in pkgutil.iter_modules(horovod.common.__path__)]
assert "operations" in names
for name in names:
    importlib.import_module(f"horovod.common.{name}")
"""


def test_what_all_bindings_share_imports_no_framework() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_MODULE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ranks", [1, 3])
def test_arrays_are_bound_in_a_page(horovodrun: Launch, ranks: int) -> None:
    assert len((FOLDER / "arrays.py").read_text().splitlines()) <= 110
    done = horovodrun("-np", str(ranks), sys.executable, str(FOLDER / "job.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"of {ranks} is done") == ranks
