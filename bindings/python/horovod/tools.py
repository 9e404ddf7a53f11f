"""Console scripts that replace themselves by the programs inside the package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from horovod.command_line import Parser, tool
from horovod.places import PACKAGE, headers_folder
from horovod.version import add_version


def _execute(name: str) -> NoReturn:
    program = PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name} was not built into this installation.")
    os.execv(program, [name, *sys.argv[1:]])  # noqa: S606 (our own program, the user's arguments)


def build_plugin() -> NoReturn:
    """Run ``roda-build-plugin``."""
    from horovod import build_plugin as builder

    sys.exit(builder.main())


def config_parser() -> Parser:
    """Return the parser of ``roda-config``."""
    parser = Parser(
        prog="roda-config",
        usage="roda-config --cflags | --plugindir",
        examples=[
            ("c++ -std=c++20 -shared -fPIC $(roda-config --cflags) my.cc -o my.so", "compile a plugin"),
            ("ls $(roda-config --plugindir)", "list the plugins that came with the package"),
            ("roda-config --version", "print Roda's version"),
        ],
        description="Print what the build of a plugin needs to know.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cflags", action="store_true", help="the compiler's flags, which find the headers")
    what.add_argument("--plugindir", action="store_true", help="the folder of the plugins that are installed")
    add_version(parser)
    return parser


@tool
def config() -> None:
    """Print compiler flags for plugins."""
    parser = config_parser()
    options = parser.parse_args()
    if options.plugindir:
        print(PACKAGE / "lib" / "roda" / "plugins")
    elif options.cflags:
        headers = headers_folder()
        print(f"-I{headers}" if headers else "")
    else:
        parser.error("--cflags or --plugindir is missing")


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
