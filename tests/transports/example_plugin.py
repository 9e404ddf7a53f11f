"""Builds an example plugin from the installed headers alone, and runs a command that finds it.

Usage: example_plugin.py BUILD_DIR SOURCE_DIR COMMAND...
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def run(*command: object, **environment: str) -> None:
    """Runs a command; its failure is this script's."""
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, **environment})


def main() -> None:
    build, source = (pathlib.Path(argument) for argument in sys.argv[1:3])
    command = sys.argv[3:]
    meson = os.environ["MESON"].split()
    with tempfile.TemporaryDirectory() as folder:
        root, plugin = pathlib.Path(folder) / "root", pathlib.Path(folder) / "build"
        run(*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--tags", "devel", "--destdir", root)
        (description,) = root.rglob("roda-plugin.pc")
        # pkg-config puts the staging folder in front of the prefix, which may be one it holds for the compiler's own.
        found = {
            "PKG_CONFIG_PATH": str(description.parent),
            "PKG_CONFIG_SYSROOT_DIR": str(root),
            "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
        }
        run(*meson, "setup", plugin, source, "--buildtype=debugoptimized", "-Dwerror=true", **found)
        run(*meson, "compile", "-C", plugin)
        run(*command, HOROVOD_PLUGIN_PATH=str(plugin))


if __name__ == "__main__":
    main()
