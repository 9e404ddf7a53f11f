"""Runs the function of :func:`horovod.run` in a worker: ``python -m horovod.runner.run_task``.

The agent passes two descriptors in ``_RODA_TASK_FDS``: the pickled call, and where the pickled result goes.
"""

from __future__ import annotations

import os
import sys

import cloudpickle


def main() -> int:
    """Call the function and hand back its result."""
    call_fd, result_fd = (int(fd) for fd in os.environ.pop("_RODA_TASK_FDS").split(","))
    os.set_inheritable(result_fd, False)
    with os.fdopen(call_fd, "rb") as file:
        function, args, kwargs = cloudpickle.load(file)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        print(f"User function raise error: {error}", file=sys.stderr, flush=True)
        raise
    with os.fdopen(result_fd, "wb") as file:
        cloudpickle.dump(result, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
