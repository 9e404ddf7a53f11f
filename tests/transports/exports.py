"""Checks that the core, frameworks' ops and plugins export C names of ours alone: nothing of the libraries of C++.

Usage: exports.py LIBRARY JAX MXNET TENSORFLOW PLUGIN...
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
    first = ["roda_init", "roda_jax_collective", "roda_mxnet_push", "roda_tensorflow_problem"]
    for place, file in enumerate(sys.argv[1:]):
        names = exports_of(file)
        strangers = {name for name in names if not name.startswith("roda_")}
        assert not strangers, f"{file} exports {sorted(strangers)[:20]}"
        wanted = first[place] if place < len(first) else "roda_plugin_info"
        assert wanted in names, f"{file} does not export {wanted}"


if __name__ == "__main__":
    main()
