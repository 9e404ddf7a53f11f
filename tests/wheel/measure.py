#!/usr/bin/env python3
"""Measures what it takes to start: from `pip install` of the wheel to the end of a training on two ranks.

In a fresh virtual environment without a compiler on the path, for each Python that is found here and the oldest and the
newest PyTorch that the registry has for it. Prints a table in Markdown. The registry's share is told in bytes alone:
what is installed is fetched beforehand, so that seconds are this machine's.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path

from conftest import built_wheels
from test_install import HERE, Environment, pythons

OLDEST_TORCH = (1, 13)  # that horovod.torch works with


def torches(environment: Environment) -> list[str]:
    """What pip is asked for: the oldest PyTorch that serves for an environment's Python, and the newest it gives."""
    printed = environment.pip("index", "versions", "torch")
    line = re.search(r"Available versions: (.*)", printed)
    versions = line[1].split(", ") if line else []
    versions = [each for each in versions if tuple(map(int, each.split(".")[:2])) >= OLDEST_TORCH]
    return [f"torch=={versions[-1]}", "torch"] if versions else []


def fetch(environment: Environment, folder: Path, *packages: str | Path) -> int:
    """Packages, with what they depend on, into a folder; returns the bytes."""
    environment.pip("download", "-d", folder, *packages)
    return sum(file.stat().st_size for file in folder.iterdir())


def seconds_of_installing(environment: Environment, folder: Path, *packages: str | Path) -> float:
    started = time.monotonic()
    environment.pip("install", "--no-index", "--find-links", folder, *packages)
    return time.monotonic() - started


def row(python: Path, version: str, asked: str, wheel: Path, folder: Path) -> str:
    environment = Environment(folder / "env", python)
    ours = fetch(environment, folder / "ours", wheel)
    theirs = fetch(environment, folder / "theirs", asked)
    install_ours = seconds_of_installing(environment, folder / "ours", wheel)
    install_theirs = seconds_of_installing(environment, folder / "theirs", asked)
    torch = environment.run("python", "-c", "from importlib.metadata import version; print(version('torch'))").strip()
    started = time.monotonic()
    printed = environment.run("horovodrun", "-np", "2", environment.bin / "python", HERE / "train.py")
    training = time.monotonic() - started
    assert printed.count(f" of 2 learned with torch {torch}") == 2, printed
    everything = install_ours + install_theirs + training
    return (
        f"| {version} | {ours / 1e6:.1f} MB | {install_ours:.1f} s | {torch} | {theirs / 1e9:.2f} GB | "
        f"{install_theirs:.0f} s | {training:.1f} s | {everything:.0f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, nargs="?", help="by default the one that tools/build_wheels.sh made")
    parser.add_argument("--python", action="append", metavar="X.Y", help="only this one; may be given again")
    options = parser.parse_args()
    built = built_wheels()
    if options.wheel is None and not built:
        parser.error("there is no wheel: tools/build_wheels.sh makes it")
    wheel = (options.wheel or built[-1]).resolve()
    print("| Python | the wheel and what it needs | installed in | torch | with what it needs | installed in | "
          "2 ranks train | all |\n|---|---|---|---|---|---|---|---|", flush=True)  # fmt: skip
    for number, python in sorted(pythons().items()):
        version = "{}.{}".format(*number)
        if options.python and version not in options.python:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = torches(Environment(Path(folder), python))
        for asked in found:
            with tempfile.TemporaryDirectory() as folder:
                print(row(python, version, asked, wheel, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
