#!/usr/bin/env python3
"""Runs PyTorch's own test of torch.distributed over Gloo and over this backend in Gloo's place; prints the difference.

usage: run.py [--np N] [--only PATTERN] [--limit SECONDS] [--over {gloo,roda,both}] [--folder FOLDER] [--junit FILE]

The tests are those of torch's wheel (torch/testing/_internal/distributed/distributed_test.py). Ranks are forked from
one process that has imported everything: half a second a test. FOLDER keeps what each test ended with, by backend and
number of ranks. The exit status is 1 when a test that passes over Gloo neither passes over this backend nor stands in
EXPECTED, or stands there and passes.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

ROOT = Path(__file__).resolve().parents[2]

# What passes over Gloo and not over this backend, with the reason.
EXPECTED = {"test_ddp_logging_data_cpu": "DDP's log says roda: in a group named gloo torch's C++ looks for Gloo itself"}


# --- one backend: in a process of its own, which has BACKEND, WORLD_SIZE and the rest in its environment ---


def run_tests(pattern: str, report: Path) -> None:
    """Run the tests that fit `pattern` and write {name: [outcome, text, seconds]}."""
    import torch
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test as theirs

    if os.environ.get("RODA_REPLACE_GLOO"):
        import horovod.torch.distributed  # noqa: F401 (once for all ranks)

    class Suite(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self) -> None:
            started = self.processes
            super().tearDown()
            for process in started:  # a rank that hangs may not hear what ends others
                process.join(2)
                process.kill()
                process.join()

    common_distributed.TIMEOUT_OVERRIDE.clear()
    outcomes: dict[str, tuple[str, str, float]] = {}
    for name in unittest.TestLoader().getTestCaseNames(Suite):
        if not fnmatch.fnmatch(name, pattern):
            continue
        result, begin = unittest.TestResult(), time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()):
            Suite(name).run(result)
        wrong = [text for _, text in (*result.errors, *result.failures)]
        skipped = [reason for _, reason in result.skipped]
        outcome = "failed" if wrong else "skipped" if skipped else "passed"
        outcomes[name] = outcome, "\n".join(wrong or skipped), round(time.monotonic() - begin, 1)
        if outcome != "skipped":
            print(f"{outcomes[name][2]:6} s  {outcome}  {name}", flush=True)
        report.write_text(json.dumps(outcomes, indent=1))


def outcomes_over(backend: str, options: argparse.Namespace) -> dict[str, tuple[str, str, float]]:
    """Return what the tests ended with over one backend."""
    report = options.folder / f"{backend}-np{options.np}.json"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir", "init_dir"):
            (Path(folder) / name).mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        environment |= {"BACKEND": "gloo", "WORLD_SIZE": str(options.np), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1"}
        environment |= {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(options.limit), "MASTER_ADDR": "127.0.0.1"}
        if backend == "roda":
            environment["RODA_REPLACE_GLOO"] = "1"
        print(f"-- over {backend}, {options.np} ranks", flush=True)
        log = options.folder / f"{backend}-np{options.np}.log"
        with log.open("w") as stderr:
            command = [sys.executable, __file__, "--only", options.only, "--inside", str(report)]
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stderr=stderr, check=True)  # noqa: S603
    return json.loads(report.read_text())


# --- both ---


def write_junit(path: Path, wrong: dict[str, str], passed: int) -> None:
    """Write one case for each test that is not as it should be, and one for all others."""
    cases = f'<testcase name="{passed} as over Gloo"/>' + "".join(
        f"<testcase name={quoteattr(name)}><failure>{escape(text[-3000:])}</failure></testcase>"
        for name, text in wrong.items()
    )
    path.write_text(f'<testsuites><testsuite name="torch-suite">{cases}</testsuite></testsuites>\n')


def main() -> int:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--only", default="*", help="names that fit this pattern")
    parser.add_argument("--limit", type=int, default=60, help="for each test, in seconds")
    parser.add_argument("--over", choices=["gloo", "roda", "both"], default="both")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/torch-suite")
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        run_tests(options.only, options.inside)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    backends = ["gloo", "roda"] if options.over == "both" else [options.over]
    over = {backend: outcomes_over(backend, options) for backend in backends}
    for backend, outcomes in over.items():
        counts = [sum(outcome == kind for outcome, *_ in outcomes.values()) for kind in ("passed", "failed", "skipped")]
        print(f"{backend:5} np {options.np}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    if len(over) < 2:
        return 0
    passed = [name for name, (outcome, *_) in over["gloo"].items() if outcome == "passed"]
    missing = {name: over["roda"][name][1] for name in passed if over["roda"][name][0] != "passed"}
    print("passes over Gloo alone:", len(missing))
    for name, text in missing.items():
        last = text.strip().splitlines()[-1] if text.strip() else "no reason given"
        print(f"  {name}: {EXPECTED.get(name) or last[:200]}")
    wrong = {name: text for name, text in missing.items() if name not in EXPECTED}
    wrong |= dict.fromkeys(EXPECTED.keys() & set(passed) - missing.keys(), "expected to fail, and passes")
    if options.junit:
        write_junit(options.junit, wrong, len(passed) - len(missing))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
