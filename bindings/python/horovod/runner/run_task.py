"""Runs the function of :func:`horovod.run` in a worker: ``python -m horovod.runner.run_task``.

Our agent passes two descriptors in ``_RODA_TASK_FDS``: the pickled call, and where the pickled result goes. Under
mpirun both are files in ``_RODA_TASK_FOLDER``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle

from horovod.common.util import exit_status
from horovod.runner.blame import Raised
from horovod.runner.common.util.env import get_env_rank_and_size


def _open_call() -> tuple[BinaryIO, BinaryIO]:
    folder = os.environ.pop("_RODA_TASK_FOLDER", None)
    if folder is not None:
        rank, _ = get_env_rank_and_size()
        return Path(folder, "call").open("rb"), Path(folder, f"result.{rank}").open("wb")
    call_fd, result_fd = (int(fd) for fd in os.environ.pop("_RODA_TASK_FDS").split(","))
    os.set_inheritable(result_fd, False)
    return os.fdopen(call_fd, "rb"), os.fdopen(result_fd, "wb")


def _pickled(result: Any) -> bytes:
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:  # whatever an object's own way of being pickled raises
        rank, _ = get_env_rank_and_size()
        raise TypeError(
            f"rank {rank} returned {type(result).__module__}.{type(result).__qualname__}, which can't be pickled: "
            f"{error}. Return plain data, such as numbers, lists, dicts, arrays or a state_dict"
        ) from error


def main() -> int:
    """Call the function and hand back its result."""
    call, result_file = _open_call()
    with call:
        function, args, kwargs = cloudpickle.load(call)
    try:
        result = _pickled(function(*args, **kwargs))
    except BaseException as error:
        with contextlib.suppress(Exception):  # stderr is closed, or the error's class can't tell its text
            print(f"User function raise error: {error}", file=sys.stderr, flush=True)
        if not isinstance(error, SystemExit) or exit_status(error.code) != 0:  # else the status tells of no failure
            ends = sys.modules.get("horovod.common.program_end")  # of a function that had to do with other ranks
            with result_file:
                result_file.write(Raised(error, ends is None or ends.victim_of(error) is None).pickled())
        raise
    with result_file:
        result_file.write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
