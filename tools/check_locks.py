#!/usr/bin/env python3
"""Has Clang check what locks guard (plugins/base/mutex.h), in every source that includes such a lock.

usage: check_locks.py BUILD_FOLDER [--jobs N]

The folder's sources must be compiled: its dependencies say which of them include a lock. Nothing is compiled here.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "plugins/base/mutex.h"
CLANG = "clang++-16"
# Of how a source is compiled: what decides what it says.
KEPT = re.compile(r"-[IDU].+|-std=.+|-isystem.*")
CHECK = [CLANG, "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
# The check must find this.
WRONG = f"""
#include "{HEADER}"
roda::Mutex mutex;
int guarded RODA_GUARDED_BY(mutex) = 0;
int read_without() {{ return guarded; }}
"""


def sources_with_locks(folder):
    """Return the product's sources, each with its compile command, that include a lock."""
    deps = subprocess.run(["ninja", "-C", folder, "-t", "deps"], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    with_locks = {block.split(":", 1)[0] for block in deps.split("\n\n") if HEADER in block}
    commands = json.loads((folder / "compile_commands.json").read_text())
    return {command["file"]: command for command in commands
            if command["output"] in with_locks and "tests/" not in command["file"]}


def kept(command):
    """Return those of a compile command's arguments that the check takes over."""
    args = shlex.split(command["command"])
    return [arg for before, arg in zip(args, args[1:]) if KEPT.fullmatch(arg) or before == "-isystem"]


def compile_headers(command, folder):
    """Compile for Clang what the compiler of the product has compiled, too: headers that most sources include."""
    compiled = folder / "product.pch"
    subprocess.run([CLANG, *kept(command), "-x", "c++-header", ROOT / "headers/compiled/product.h", "-o", compiled],  # noqa: S603
                   cwd=command["directory"], check=True)
    return compiled


def check(command, headers):
    """Return what Clang says of one source; an empty text when it is right."""
    done = subprocess.run([*CHECK, *kept(command), "-include-pch", headers, command["file"]], cwd=command["directory"],  # noqa: S603
                          capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def is_blind():
    """Tell whether the check lets something wrong pass."""
    line = [*CHECK, "-std=c++20", f"-I{ROOT}", "-x", "c++", "-"]
    done = subprocess.run(line, input=WRONG, capture_output=True, text=True, check=False)  # noqa: S603
    return "requires holding mutex" not in done.stderr


def main():
    """Check every source; say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if shutil.which(CLANG) is None:
        print(f"Skipped: {CLANG} is not installed")
        return 0
    if is_blind():
        sys.exit("the check finds nothing wrong in what is wrong")
    found = sources_with_locks(options.folder.resolve())
    if not found:
        sys.exit(f"no source that includes {HEADER} is compiled in {options.folder}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        headers = compile_headers(next(iter(found.values())), Path(folder))
        wrong = [text for text in pool.map(lambda command: check(command, headers), found.values()) if text]
    print("\n".join(wrong), f"{len(found)} sources with locks, {len(wrong)} wrong", sep="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
