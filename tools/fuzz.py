#!/usr/bin/env python3
"""Runs the fuzz targets (tests/fuzz) side by side, each for a while, and says what was found.

usage: fuzz.py BUILD_FOLDER [--seconds S] [--jobs N] [--junit FILE] [TARGET ...]

What widens the coverage is kept in BUILD_FOLDER/corpus and begun with the next time; inputs that were found to break a
target lie in BUILD_FOLDER/findings. The exit status is 1 when there are any.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = "launcher_inputs"  # in Python, with a loop of its own
EXECUTIONS = re.compile(r"Done ([0-9]+) runs")
COVERAGE = re.compile(r"cov: ([0-9]+)")


def targets(folder):
    """Return the names of the targets that are built, and of the one in Python."""
    built = sorted(path.name.removeprefix("fuzz_") for path in (folder / "tests/fuzz").glob("fuzz_*") if path.is_file())
    return [*built, LAUNCHER]


def command(folder, name, seconds):
    """Return the command line that fuzzes one target."""
    if name == LAUNCHER:
        return [sys.executable, ROOT / f"tests/fuzz/{name}.py", f"--seconds={seconds}"]
    program = folder / f"tests/fuzz/fuzz_{name}"
    places = [folder / kind / name for kind in ("corpus", "seeds")]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    (folder / "findings").mkdir(exist_ok=True)
    subprocess.run([program, f"--seeds={places[1]}"], check=True)  # noqa: S603
    return [program, f"-max_total_time={seconds}", "-max_len=4096", "-timeout=30", "-rss_limit_mb=1024",
            "-malloc_limit_mb=256", f"-artifact_prefix={folder}/findings/{name}-", *places]


def fuzz(folder, name, seconds):
    """Run one target; return its name, a line about the run, and what it said if it found something."""
    done = subprocess.run(command(folder, name, seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,  # noqa: S603
                          text=True, errors="replace", check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"})
    runs, coverage = EXECUTIONS.findall(done.stdout), COVERAGE.findall(done.stdout)
    line = f"{name:16} {runs[-1] if runs else '?':>12} executions, {coverage[-1] if coverage else '?':>6} edges"
    wrong = "" if done.returncode == 0 and runs else f"it ended with {done.returncode}\n{done.stdout[-6000:]}"
    print(line + (": FOUND SOMETHING\n" + wrong if wrong else ""), flush=True)
    return name, line, wrong


def write_junit(path, results):
    """Write the outcome as a report, a case for each target."""
    cases = ""
    for name, line, wrong in results:
        failure = f"<failure message={quoteattr(line)}/>" if wrong else ""
        cases += f"<testcase name={quoteattr(name)}>{failure}</testcase>"
    path.write_text(f'<testsuites><testsuite name="fuzz">{cases}</testsuite></testsuites>\n')


def main():
    """Run all targets, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=10, help="of each target; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--junit", type=Path)
    options = parser.parse_intermixed_args()
    folder = options.folder.resolve()
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: fuzz(folder, name, options.seconds), options.names or targets(folder)))
    if options.junit:
        write_junit(options.junit, results)
    return 1 if any(wrong for _, _, wrong in results) else 0


if __name__ == "__main__":
    sys.exit(main())
