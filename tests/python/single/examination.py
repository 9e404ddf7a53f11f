"""Runs the doctor, and makes programs for it to find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from horovod.doctor.finding import Finding

DOCTOR = [sys.executable, "-m", "horovod.doctor"]
QUICK = [*DOCTOR, "--no-self-test"]


def examine(*arguments: str, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor from a shell, after the line `before`."""
    line = f'{before}\nexec "$@"'
    return subprocess.run(
        ["sh", "-c", line, "sh", *arguments],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def findings(*arguments: str, **options: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """Return the doctor's status and what it found, by section and name."""
    done = examine(*arguments, "--json", **options)
    assert done.stdout, done.stderr
    return done.returncode, {(each["section"], each["name"]): each for each in json.loads(done.stdout)["findings"]}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def program(path: Path, text: str) -> Path:
    write(path, f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def find(found: Iterator[Finding] | list[Finding], name: str) -> Finding:
    return next(each for each in found if each.name == name)
