"""docs/compatibility.md, row by row: each name that it lists is looked up, and called where a job of one can.

Run in the environment of every framework; sections of those that are not there are left out.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text()
# Modules that a section is about, and what they need.
SECTIONS = {
    "Every framework module": "horovod horovod.torch horovod.tensorflow horovod.jax horovod.mxnet "
    "horovod.common.basics horovod.common.exceptions",
    "`horovod.torch`": "horovod.torch horovod.torch.mpi_ops horovod.torch.elastic",
    "`horovod.tensorflow`": "horovod.tensorflow horovod.tensorflow.elastic",
    "`horovod.jax`": "horovod.jax horovod.jax.elastic",
    "`horovod.keras` and `horovod.tensorflow.keras`": "horovod.tensorflow.keras horovod.keras horovod.keras.elastic",
    "`horovod.mxnet`": "horovod.mxnet",
    "`horovod.ray`": "horovod.ray",
    "`horovod.spark`": "horovod.spark horovod.spark.torch horovod.spark.keras horovod.spark.lightning",
    "Modules that other code imports": "horovod",
}
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet", "ray", "lightning")
NEEDS = {**{name: name for name in FRAMEWORKS}, "spark": "pyspark"}
# Other words in the type of code: of frameworks and tools, values, and what is said not to be there.
WORDS = re.findall(
    r"\S+",
    """
    roda.h tf.function tf.data tf.compat.v1 TF_USE_LEGACY_KERAS=1 KERAS_BACKEND RAY_TRAIN_V2_ENABLED=0 mixed_float16 h5
    tf_keras pmap shard_map vmap map_parallelization copy.deepcopy create_graph=True optimizers.legacy run_eagerly
    jit_compile LossScaleOptimizer filepath *Impl iterations gradient_accumulation_steps steps_per_epoch state.batch
    HOROVOD_ HOROVOD_AUTOTUNE _HOROVOD_SECRET_KEY MPI_LIB_CTYPES grouped_ exec_command momentum_correction backend
    adapter driver_service gradient_aggregation_eager HorovodTrainer 0.28.1
    horovod.spark.driver horovod.spark.gloo_run horovod.spark.mpi_run horovod.spark.runner._task_fn
    horovod.spark.common.cache horovod.spark.keras.bare horovod.spark.keras.tensorflow horovod.spark.keras.optimizer
    horovod.spark.torch.util horovod.spark.lightning.util _setup _init_process_sets MPI_LIB _load_library
    MPI_MXNET_LIB_PATH _check_extension_lambda get_keras_optimizer_base_type check_keras_optimizer_type
    prefix_stream forward_stream make_override_action horovod.runner.driver horovod.runner.task _allreduce_grad_async
    """,
)
CALLS: dict[str, Any] = {
    **dict.fromkeys(("allreduce", "allgather", "reducescatter", "allreduce_"), lambda one: (one,)),
    **dict.fromkeys(
        ("grouped_allreduce", "grouped_allgather", "grouped_reducescatter", "grouped_allreduce_"), lambda one: ([one],)
    ),
    **dict.fromkeys(("broadcast", "broadcast_object", "reduce", "reduce_"), lambda one: (one, 0)),
    **dict.fromkeys(("alltoall", "allgather_object"), lambda one: (one,)),
    **dict.fromkeys(
        ("is_initialized", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_homogeneous",
         "mpi_enabled", "gloo_enabled", "mpi_built", "gloo_built", "nccl_built", "ccl_built", "ddl_built", "cuda_built",
         "rocm_built", "get_process_set_ids_and_ranks", "rank_op", "size_op", "local_rank_op", "local_size_op",
         "process_set_included_op"), lambda one: (),
    ),
}  # fmt: skip


def sections() -> Iterator[tuple[str, str]]:
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        yield heading, text


def bullets(text: str) -> Iterator[str]:
    """Return what is listed, each with the bullets' kind where that stands in front of a list."""
    kind = ""
    for line in re.split(r"\n(?=- |\n|\*\*)", text):
        found = re.match(r"\s*(?:- )?\*\*([\w ]+)\*\*", line)
        kind = found[1] if found else kind
        if "Not yet" not in (kind if not found else found[1]):
            yield line


def expanded(token: str) -> list[str]:
    """Return the names that a token with braces stands for."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", token)
    return [f"{found[1]}{part.strip()}{found[3]}" for part in found[2].split(",")] if found else [token]


def look_up(path: str) -> Any:
    """Return what a dotted name stands for; LookupError where there is nothing."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):
                raise
            continue
        try:
            for part in parts[count:]:
                found = getattr(found, part)
        except AttributeError:
            break
        return found
    raise LookupError(path)


def resolve(name: str, places: list[str]) -> tuple[str, Any]:
    """Return the whole name, and what it stands for; LookupError for what none of the places has.

    In place of a name there may be a pattern of names, an argument (``sharded=``), or what a class has.
    """
    name = name.removesuffix(".*")
    for path in [name] if name.startswith("horovod.") else [f"{each}.{name}" for each in places]:
        try:
            return path, look_up(path)
        except LookupError:
            continue
    owners = [look_up(place) for place in places]
    if "horovod.keras" in places or "horovod.tensorflow.keras" in places:
        owners += [look_up("horovod._keras"), look_up("horovod._keras.optimizer")]
    owners += [each for owner in owners for each in vars(owner).values() if inspect.isclass(each)]
    owners.append(optimizer_class())
    pattern = name.rpartition(".")[2]
    for owner in owners:
        if fnmatch.filter(dir(owner), pattern):
            return name, owner
        functions = [each for each in (getattr(owner, key, None) for key in dir(owner)) if callable(each)]
        if any(name.rstrip("=") in parameters_of(each) for each in functions):
            return name, owner
    raise LookupError(name)


def parameters_of(function: Any) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return ()


def optimizer_class() -> type:
    if find_spec("torch") is None:
        return object
    from horovod.torch._distributed_optimizer import DistributedMixin

    return DistributedMixin


def is_there(path: str) -> bool:
    """Tell whether the frameworks of a module are here."""
    return all(find_spec(NEEDS.get(part, "horovod")) is not None for part in path.split(".")[1:])


def tensor_of(path: str) -> Any:
    """Return a tensor for the functions of a module."""
    framework = path.split(".")[1]
    makers = {"torch": "torch", "tensorflow": "tensorflow", "jax": "jax.numpy", "mxnet": "mxnet.ndarray"}
    return importlib.import_module(makers.get(framework, "numpy")).ones([2])


def call(path: str, found: Any) -> bool:
    """Call what a job of one can; tell whether that was possible."""
    module, _, name = path.rpartition(".")
    if name not in CALLS or len(module.split(".")) < 2 or not callable(found):
        return False
    look_up(module).init()
    found(*CALLS[name](tensor_of(path)))
    return True


def places_of(path: str) -> list[str]:
    """Return a module and those around it."""
    parts = path.split(".")
    around = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return [each for each in around if inspect.ismodule(look_up(each))]


LISTED = dict(sections())


@pytest.fixture(autouse=True)
def _without_a_job_behind_it() -> Iterator[None]:
    """End the job of one that calls began: other tests run in this process."""
    yield
    importlib.import_module("horovod.common.life_cycle").shutdown()


def test_every_section_is_known() -> None:
    assert set(LISTED) == {*SECTIONS, "`horovodrun`", "Building", "Faults of the original"}


@pytest.mark.parametrize("heading", SECTIONS)
def test_names_that_a_section_lists(heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    backend = next((name for name in ("tensorflow", "torch", "jax") if find_spec(name)), "tensorflow")
    monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", backend))
    modules = [name for name in SECTIONS[heading].split() if is_there(name)]
    if not modules:
        pytest.skip(f"none of {SECTIONS[heading]} has its framework here")
    unknown, called = [], 0
    for bullet in bullets(LISTED[heading]):
        tokens = [" ".join(token.split()) for token in re.findall(r"`([^`]+)`", bullet) if "/" not in token]
        names = [name for token in tokens for name in expanded(re.sub(r"\(.*\)$", "", token).lstrip("."))]
        names = [re.sub("=.*", "=", name) for name in names if name not in WORDS and is_there(name)]
        places, found = list(modules), {}
        for _ in range(2):  # a name may stand before its module
            for name in names:
                with contextlib.suppress(LookupError):
                    found[name] = resolve(name, places)
                    if found[name][0].startswith("horovod."):
                        places = list(dict.fromkeys([*places_of(found[name][0]), *places]))
        unknown += [name for name in names if name not in found]
        called += sum(call(*each) for each in found.values())
    assert not unknown, f"{heading}: no such names: {unknown}"
    assert called or "Modules" in heading or "spark" in heading or "ray" in heading, heading
