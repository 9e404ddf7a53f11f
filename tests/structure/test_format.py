"""What a program can check about the looks of the tree. A checker that isn't installed skips its test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import arrows
import pytest

FOLDERS = ("plugins", "transports", "headers", "algorithms", "core", "bindings", "tools", "tests", "examples")


def find_program(name, version=""):
    """The program, beside this Python or on the path; skips the test when there is none of that version."""
    places = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    for place in places:
        program = shutil.which(name, path=place)
        if program and version in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
            return program
    return pytest.skip(f"{name} {version} is not installed")


def run(*command):
    done = subprocess.run(command, cwd=arrows.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def scripts():
    return arrows.sources("tools", "tests", "examples", suffixes={".sh"}) + [".ci/run"]


def test_cpp_is_formatted():
    # Other versions of clang-format break lines differently.
    run(find_program("clang-format", "version 16."), "--dry-run", "-Werror", *arrows.sources(*FOLDERS))


def test_python_is_clean():
    run(find_program("ruff"), "check", "--no-cache", *FOLDERS)


def test_python_types_are_right():
    """Of the whole package, strictly; a framework's own types are Any, so that none needs to be here."""
    run(find_program("mypy"), "--cache-dir", os.devnull)


def test_headers_say_pragma_once():
    headers = [path for path in arrows.sources(*FOLDERS) if path.endswith((".h", ".hpp"))]
    headers = [path for path in headers if not path.startswith("headers/compiled/")]  # compilers warn of it there
    missing = [path for path in headers if "#pragma once" not in (arrows.ROOT / path).read_text()]
    assert not missing, missing


def test_format_is_called_with_its_namespace():
    # Where a library of C++ has std::format, a call without it that takes a std::string could mean either.
    pattern = re.compile(r"[^\w:.>]format\(\"")
    found = [path for path in arrows.sources(*FOLDERS) if pattern.search((arrows.ROOT / path).read_text())]
    assert not found, found


@pytest.mark.parametrize("script", scripts())
def test_shell_scripts_parse(script):
    run("bash", "-n", script)


def test_shell_scripts_pass_shellcheck():
    run(find_program("shellcheck"), "--external-sources", *scripts())


def test_no_path_of_one_machine():
    pattern = re.compile(r"/(?:root|home/\w+|tmp/venv|work)/")
    files = arrows.sources(*FOLDERS, suffixes={".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".sh", ".build", ".toml"})
    files = [path for path in files if path != "tests/structure/test_format.py"]
    found = [path for path in files if pattern.search((arrows.ROOT / path).read_text())]
    assert not found, found
