"""What ``help()`` says of collectives, for every framework that is installed: each framework's suite runs this file."""

from __future__ import annotations

import copy
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
    modules = {name: getattr(hvd, name).__name__ for name in dir(hvd) if inspect.ismodule(getattr(hvd, name))}
    assert [name for name, module in modules.items() if not module.startswith("horovod.")] == []
    assert not {"annotations", "Any", "interface", "require_framework", "warnings"} & set(dir(hvd))


# Names that Horovod lacks, or has in other modules alone: a program may have its own ones of these.
NOT_STARRED = {
    "torch": {"distributed", "reduce", "reduce_", "reduce_async", "reduce_async_"},
    "jax": {"distributed", "reduce"},
    "tensorflow": {"reduce"},
    "keras": {"reduce"},
    "mxnet": {"reduce"},
}


@pytest.mark.parametrize("binding", ["horovod", *BINDINGS, "horovod.torch.mpi_ops", "horovod.common.util"])
def test_what_a_star_imports(binding: str) -> None:
    """Nothing that hides names of the program, as `reduce` of functools or a module `torch.distributed`."""
    framework = BINDINGS.get(binding, (binding.split(".")[1] if "torch" in binding else "sys", ""))[0]
    if any(find_spec(module) is None for module in {framework, *(["tensorflow"] if "keras" in binding else [])}):
        pytest.skip(f"{framework} is not installed")
    names: dict[str, object] = {}
    exec(f"from {binding} import *", names)  # noqa: S102 (a star is not allowed in functions)
    hvd, hidden = importlib.import_module(binding), NOT_STARRED.get(binding.split(".")[-1], set())
    assert not {"reduce", "distributed", "T", "F"} & set(names)
    if binding in BINDINGS:
        assert set(dir(hvd)) - set(names) == hidden
    if binding == "horovod":
        assert {"run", "roda_version"} <= set(dir(hvd)) & set(names)
        assert {"common", "runner"} <= set(dir(hvd)), "parts that are imported"
        assert not {"Any", "importlib", "conflict"} & set(dir(hvd))


def test_both_modules_of_keras_have_the_same_names() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    both = [importlib.import_module(name) for name in ("horovod.keras", "horovod.tensorflow.keras")]
    assert dir(both[0]) == dir(both[1])
    for name in ("callbacks", "elastic"):
        names = [{each for each in dir(getattr(module, name)) if each[0] != "_"} for module in both]
        assert names[0] == names[1]


def test_reduce_ops_are_numbers_that_print_their_names() -> None:
    """Saved, they are plain numbers: checkpoints are read where there is no Horovod, and by PyTorch `weights_only`."""
    from horovod.common import basics, operations

    for place in (operations, basics, basics.HorovodBasics):
        ops = [getattr(place, name) for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product")]
        assert ops == list(range(6))
        assert json.dumps(ops) == "[0, 1, 2, 3, 4, 5]"
        assert f"{ops}, {ops[0]}" == "[Average, Sum, Adasum, Min, Max, Product], Average"
        assert [type(pickle.loads(pickle.dumps(op))) for op in ops] == [int] * 6  # noqa: S301
        assert copy.deepcopy(ops) == ops


def test_process_sets_print_what_they_are() -> None:
    from horovod.common import process_sets

    made = process_sets.ProcessSet([5, 2, 1, 0])
    assert repr(made) == "<ProcessSet, not registered: ranks 0-2,5>"
    made.process_set_id = 3
    assert repr(made) == "<ProcessSet, id 3: ranks 0-2,5>"
    assert repr(process_sets.ProcessSet([3])) == "<ProcessSet, not registered: rank 3>"
    assert repr(process_sets.global_process_set) == "<ProcessSet, id 0: all ranks>"
