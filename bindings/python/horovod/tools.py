"""Console scripts that replace themselves by the programs inside the package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from horovod.command_line import tool
from horovod.places import PACKAGE, headers_folder
from horovod.version import roda_version


def _execute(name: str) -> NoReturn:
    program = PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name} was not built into this installation.")
    os.execv(program, [name, *sys.argv[1:]])  # noqa: S606 (our own program, the user's arguments)


def build_plugin() -> NoReturn:
    """Run ``roda-build-plugin``."""
    from horovod import build_plugin as builder

    sys.exit(builder.main())


@tool
def config() -> None:
    """Prints compiler flags for plugins: --cflags finds the headers, --plugindir names the folder of plugins."""
    usage = "usage: roda-config --cflags | --plugindir | --version"
    if sys.argv[1:] == ["--cflags"]:
        headers = headers_folder()
        print(f"-I{headers}" if headers else "")
    elif sys.argv[1:] == ["--plugindir"]:
        print(PACKAGE / "lib" / "roda" / "plugins")
    elif sys.argv[1:] == ["--version"]:
        print(f"Roda {roda_version}")
    elif sys.argv[1:] in (["-h"], ["--help"]):
        print(f"{usage}\n{config.__doc__}")
    else:
        print(usage, file=sys.stderr)
        sys.exit(2)


def conformance() -> NoReturn:
    """Run ``roda-conformance``."""
    _execute("roda-conformance")


def doctor() -> NoReturn:
    """Run ``roda-doctor``."""
    from horovod.observe import doctor as tool

    sys.exit(tool.main())


def info() -> NoReturn:
    """Run ``roda-info``; with ``--doctor``, the doctor."""
    if "--doctor" in sys.argv[1:]:
        from horovod import doctor

        sys.exit(doctor.main([argument for argument in sys.argv[1:] if argument != "--doctor"]))
    _execute("roda-info")


def perf() -> NoReturn:
    """Run ``roda-perf``."""
    _execute("roda-perf")


def sim() -> NoReturn:
    """Run ``roda-sim``."""
    _execute("roda-sim")


def top() -> NoReturn:
    """Run ``roda-top``."""
    from horovod.observe import top as tool

    sys.exit(tool.main())


def trace() -> NoReturn:
    """Run ``roda-trace``."""
    from horovod.observe import trace as tool

    sys.exit(tool.main())
