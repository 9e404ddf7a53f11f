"""Another distribution's ``horovod`` in the same folder: its files and ours are then mixed, and neither works."""

from __future__ import annotations

import contextlib
import os

DISTRIBUTION = "roda-horovod"  # ours; `roda` on PyPI is a stranger's


def _has_package(info: str) -> bool:
    """Tell whether a distribution put the package ``horovod`` here, by its list of files."""
    with contextlib.suppress(OSError), open(os.path.join(info, "RECORD"), encoding="utf-8", errors="replace") as record:
        return any(line.startswith("horovod/__init__.py,") for line in record)
    return False


def find_others(folder: str) -> dict[str, str]:
    """Return whose files are mixed with ours in a folder of packages: the metadata's name by the distribution's.

    Horovod itself, and Roda under the name that it had, ``roda``, with the distribution that was then called
    ``horovod`` beside it. Ours of the name ``horovod`` (``packaging/horovod``) has ``roda`` in its version.
    """
    horovod, former = {}, {}
    with contextlib.suppress(OSError):  # a package in an archive is alone there
        for name in sorted(os.listdir(folder)):
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            if name.startswith("horovod-"):
                horovod[name] = "roda" not in name
            elif name.startswith("roda-") and _has_package(os.path.join(folder, name)):
                former["roda"] = name
    others = [name for name, is_stranger in horovod.items() if is_stranger or former]
    return {**({"horovod": others[0]} if others else {}), **former}


def source() -> str:
    """Return what pip installs this package of again, as a shell reads it: what it was given, or the wheel's name."""
    import json
    from importlib import metadata
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    with contextlib.suppress(metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        url = urlsplit(json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "")["url"])
        path = unquote(url.path)
        if url.scheme == "file" and os.path.exists(path):
            return quote(path)
    return f"{DISTRIBUTION.replace('-', '_')}-*.whl"


def check() -> None:
    """Raise ImportError when another ``horovod`` is installed where this is; the text has the line that mends it."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    others = find_others(folder)
    if others:
        what = "Roda under its former name" if "roda" in others else "Horovod"
        path = os.path.join(folder, others.get("roda") or others["horovod"])
        raise ImportError(
            f"{what} is installed beside Roda ({path}), and their files are mixed. To keep Roda: "
            f"pip uninstall -y {' '.join(others)} && pip install --force-reinstall --no-deps {source()}"
        )
