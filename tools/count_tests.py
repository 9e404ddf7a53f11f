#!/usr/bin/env python3
"""Adds up the test reports of one run and prints `N passed, N failed, N skipped` as the last line.

usage: count_tests.py FOLDER [FAILED_STEP ...]

FOLDER holds JUnit XML reports (*.xml, from pytest and Meson) and Meson's own logs (*.json, one object per line).
Meson's JUnit report takes the cases of a GoogleTest binary from that binary's own report, which knows nothing of a
crash after the last case: such a test is taken from the JSON log. Every FAILED_STEP counts as one failure. The exit
status is 1 on any failure.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

MESON_FAILURES = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"}


def outcome(case):
    """Return `passed`, `failed` or `skipped`, or None for a test that is disabled in its source."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("result") == "skipped":
        return "skipped"
    if case.get("status") == "notrun":
        return None
    return "passed"


def count_junit(path):
    """Return the counts of one report, and the names of the failed cases."""
    counts, failed = Counter(), []
    report = ElementTree.parse(path)  # noqa: S314 (written by our own tests)
    for suite in report.getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            result = outcome(case)
            if result:
                counts[result] += 1
            if result == "failed":
                failed.append(f"{suite.get('name')}.{case.get('name')}")
    return counts, failed


def unreported_failures(path, failed):
    """Name the tests that Meson says have failed, without a failed case in its JUnit report."""
    lines = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    names = [test["name"] for test in lines if test["result"] in MESON_FAILURES]
    return [name for name in names if not any(f".{name}." in f".{case}." for case in failed)]


def main():
    """Add up and print."""
    folder, failed_steps = Path(sys.argv[1]), sys.argv[2:]
    total = Counter(failed=len(failed_steps))
    names = [f"step {step}" for step in failed_steps]
    for report in sorted(folder.glob("*.xml")):
        counts, failed = count_junit(report)
        log = report.with_suffix(".json")
        unreported = unreported_failures(log, failed) if log.exists() else []
        counts["failed"] += len(unreported)
        failed += unreported
        print(f"{report.stem:14} {counts['passed']:5} passed {counts['failed']:3} failed {counts['skipped']:3} skipped")
        names += [f"{report.stem} / {name}" for name in failed]
        total += counts
    for name in names:
        print(f"FAILED: {name}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
