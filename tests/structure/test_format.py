"""What a program can check about the looks of the tree. A checker that isn't installed skips its test."""

import re
import shutil
import subprocess

import arrows
import pytest

FOLDERS = ("plugins", "transports", "algorithms", "core", "bindings", "tools", "tests", "examples")


def find_program(*names):
    program = next((name for name in names if shutil.which(name)), None)
    return program or pytest.skip(f"none of {', '.join(names)} is installed")


def run(*command):
    done = subprocess.run(command, cwd=arrows.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def scripts():
    return arrows.sources("tools", "tests", "examples", suffixes={".sh"}) + [".ci/run"]


def test_cpp_is_formatted():
    # Other versions of clang-format break lines differently.
    program = find_program("clang-format-16")
    files = arrows.sources(*FOLDERS)
    if files:
        run(program, "--dry-run", "-Werror", *files)


def test_headers_say_pragma_once():
    headers = [path for path in arrows.sources(*FOLDERS) if path.endswith((".h", ".hpp"))]
    missing = [path for path in headers if "#pragma once" not in (arrows.ROOT / path).read_text()]
    assert not missing, missing


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
