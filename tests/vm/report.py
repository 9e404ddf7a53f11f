#!/usr/bin/env python3
"""Writes the JUnit report of a run in the virtual machine.

usage: report.py RESULTS STATUS REPORT.xml

RESULTS holds what guest.sh left: `summary` and one log for each test; STATUS is what run-in-rdma-vm.sh ended with. A
log of the conformance kit or of GoogleTest is reported case by case, any other as one case. Exit status 1 on any
failure.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

NO_MACHINE = 126
KIT = re.compile(r"^(ok  |skip|FAIL)  (\S+)")
GTEST = re.compile(r"^\[\s+(OK|FAILED|SKIPPED)\s*\] ([\w.]+) \(\d+ ms\)")
VERDICTS = {"ok  ": "passed", "OK": "passed", "skip": "skipped", "SKIPPED": "skipped"}
LOG_TAIL = 8000


def cases_of(log):
    """Return (name, verdict) of each case that a log tells of."""
    found = (KIT.match(line) or GTEST.match(line) for line in log.splitlines())
    return [(match.group(2), VERDICTS.get(match.group(1), "failed")) for match in found if match]


def add_case(suite, name, verdict, text=""):
    """Append one case; the text belongs to anything but a pass."""
    case = ElementTree.SubElement(suite, "testcase", name=name, classname=f"vm.{suite.get('name')}")
    if verdict != "passed":
        tag = "skipped" if verdict == "skipped" else "failure"
        ElementTree.SubElement(case, tag, message=text.strip().splitlines()[-1] if text.strip() else "").text = text
    return verdict == "failed"


def add_test(root, name, status, seconds, log):
    """Append one test of guest.sh and return the number of its failed cases."""
    suite = ElementTree.SubElement(root, "testsuite", name=name, time=seconds)
    cases = cases_of(log)
    failures = sum(add_case(suite, case, verdict, log[-LOG_TAIL:]) for case, verdict in cases)
    if not cases or (status != "0" and failures == 0):
        verdict = "passed" if status == "0" else "failed"
        failures += add_case(suite, "whole", verdict, f"{log[-LOG_TAIL:]}\nstatus {status}")
    return failures


def main():
    """Write the report."""
    results, status, report = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    root = ElementTree.Element("testsuites")
    failures = 0
    summary = results / "summary"
    for line in summary.read_text().splitlines() if summary.exists() else []:
        name, ended, seconds = line.split()
        log = (results / f"{name}.log").read_text(errors="replace")
        failures += add_test(root, name, ended, seconds, re.sub(r"[^\t\n\x20-\x7e]", "?", log))
    errors = (results / "errors").read_text(errors="replace") if (results / "errors").exists() else ""
    if status == NO_MACHINE:
        suite = ElementTree.SubElement(root, "testsuite", name="virtual machine")
        add_case(suite, "boots", "skipped", errors)
    elif status != 0 and failures == 0:  # it died, or ran out of time
        suite = ElementTree.SubElement(root, "testsuite", name="virtual machine")
        failures += add_case(suite, "ends well", "failed", f"{errors[-LOG_TAIL:]}\nstatus {status}")
    ElementTree.ElementTree(root).write(report, encoding="unicode", xml_declaration=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
