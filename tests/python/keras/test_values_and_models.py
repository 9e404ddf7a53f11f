"""Plain values, models in files, and what the modules export."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from common import BACKEND, LEGACY, assert_same, small_model

FORMATS = ["h5"] if LEGACY else ["keras", "h5"]


def test_plain_values(hvd: ModuleType) -> None:
    rank, size = hvd.rank(), hvd.size()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(hvd.allreduce(rank + 0.5)) == (size - 1) / 2 + 0.5
    assert np.array_equal(hvd.broadcast(np.arange(3) + 10 * rank, root_rank=size - 1), np.arange(3) + 10 * (size - 1))
    rows = hvd.allgather(np.full((rank + 1, 2), rank), name="rows")
    assert np.array_equal(rows[:, 0], np.repeat(np.arange(size), np.arange(1, size + 1)))
    reduced = hvd.reduce(np.arange(3.0) + rank, root_rank=size - 1, op=hvd.Sum)
    if rank == size - 1:
        assert np.array_equal(reduced, size * np.arange(3) + sum(range(size)))
    else:
        assert reduced is None
    part = hvd.reducescatter(np.arange(2.0 * size), op=hvd.Sum)
    assert np.array_equal(part, size * np.arange(2 * rank, 2 * rank + 2))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="of TensorFlow")
def test_tensors_come_back_in_eager_mode(hvd: ModuleType) -> None:
    import tensorflow as tf

    ones = tf.ones([hvd.size()])
    for result in (
        hvd.allreduce(ones), hvd.allgather(ones), hvd.broadcast(ones, 0), hvd.reducescatter(ones), hvd.allreduce(0.5)
    ):  # fmt: skip
        assert tf.is_tensor(result)


def test_reductions_of_values(hvd: ModuleType) -> None:
    values = np.array([1.0, 2.0]) * (hvd.rank() + 1)
    total = np.array([1.0, 2.0]) * sum(range(1, hvd.size() + 1))
    none = {"average": None} if hvd.__name__ == "horovod.keras" else {}
    assert np.allclose(hvd.allreduce(values, "a", op=hvd.Sum, **none), total)
    assert np.allclose(
        hvd.allreduce(values, "b", op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0, **none), 6 * total
    )
    assert np.allclose(hvd.allreduce(values, "c", compression=hvd.Compression.fp16), total / hvd.size())
    with pytest.raises(ValueError, match="The op parameter supersedes average"):
        hvd.allreduce(values, average=True, op=hvd.Sum)


def test_without_average_and_op_values_are_averaged(hvd: ModuleType) -> None:
    assert float(hvd.allreduce(float(hvd.rank()), "neither", average=None)) == (hvd.size() - 1) / 2


def test_signatures_are_horovods(hvd: ModuleType) -> None:
    """Positions and defaults; what Horovod lacks in a module is given there by keyword alone."""

    def stated(function: Any) -> tuple[str, dict[str, Any]]:
        parameters = inspect.signature(function).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        assert defaults.pop("compression") is hvd.Compression.none
        return " ".join(each.name for each in parameters if each.kind != each.KEYWORD_ONLY), defaults

    first = "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op"
    passes = "backward_passes_per_step average_aggregated_gradients"
    of_optimizer = {
        "name": None, "device_dense": "", "device_sparse": "", "sparse_as_dense": False,
        "gradient_predivide_factor": 1.0, "op": hvd.Average, "backward_passes_per_step": 1,
        "average_aggregated_gradients": False, "groups": None, "process_set": hvd.global_process_set,
        "scale_local_gradients": True,
    }  # fmt: skip
    is_tensorflows = hvd.__name__ == "horovod.tensorflow.keras"
    assert stated(hvd.DistributedOptimizer) == (
        f"{first} {passes} num_groups groups process_set scale_local_gradients"
        if is_tensorflows
        else f"{first} num_groups groups",
        of_optimizer | {"num_groups": 0},
    )
    assert stated(hvd.PartialDistributedOptimizer) == (
        f"{first} {passes} groups process_set local_layers scale_local_gradients",
        of_optimizer | {"local_layers": None},
    )
    factors = {"prescale_factor": 1.0, "postscale_factor": 1.0}
    assert stated(hvd.allreduce) == (
        "value name average prescale_factor postscale_factor op compression",
        {"name": None, "average": None if is_tensorflows else True, "op": None, **factors},
    )
    assert stated(hvd.load_model) == (
        "filepath custom_optimizers custom_objects compression legacy_opts",
        {"custom_optimizers": None, "custom_objects": None, "legacy_opts": False},
    )
    with pytest.raises(TypeError, match=r"allreduce\(\): got an unexpected keyword argument 'mean'"):
        hvd.allreduce(1.0, mean=True)
    assert pickle.loads(pickle.dumps(hvd.DistributedOptimizer)) is hvd.DistributedOptimizer  # noqa: S301


def test_global_variables_need_a_session(hvd: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="does not support eager execution"):
        hvd.broadcast_global_variables(0)


def test_exports(hvd: ModuleType) -> None:
    assert hvd.is_initialized()
    assert (hvd.Average, hvd.Sum) == (0, 1)
    assert 0 <= hvd.local_rank() < hvd.local_size() <= hvd.size()
    assert hvd.is_homogeneous()


@pytest.fixture(params=FORMATS)
def saved(hvd: ModuleType, keras: ModuleType, data: SimpleNamespace, tmp_path: Path, request: Any) -> SimpleNamespace:
    """A model that was trained with a distributed optimizer, and every rank's file of it."""
    model, mse = small_model(keras), keras.losses.MeanSquaredError()  # of "mse" Keras 3 makes an h5 file it can't load
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), loss=mse)
    model.fit(data.x, data.y, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = tmp_path / f"model.{request.param}"
    model.save(path)
    return SimpleNamespace(model=model, path=str(path))


def test_a_saved_model_loads_without_horovod(keras: ModuleType, saved: SimpleNamespace) -> None:
    loaded = keras.models.load_model(saved.path)
    assert type(loaded.optimizer) is type(keras.optimizers.Adam())
    assert int(loaded.optimizer.iterations.numpy()) == 1
    for ours, theirs in zip(loaded.get_weights(), saved.model.get_weights()):
        assert np.array_equal(ours, theirs)


@pytest.mark.skipif(BACKEND != "tensorflow" or LEGACY, reason="it imports Keras with its default backend")
def test_in_a_process_that_has_no_horovod(hvd: ModuleType, saved: SimpleNamespace) -> None:
    if hvd.__name__ != "horovod.keras" or saved.path.endswith("h5"):
        pytest.skip("it takes seconds: once is enough")
    program = (
        "import sys; sys.modules['horovod'] = None; import keras; "
        f"print(type(keras.models.load_model({saved.path!r}).optimizer).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    hvd.allreduce(0.0, name="all have seen it")
    assert done.stdout.strip() == "Adam", done.stderr


def test_load_model_wraps_the_optimizer(hvd: ModuleType, data: SimpleNamespace, saved: SimpleNamespace) -> None:
    loaded = hvd.load_model(saved.path)
    assert hasattr(loaded.optimizer, "register_local_var")
    assert int(loaded.optimizer.iterations.numpy()) == 1
    loaded.fit(data.x, data.y, batch_size=8, verbose=0)  # from the same weights on all ranks
    assert_same(hvd, loaded.get_weights(), "weights")
    assert int(loaded.optimizer.iterations.numpy()) == 5


def test_load_model_with_an_optimizer_of_the_users(hvd: ModuleType, keras: ModuleType, tmp_path: Path) -> None:
    class Gentle(keras.optimizers.SGD):
        """Not one of Keras'."""

    model = small_model(keras)
    model.compile(optimizer=hvd.DistributedOptimizer(Gentle(0.5)), loss="mse")
    path = str(tmp_path / f"model.{FORMATS[0]}")
    model.save(path)
    loaded = hvd.load_model(path, custom_optimizers=[Gentle])
    assert isinstance(loaded.optimizer, Gentle)
    assert hasattr(loaded.optimizer, "register_local_var")


def test_load_model_without_an_optimizer(hvd: ModuleType, keras: ModuleType, tmp_path: Path) -> None:
    path = str(tmp_path / f"model.{FORMATS[0]}")
    small_model(keras).save(path)
    assert not getattr(hvd.load_model(path), "optimizer", None)


@pytest.mark.skipif(BACKEND != "tensorflow" or LEGACY, reason="once is enough")
def test_other_backends_are_refused() -> None:
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "openvino"))
    from horovod._keras.backend import framework_of

    with pytest.raises(ImportError, match="of Keras' backend openvino"):
        framework_of(keras)
