"""What type checkers and editors see of the package."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import horovod
import pytest
from horovod import _roda

PROGRAMS = Path(__file__).parents[1] / "typing"
PACKAGE = Path(horovod.__file__).parent


def members(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            found[node.name] = node.body
    return found


def test_the_stub_has_what_the_extension_module_has() -> None:
    described = members(ast.parse((PACKAGE / "_roda.pyi").read_text()).body)
    assert set(described) == {name for name in dir(_roda) if not name.startswith("_")}
    for name in ("Request", "RendezvousServer"):
        attributes = {name for name in dir(getattr(_roda, name)) if not name.startswith("_")}
        assert set(members(described[name])) == attributes


@pytest.mark.skipif(shutil.which("basedpyright") is None, reason="basedpyright is not installed")
@pytest.mark.parametrize("program", ["program.py", "with_tensorflow.py", "with_keras.py", "with_jax.py"])
def test_a_users_program_has_no_type_errors(program: str, tmp_path: Path) -> None:
    """As a strict pyright sees the installed package; of mypy the wheel's tests have the same, for PyTorch."""
    framework = program.removesuffix(".py").removeprefix("with_").replace("program", "torch")
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    settings = {"include": [str(PROGRAMS / program)], "extraPaths": [str(PACKAGE.parent)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["basedpyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors, 0 warnings" in done.stdout
