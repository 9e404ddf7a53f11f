"""Checks that the core and every plugin export C names of ours alone: nothing of the libraries of C++ inside them.

Usage: exports.py LIBRARY PLUGIN...
"""

import subprocess
import sys


def exports_of(file: str) -> set[str]:
    """Names that other shared objects can see."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def main() -> None:
    for file in sys.argv[1:]:
        names = exports_of(file)
        strangers = {name for name in names if not name.startswith("roda_")}
        assert not strangers, f"{file} exports {sorted(strangers)[:20]}"
        wanted = "roda_init" if file == sys.argv[1] else "roda_plugin_info"
        assert wanted in names, f"{file} does not export {wanted}"


if __name__ == "__main__":
    main()
