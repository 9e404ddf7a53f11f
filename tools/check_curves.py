#!/usr/bin/env python3
"""Trains the demo's model briefly over several transports and launchers, and checks that the loss curves agree.

The ranks of every run see the same data in the same order, so the curves may differ only by the order of summation.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv/bin"
# On a terminal, which mpirun gives its ranks, every step of an epoch is told; the last one counts.
LOSS = re.compile(r"\bepoch +([0-9]+)/[^\r\n]*\bloss[ =:]+([0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)")
# Each transport once, each launcher.
RUNS = "horovodrun:gloo,horovodrun:shm,horovodrun:tcp,horovodrun:ucx,mpirun:mpi"
# As Horovod's users write it.
MPIRUN_OPTIONS = (
    "-bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH "
    "-mca pml ob1 -mca btl ^openib"
)


def command_line(launcher, ranks):
    """Return what starts the example on so many ranks."""
    if launcher == "mpirun":
        start = ["mpirun", "-np", str(ranks), "-H", f"localhost:{ranks}", *MPIRUN_OPTIONS.split()]
    else:
        start = [BIN / "horovodrun", "-np", str(ranks)]
    return [*start, BIN / "python", ROOT / "examples/pytorch_digits.py"]


def usable_transports():
    """Return the names of the transports that can be used here."""
    done = subprocess.run([BIN / "roda-info", "--plugins", "--json"], capture_output=True, text=True, check=True)  # noqa: S603
    return {plugin["name"] for plugin in json.loads(done.stdout)["plugins"]["plugins"] if plugin["usable"]}


def train(run, ranks, epochs):
    """Return the losses that one run, LAUNCHER:TRANSPORT, printed, one for each epoch."""
    launcher, transport = run.split(":")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = os.environ | allowed | {"HOROVOD_CPU_OPERATIONS": transport, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 (our own programs)
        [*command_line(launcher, ranks), "--epochs", str(epochs)], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{run} ended with {done.returncode}:\n{done.stdout}")
    return list({epoch: float(loss) for epoch, loss in LOSS.findall(done.stdout)}.values())


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
    parser.add_argument("--runs", default=RUNS, help="LAUNCHER:TRANSPORT, separated by commas; default: %(default)s")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=0.01, help="largest relative difference of two losses")
    parser.add_argument("--junit", type=Path, help="write the outcome as a JUnit report")
    options = parser.parse_args()

    curves, problem = {}, ""
    try:
        usable = usable_transports()
        for run in options.runs.split(","):
            launcher, transport = run.split(":")
            if transport not in usable or (launcher == "mpirun" and shutil.which("mpirun") is None):
                print(f"{run:16} left out: not usable here", flush=True)
                continue
            curves[run] = train(run, options.ranks, options.epochs)
            print(f"{run:16} {' '.join(f'{loss:.4f}' for loss in curves[run])}", flush=True)
        problem = disagreement(curves, options.tolerance)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    print(problem or "the curves agree")
    if options.junit:
        name = f"same loss curve over {', '.join(curves)}"
        failure = f"<failure message={quoteattr(problem)}/>" if problem else ""
        case = f'<testcase classname="demo" name={quoteattr(name)}>{failure}</testcase>'
        options.junit.write_text(f'<testsuite name="curves">{case}</testsuite>\n')
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
