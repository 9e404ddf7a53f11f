"""``roda-info --doctor``: one page that says what is usable on this machine, what is not, and the line that mends it.

Also ``python -m horovod.doctor``. Nothing is changed, and no framework is imported into this process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from horovod import conflict


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, without the program's name; by default this process's.

    Returns
    -------
    int
        0: what was asked for is usable. 1: some of it is not. 2: wrong usage.
    """
    try:
        conflict.check()  # installed after Roda, Horovod has put its own horovod/__init__.py over ours
        from horovod.doctor import page
    except ModuleNotFoundError as error:
        print(f"horovod.doctor: a package that Roda needs is not installed: pip install {error.name}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"horovod.doctor: {error}", file=sys.stderr)
        return 1
    return page.main(arguments) or 0
