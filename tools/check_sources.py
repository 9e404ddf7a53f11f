#!/usr/bin/env python3
"""Has Clang read each source and each header of the product by itself, and check what locks guard.

usage: check_sources.py BUILD_FOLDER [--jobs N]

A source, or a header, that lacks an include compiles where others come before it: in a unity build, with headers that
were compiled beforehand. A header that its own source includes first is read there. What locks guard says
plugins/base/mutex.h. Nothing is compiled here; the folder's generated headers must be there.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLANG = "clang++-16"
# The compiler's options that are kept: those that decide what a source means.
KEPT = re.compile(r"-[IDU].+|-std=.+|-isystem.*")
CHECK = [CLANG, "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
INCLUDE = re.compile(r'^#include *["<](.*?)[">]', re.MULTILINE)
# Headers that nobody includes, tests, and what needs Python's headers, which the package alone is built with.
LEFT_OUT = ("headers/", "tests/", "bindings/python/")
# The check must find both.
WRONG = {
    "requires holding mutex": """
#include "plugins/base/mutex.h"
roda::Mutex mutex;
int guarded RODA_GUARDED_BY(mutex) = 0;
int read_without() { return guarded; }
""",
    "undeclared identifier 'std'": "std::vector<int> numbers;",
}


def kept(command):
    """Return those of a compile command's arguments that the check takes over."""
    args = shlex.split(command["command"])
    return [arg for before, arg in zip(args, args[1:]) if KEPT.fullmatch(arg) or before == "-isystem"]


def sources(folder):
    """Return, of each source of the product that the folder compiles, alone or with others, how it is read."""
    found = {}
    for command in json.loads((folder / "compile_commands.json").read_text()):
        file = Path(command["directory"], command["file"]).resolve()
        is_unity = file.name.endswith(".cpp") and "-unity" in file.name
        for source in map(Path, INCLUDE.findall(file.read_text())) if is_unity else [file]:
            name = os.path.relpath(source, ROOT)
            if source.suffix == ".cc" and not name.startswith((*LEFT_OUT, "build", "..")):
                found[name] = (command["directory"], kept(command))
    return found


def headers(found):
    """Return the same of each header that no source of its own includes first: read as its folder's sources are."""
    listed = subprocess.run(["git", "ls-files", "*.h", "*.hpp"], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603, S607
    alone = {}
    for name in listed.stdout.split():
        source = ROOT / Path(name).with_suffix(".cc")
        first = INCLUDE.search(source.read_text()) if source.exists() else None
        if name.startswith(LEFT_OUT) or (first is not None and first[1] == name):
            continue
        near = max(found, key=lambda known: len(os.path.commonprefix([known, name])))
        if os.path.commonprefix([near, name]):  # else what needs it is not built here
            alone[name] = found[near]
    return alone


def check(name, how):
    """Return what Clang says of one file; an empty text when it is right."""
    directory, flags = how
    done = subprocess.run([*CHECK, *flags, "-x", "c++", ROOT / name], cwd=directory, capture_output=True, text=True,  # noqa: S603
                          check=False)
    return "" if done.returncode == 0 else done.stderr


def is_blind():
    """Tell whether the check lets something wrong pass."""
    line = [*CHECK, "-std=c++20", f"-I{ROOT}", "-x", "c++", "-"]
    said = {part: subprocess.run(line, input=text, capture_output=True, text=True, check=False).stderr  # noqa: S603
            for part, text in WRONG.items()}
    return any(part not in text for part, text in said.items())


def main():
    """Check every file; say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if shutil.which(CLANG) is None:
        print(f"Skipped: {CLANG} is not installed")
        return 0
    if is_blind():
        sys.exit("the check finds nothing wrong in what is wrong")
    found = sources(options.folder.resolve())
    if not found:
        sys.exit(f"no source of the product is compiled in {options.folder}")
    files = {**found, **headers(found)}
    with ThreadPoolExecutor(options.jobs) as pool:
        wrong = [text for text in pool.map(lambda name: check(name, files[name]), files) if text]
    print("\n".join(wrong), f"{len(found)} sources and {len(files) - len(found)} headers, {len(wrong)} wrong", sep="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
