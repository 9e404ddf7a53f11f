"""What ``help()`` says of collectives, for every framework that is installed: each framework's suite runs this file."""

from __future__ import annotations

import importlib
import inspect
import os
from importlib.util import find_spec

import pytest

COLLECTIVES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "reduce")
WITH_ROWS = ("allgather", "alltoall", "reducescatter")
BINDINGS = {  # the framework, and what errors are called there
    "horovod.torch": ("torch", "HorovodInternalError"),
    "horovod.tensorflow": ("tensorflow", "tf.errors.AbortedError"),
    "horovod.tensorflow.keras": ("tensorflow", "tf.errors.AbortedError"),
    "horovod.keras": ("keras", "HorovodInternalError"),
    "horovod.jax": ("jax", "JaxRuntimeError"),
    "horovod.mxnet": ("mxnet", "MXNetError|HorovodInternalError"),
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_help_names_shapes_results_and_errors(binding: str) -> None:
    framework, errors = BINDINGS[binding]
    needed = {framework, os.environ.get("KERAS_BACKEND", "tensorflow")} if framework == "keras" else {framework}
    for module in needed:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    hvd = importlib.import_module(binding)
    untold = []
    for name in filter(lambda name: hasattr(hvd, name), COLLECTIVES):
        text = inspect.getdoc(getattr(hvd, name)) or ""
        parts = ["dimension" if name in WITH_ROWS else "shape", "dtype", "Returns", "Raises", errors, "ValueError"]
        untold += [f"{name}: {part}" for part in parts if not any(each in text for each in part.split("|"))]
    assert untold == []
    public = {name: getattr(hvd, name) for name in dir(hvd) if not name.startswith("_")}
    assert [name for name, each in public.items() if callable(each) and not inspect.getdoc(each)] == []
