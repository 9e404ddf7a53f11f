"""What ``help()`` says of collectives, for every framework that is installed: each framework's suite runs this file."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
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


@pytest.mark.parametrize("binding", BINDINGS)
def test_dir_shows_what_users_call_and_nothing_else(binding: str) -> None:
    needed = {BINDINGS[binding][0], *(["tensorflow"] if "keras" in binding else [])}
    if any(find_spec(module) is None for module in needed):
        pytest.skip(f"{needed} are not installed")
    hvd = importlib.import_module(binding)
    assert {"init", "rank", "size", "allreduce", "DistributedOptimizer"} <= set(dir(hvd))
    assert set(dir(hvd)) - set(hvd.__all__) <= {"reduce"}  # which would hide that of functools
    modules = {name: getattr(hvd, name).__name__ for name in dir(hvd) if inspect.ismodule(getattr(hvd, name))}
    assert [name for name, module in modules.items() if not module.startswith("horovod.")] == []
    assert not {"annotations", "Any", "interface", "require_framework", "warnings"} & set(dir(hvd))


def test_reduce_ops_and_process_sets_print_what_they_are() -> None:
    from horovod.common import operations, process_sets

    assert [repr(each) for each in operations.ReduceOp] == ["Average", "Sum", "Adasum", "Min", "Max", "Product"]
    assert f"{operations.Max}" == str(operations.Max) == "Max"
    assert operations.Sum == 1
    assert {1: "sum"}[operations.Sum] == "sum"
    assert json.dumps(operations.Sum) == "1"
    assert pickle.loads(pickle.dumps(operations.Min)) is operations.Min  # noqa: S301
    made = process_sets.ProcessSet([5, 2, 1, 0])
    assert repr(made) == "<ProcessSet, not registered: ranks 0-2,5>"
    made.process_set_id = 3
    assert repr(made) == "<ProcessSet, id 3: ranks 0-2,5>"
    assert repr(process_sets.global_process_set) == "<ProcessSet, id 0: all ranks>"
