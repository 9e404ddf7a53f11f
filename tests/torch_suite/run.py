#!/usr/bin/env python3
"""Runs PyTorch's own tests of torch.distributed over this backend, and over Gloo; prints the difference.

usage: run.py [--np N...] [--name {gloo,roda}...] [--only PATTERN...] [--part] [--whole] [--limit SECONDS]
              [--folder FOLDER] [--junit FILE] [--cuda-as-cpu] [--file FILE]

The tests are those of torch's wheel (torch/testing/_internal/distributed/distributed_test.py), or of a file of its
source, which a distribution's source package has. Ranks are forked from one process that imports everything: half a
second a test. This backend is in Gloo's place, by that name, or has its own. What fails is run over Gloo as well.
FOLDER keeps what each test ended with, by backend, name and number of ranks. The exit status is 1 when a test that
passes over Gloo fails over this backend and does not stand in EXPECTED, or stands there and passes.
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
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

ROOT = Path(__file__).resolve().parents[2]

# What passes over Gloo and not over this backend, by the name that this has there, with the reason.
EXPECTED = {
    ("gloo", "test_ddp_logging_data_cpu"): "DDP's log says roda: torch's C++ looks for Gloo in a group named gloo",
    ("gloo", "GlooProcessGroupWithDispatchedCollectivesTests.test_all_to_all_single"): "strided tensors are taken",
    **{
        ("gloo", f"ProcessGroupGlooWrapperTest.test_{name}"): "torch's wrapper takes groups in C++ alone; DETAIL works"
        for name in ("collective_hang", "collective_shape_mismatch_debug_mode_off", "collectives_op_mismatch")
    },
}

Outcomes = dict[str, tuple[str, str, float]]


class Case(NamedTuple):
    """Ranks, the name by which the tests know this backend, patterns of the tests' names."""

    ranks: int
    name: str
    only: Sequence[str]
    cuda_as_cpu: bool = False

    def __str__(self) -> str:
        return f"np {self.ranks} as {self.name}{', cuda as the CPU' if self.cuda_as_cpu else ''}"


# What runs with every change: a minute and a half, without what torch's tests skip with so few ranks or without a GPU.
PART = [
    Case(
        2,
        "gloo",
        [
            *("test_[Da]*Parallel*", "test_ddp_*", "test_accumulate_*", "test_grads_*", "test_*static_graph*"),
            *("test_*send*", "test_irecv", "test_undefined_*", "test_verify_*"),
            *("!*nccl*", "!*SyncB*", "!*_bn_*", "!*hang*", "!*apply_optim*", "!*mixed*", "!*profiling*", "!*_err"),
            *("!*uneven_inputs*", "!*_stream", "!test_DistributedDataParallel", "!test_ddp_logging*gpu", "!*pickling*"),
            *("!test_ddp_compile*", "!test_ddp_device", "!test_ddp_has*", "!test_ddp_inf*", "!test_ddp_model_*"),
        ],
        cuda_as_cpu=True,
    ),
    Case(
        3,
        "gloo",
        [
            *("test_all_[gr]*", "test_reduce_*", "test_gather*", "test_scatter*", "test_broadcast*", "test_barrier*"),
            *("test_sparse*", "test_batch*gloo*", "!*cuda*", "!*_group*", "!*timeout*", "!*gather_object"),
        ],
    ),
    Case(
        2, "roda", ["test_*ParallelCPU", "test_get_*", "test_all_gather_*", "test_*send_recv", "!*object*", "!*cuda*"]
    ),
]


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


def grant_features(backend: str) -> None:
    """Enter a backend into the lists in which torch's tests look for what a backend can do."""
    from torch.testing._internal.common_distributed import DistTestCases

    for kind in ("gpu", "ddp", "subgroup"):
        DistTestCases.backend_feature[kind].add(backend)
    from torch.testing._internal.distributed import distributed_test as theirs

    theirs.PROFILING_SUPPORTED_BACKENDS.append(backend)
    theirs.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append(backend)


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

        os.register_at_fork(after_in_child=cuda_as_cpu.pretend(*options.np))
    fork_ranks()
    if os.environ["BACKEND"] == "roda":
        grant_features("roda")
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
    outcomes: Outcomes = {}
    for suite in suites:
        for name in unittest.TestLoader().getTestCaseNames(suite):
            title = f"{suite.__name__}.{name}" if options.file else name
            if is_meant(title, options.only):
                has_ranks = hasattr(suite, "_spawn_processes")
                outcomes[title] = (run_test if has_ranks else run_apart)(suite(name), options.limit)
                if outcomes[title][0] != "skipped":
                    print(f"{outcomes[title][2]:6} s  {outcomes[title][0]}  {title}", flush=True)
                options.inside.write_text(json.dumps(outcomes, indent=1))


def is_meant(title: str, patterns: Sequence[str]) -> bool:
    """Tell whether a name fits one of the patterns, and none of those that begin with an exclamation mark."""
    fits = [pattern for pattern in patterns if fnmatch.fnmatch(title, pattern.removeprefix("!"))]
    return bool(fits) and not any(pattern.startswith("!") for pattern in fits)


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


def outcomes_over(engine: str, case: Case, options: argparse.Namespace, only: Sequence[str]) -> Outcomes:
    """Return what the tests that fit one of the patterns ended with over Gloo or over this backend."""
    title = options.file.stem if options.file else "cuda" if case.cuda_as_cpu else "wheel"
    report = options.folder / f"{title}-{engine}-as-{case.name}-np{case.ranks}.json"
    report.write_text("{}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir", "init_dir"):
            (Path(folder) / name).mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        environment |= {"WORLD_SIZE": str(case.ranks), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1"}
        environment |= {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(options.limit), "MASTER_ADDR": "127.0.0.1"}
        environment["BACKEND"] = case.name if engine == "roda" else "gloo"
        if engine == "roda" and case.name == "gloo":
            environment["RODA_REPLACE_GLOO"] = "1"
        print(f"-- over {engine} by the name {environment['BACKEND']}, {case.ranks} ranks", flush=True)
        with report.with_suffix(".log").open("w") as stderr:
            inside = ["--inside", str(report), "--only", *only, "--np", str(case.ranks), "--limit", str(options.limit)]
            inside += ["--file", str(options.file)] if options.file else []
            inside += ["--cuda-as-cpu"] if case.cuda_as_cpu else []
            command = [sys.executable, __file__, *inside]
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stderr=stderr, check=True)  # noqa: S603
    return json.loads(report.read_text())


# --- both ---


def judge(case: Case, options: argparse.Namespace) -> tuple[int, dict[str, str]]:
    """Run one case and print the difference; return how many tests passed over ours, and the others' texts by name."""
    ours = outcomes_over("roda", case, options, case.only)
    passed = {name for name, (outcome, *_) in ours.items() if outcome == "passed"}
    # By its own name this backend is none of those that torch's tests ask for: what they skip is no fault of its.
    odd = ("failed", "skipped") if options.whole and case.name == "gloo" else ("failed",)
    left = [name for name, (outcome, *_) in ours.items() if outcome in odd]
    unknown = case.only if options.whole else [name for name in left if (case.name, name) not in EXPECTED]
    theirs = outcomes_over("gloo", case, options, unknown) if unknown else {}
    for engine, outcomes in (("gloo", theirs), ("roda", ours)) if theirs else (("roda", ours),):
        counts = [sum(outcome == kind for outcome, *_ in outcomes.values()) for kind in ("passed", "failed", "skipped")]
        print(f"{engine} {case}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    alone = {name: ours[name][1] for name in left if name not in theirs or theirs[name][0] == "passed"}
    print(f"{case}: passes over Gloo alone: {len(alone)}")
    for name, text in alone.items():
        last = text.strip().splitlines()[-1] if text.strip() else "no reason given"
        print(f"  {name}: {EXPECTED.get((case.name, name)) or last[:200]}")
    wrong = {name: text for name, text in alone.items() if (case.name, name) not in EXPECTED}
    listed = {name for kind, name in EXPECTED if kind == case.name}
    wrong |= dict.fromkeys(listed & passed, "expected to fail, and passes")
    return len(passed), {f"{name} ({case})": text for name, text in wrong.items()}


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
    parser.add_argument("--np", type=int, nargs="+", default=[2])
    parser.add_argument("--name", nargs="+", choices=["gloo", "roda"], default=["gloo"], help="what ours is called")
    parser.add_argument("--only", nargs="+", default=["*"], help="names that fit one of these patterns")
    parser.add_argument("--part", action="store_true", help="what is run with every change, instead")
    parser.add_argument("--whole", action="store_true", help="over Gloo, too, not only what fails over ours")
    parser.add_argument("--limit", type=int, default=60, help="for each test, in seconds")
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
    cases = [Case(np, name, options.only, options.cuda_as_cpu) for np in options.np for name in options.name]
    count, wrong = 0, {}
    for case in PART if options.part else cases:
        passed, texts = judge(case, options)
        count, wrong = count + passed, wrong | texts
    if options.junit:
        write_junit(options.junit, wrong, count)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
