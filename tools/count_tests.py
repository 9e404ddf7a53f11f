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

# What is told of a failure besides its name: so many of its last lines, each so long. Often the end of the output is
# all that is kept of a run, and a seed that was drawn there is found nowhere else.
TOLD_LINES, TOLD_CHARACTERS = 4, 160


def outcome(case):
    """Return `passed`, `failed` or `skipped`, or None for a test that is disabled in its source."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("result") == "skipped":
        return "skipped"
    if case.get("status") == "notrun":
        return None
    return "passed"


def last_lines(text):
    """Return the end of what a test has printed, as lines to print beneath its name."""
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    return "".join(f"\n  {line[:TOLD_CHARACTERS]}" for line in lines[-TOLD_LINES:])


def words_of(case):
    """Return what a failed case says of itself: why it failed, or else what it printed."""
    texts = [case.find(tag) for tag in ("failure", "error", "system-err", "system-out")]
    texts = [text.text or text.get("message") for text in texts if text is not None]
    return next((text for text in texts if text and text.strip()), "")


def count_junit(path):
    """Return the counts of one report, and the failed cases: their words by name."""
    counts, failed = Counter(), {}
    report = ElementTree.parse(path)  # noqa: S314 (written by our own tests)
    for suite in report.getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            result = outcome(case)
            if result:
                counts[result] += 1
            if result == "failed":
                failed[f"{suite.get('name')}.{case.get('name')}"] = words_of(case)
    return counts, failed


def unreported_failures(path, failed):
    """Return the tests that Meson says have failed, without a failed case in its JUnit report: their words by name."""
    lines = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    tests = {test["name"]: test for test in lines if test["result"] in MESON_FAILURES}
    return {
        name: test.get("stdout", "") + test.get("stderr", "")
        for name, test in tests.items()
        if not any(f".{name}." in f".{case}." for case in failed)
    }


def main():
    """Add up and print."""
    folder, failed_steps = Path(sys.argv[1]), sys.argv[2:]
    total = Counter(failed=len(failed_steps))
    told = [f"step {step}" for step in failed_steps]
    for report in sorted(folder.glob("*.xml")):
        counts, failed = count_junit(report)
        log = report.with_suffix(".json")
        unreported = unreported_failures(log, failed) if log.exists() else {}
        counts["failed"] += len(unreported)
        failed |= unreported
        print(f"{report.stem:14} {counts['passed']:5} passed {counts['failed']:3} failed {counts['skipped']:3} skipped")
        told += [f"{report.stem} / {name}{last_lines(words)}" for name, words in failed.items()]
        total += counts
    for failure in told:
        print(f"FAILED: {failure}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
