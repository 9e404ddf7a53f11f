#!/usr/bin/env python3
"""Trains the demo's model briefly over several transports and checks that the loss curves agree.

The ranks of every run see the same data in the same order, so the curves may differ only by the order of summation.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv/bin"
LOSS = re.compile(r"\bloss[ =:]+([0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)")


def train(transport, ranks, epochs):
    """Return the losses that one run printed."""
    command = [BIN / "horovodrun", "-np", str(ranks), BIN / "python", ROOT / "examples/pytorch_digits.py"]
    environment = os.environ | {"HOROVOD_CPU_OPERATIONS": transport, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 (our own programs)
        [*command, "--epochs", str(epochs)], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the run over {transport} ended with {done.returncode}:\n{done.stdout}")
    return [float(loss) for loss in LOSS.findall(done.stdout)]


def disagreement(curves, tolerance):
    """Say why the curves are not the same; an empty string when they are."""
    (first, wanted), *others = curves.items()
    if len(wanted) < 2 or wanted[-1] >= wanted[0]:
        return f"the losses over {first} do not fall: {wanted}"
    for name, curve in others:
        if len(curve) != len(wanted):
            return f"{first} printed {len(wanted)} losses and {name} {len(curve)}"
        for step, (a, b) in enumerate(zip(wanted, curve)):
            if abs(a - b) > tolerance * max(abs(a), abs(b), 0.1):
                return f"loss {step}: {a} over {first}, {b} over {name}"
    return ""


def main():
    """Train, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transports", default="gloo,shm")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=0.01, help="largest relative difference of two losses")
    parser.add_argument("--junit", type=Path, help="write the outcome as a JUnit report")
    options = parser.parse_args()

    curves, problem = {}, ""
    try:
        for transport in options.transports.split(","):
            curves[transport] = train(transport, options.ranks, options.epochs)
            print(f"{transport:6} {' '.join(f'{loss:.4f}' for loss in curves[transport])}", flush=True)
        problem = disagreement(curves, options.tolerance)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    print(problem or "the curves agree")
    if options.junit:
        failure = f"<failure message={quoteattr(problem)}/>" if problem else ""
        case = f'<testcase classname="demo" name="same loss curve over {options.transports}">{failure}</testcase>'
        options.junit.write_text(f'<testsuite name="curves">{case}</testsuite>\n')
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
