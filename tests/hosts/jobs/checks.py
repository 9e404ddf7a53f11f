"""What the jobs share: a binding without a framework, telling the test something, and checking results."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "binding"))
import arrays as hvd  # noqa: E402

__all__ = ["hvd", "require", "tell"]


def tell(text: str) -> None:
    """Write a line for the test; launchers may cut and join what ranks print."""
    with open(Path(os.environ["TELL_FOLDER"], f"{os.getpid()}"), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def require(condition: bool, what: str) -> None:
    """End this rank with the reason if something is wrong."""
    if not condition:
        tell(f"WRONG: {what}")
        sys.exit(f"wrong: {what}")
