#!/usr/bin/env python3
"""Runs PyTorch's own test of torch.distributed over Gloo and over this backend in Gloo's place; prints the difference.

usage: run.py [--np N] [--only PATTERN] [--limit SECONDS] [--over {gloo,roda,both}] [--folder FOLDER] [--junit FILE]
              [--cuda-as-cpu] [--file FILE]

The tests are those of torch's wheel (torch/testing/_internal/distributed/distributed_test.py), or of a file of its
source, which a distribution's source package has. Ranks are forked from one process that imports everything: half a
second a test. FOLDER keeps what each test ended with, by backend and number of ranks. The exit status is 1 when a test
that passes over Gloo neither passes over this backend nor stands in EXPECTED, or stands there and passes.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

ROOT = Path(__file__).resolve().parents[2]

# What passes over Gloo and not over this backend, with the reason.
EXPECTED = {
    "test_ddp_logging_data_cpu": "DDP's log says roda: in a group named gloo torch's C++ looks for Gloo itself",
    "GlooProcessGroupWithDispatchedCollectivesTests.test_all_to_all_single": "strided tensors are not refused",
}


# --- one backend: in a process of its own, which has BACKEND, WORLD_SIZE and the rest in its environment ---


def wheels_suite() -> type[unittest.TestCase]:
    """Return the tests of torch's wheel."""
    from torch.testing._internal.distributed import distributed_test as theirs

    class Suite(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()

    return Suite


def suites_of_file(path: Path) -> list[type[unittest.TestCase]]:
    """Return the test classes of a file of torch's source, in whose folder others lie that it imports."""
    sys.path[:0] = [str(path.parent), str(path.parents[1])]
    module = importlib.import_module(path.stem)
    suites = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, unittest.TestCase)]
    return [kind for kind in suites if kind.__module__ == path.stem]


class InGloosPlace:
    """What `ProcessGroupGloo` names, for tests that make groups without `init_process_group`."""

    def __new__(cls, store: Any, rank: int, size: int, options: Any = None) -> Any:  # noqa: D102
        from datetime import timedelta

        from horovod.torch.distributed import create_group

        timeout = getattr(options, "_timeout", options) or timedelta(seconds=60)
        ranks = list(range(size))
        given = {"group_id": "0", "group_rank": rank, "group_size": size, "global_ranks_in_group": ranks}
        return create_group(SimpleNamespace(**given, store=store, timeout=timeout), None)


def fork_ranks() -> None:
    """Have the ranks of each test forked, and killed at its end."""
    import torch
    from torch.testing._internal import common_distributed

    kind: Any = common_distributed.MultiProcessTestCase
    end = kind.tearDown

    def tear_down(self: Any) -> None:
        started = getattr(self, "processes", [])
        end(self)
        for process in started:  # a rank that hangs may not hear what ends others
            process.join(2)
            process.kill()
            process.join()

    kind.tearDown = tear_down
    kind._spawn_processes = lambda self: self._start_processes(torch.multiprocessing.get_context("fork").Process)
    common_distributed.TIMEOUT_OVERRIDE.clear()


def run_tests(options: argparse.Namespace) -> None:
    """Run the tests that fit the pattern and write {name: [outcome, text, seconds]}."""
    if options.cuda_as_cpu:
        import cuda_as_cpu

        os.register_at_fork(after_in_child=cuda_as_cpu.pretend(options.np))
    fork_ranks()
    if os.environ.get("RODA_REPLACE_GLOO"):
        import horovod.torch.distributed  # noqa: F401 (once for all ranks)
        import torch.distributed

        theirs = torch.distributed.ProcessGroupGloo
        for name in ("_Options", "create_device", "create_default_device"):
            setattr(InGloosPlace, name, getattr(theirs, name))
        ours = importlib.import_module("horovod.torch.distributed._process_group").RodaProcessGroup
        ours.create_device = theirs.create_device
        torch.distributed.ProcessGroupGloo = InGloosPlace
        torch.distributed.distributed_c10d.ProcessGroupGloo = InGloosPlace
    suites = suites_of_file(options.file) if options.file else [wheels_suite()]
    outcomes: dict[str, tuple[str, str, float]] = {}
    for suite in suites:
        for name in unittest.TestLoader().getTestCaseNames(suite):
            title = f"{suite.__name__}.{name}" if options.file else name
            if fnmatch.fnmatch(title, options.only):
                has_ranks = hasattr(suite, "_spawn_processes")
                outcomes[title] = (run_test if has_ranks else run_apart)(suite(name), options.limit)
                if outcomes[title][0] != "skipped":
                    print(f"{outcomes[title][2]:6} s  {outcomes[title][0]}  {title}", flush=True)
                options.inside.write_text(json.dumps(outcomes, indent=1))


def run_test(test: unittest.TestCase, limit: int) -> tuple[str, str, float]:
    """Run one test, for so many seconds; return (outcome, text, seconds)."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"the test took more than {limit} s")

    result, begin = unittest.TestResult(), time.monotonic()
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit + 30)
    with contextlib.redirect_stdout(io.StringIO()):
        test.run(result)
    signal.alarm(0)
    wrong = [text for _, text in (*result.errors, *result.failures)]
    skipped = [reason for _, reason in result.skipped]
    outcome = "failed" if wrong else "skipped" if skipped else "passed"
    return outcome, "\n".join(wrong or skipped), round(time.monotonic() - begin, 1)


def run_apart(test: unittest.TestCase, limit: int) -> tuple[str, str, float]:
    """Run a test that has no ranks of its own, in a process of its own: groups that it makes are not left here."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(run_test(test, limit)))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return "failed", "its process died", 0.0
    finally:
        process.kill()
        process.join()


def outcomes_over(backend: str, options: argparse.Namespace) -> dict[str, tuple[str, str, float]]:
    """Return what the tests ended with over one backend."""
    title = options.file.stem if options.file else "cuda" if options.cuda_as_cpu else "wheel"
    report = options.folder / f"{title}-{backend}-np{options.np}.json"
    report.write_text("{}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir", "init_dir"):
            (Path(folder) / name).mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        environment |= {"BACKEND": "gloo", "WORLD_SIZE": str(options.np), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1"}
        environment |= {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(options.limit), "MASTER_ADDR": "127.0.0.1"}
        if backend == "roda":
            environment["RODA_REPLACE_GLOO"] = "1"
        print(f"-- over {backend}, {options.np} ranks", flush=True)
        with report.with_suffix(".log").open("w") as stderr:
            command = [sys.executable, __file__, *sys.argv[1:], "--inside", str(report)]
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
    parser.add_argument(
        "--file", type=Path, help="a file of torch's source, test/distributed/test_c10d_gloo.py for one"
    )
    parser.add_argument("--cuda-as-cpu", action="store_true", help="tests for GPUs run in the host's memory")
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        run_tests(options)
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
    ours = {name: over["roda"].get(name, ("failed", "not run", 0.0)) for name in passed}
    missing = {name: text for name, (outcome, text, _) in ours.items() if outcome != "passed"}
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
