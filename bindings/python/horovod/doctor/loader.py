"""Why the engine can't be loaded on this system, and the line that mends it."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from horovod.conflict import source
from horovod.doctor.finding import pip_line

_TOO_OLD = re.compile(r"(\S+): version `(GLIBC|GLIBCXX|CXXABI)_([\d.]+)' not found")
GLIBC_MEND = "take a system or an image with glibc: docker run … python:3.12-slim   (Debian's; not -alpine)"


def runs_on_musl(root: Path = Path("/")) -> bool:
    """Tell whether this Python's C library is musl."""
    try:
        return "/ld-musl-" in (root / "proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def explain(error: str) -> tuple[str, str]:
    """Return what is wrong and the line that mends it, of what the import of the engine's extension said."""
    if runs_on_musl():
        return "this Python runs on musl, and Roda needs glibc", GLIBC_MEND
    too_old = _TOO_OLD.search(error)
    if too_old is None:
        return error, pip_line(source(), "--force-reinstall --no-deps")
    file, library, version = too_old.groups()
    needs = f"this build of Roda needs glibc {version}, and this system has {platform.libc_ver()[1]}"
    if library != "GLIBC":
        needs = f"this build of Roda needs {library} {version}, and the C++ library here ({file}) is older"
    compiled_here = pip_line(".", "--force-reinstall --no-deps")
    return needs, f"{compiled_here}   (in a clone of Roda: compiles it on this system; or take a newer system or image)"
