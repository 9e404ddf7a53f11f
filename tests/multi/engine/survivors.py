"""Runs a job of mpirun's in which a rank is killed, without mpirun ending the others, and asks how those ended.

    survivors.py COUNT STATUS [--say WORDS] mpirun OPTIONS -np N PROGRAM ARGUMENTS [: -np N PROGRAM ARGUMENTS]

Every PROGRAM is started by a shell that notes its exit status. Ends with 0 when exactly COUNT ranks ended with STATUS
and one was killed; each of them has said the words.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE_SECONDS = 60
NOTE = '"$@"; echo $? >"$RODA_TEST_STATUS/$$"'


def noted(arguments: "list[str]") -> "list[str]":
    """Put the shell in front of every program: what comes after -np and its number."""
    command = []
    for at, argument in enumerate(arguments):
        if at >= 2 and arguments[at - 2] == "-np":
            command += ["sh", "-c", NOTE, "sh"]
        command.append(argument)
    return command


def main() -> int:
    """Run, count, report."""
    count, status = int(sys.argv[1]), int(sys.argv[2])
    words = sys.argv[4] if sys.argv[3] == "--say" else ""
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.run(  # noqa: S603 (what the test names)
            noted(sys.argv[5 if words else 3 :]),
            env={**os.environ, "RODA_TEST_STATUS": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        ends = sorted(int(path.read_text()) for path in Path(folder).iterdir())
    has_said = not words or job.stdout.count(words) == count
    if ends == [status] * count + [128 + signal.SIGKILL] and has_said:
        return 0
    print(f"the ranks ended with {ends}\n{job.stdout}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
