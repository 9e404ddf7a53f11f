"""Variables, objects, and the state of elastic jobs."""

from __future__ import annotations

import threading

import horovod.tensorflow as hvd
import pytest
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError


def test_variables_are_broadcast() -> None:
    mine = [tf.Variable([float(hvd.rank())]), tf.Variable(hvd.rank())]
    hvd.broadcast_variables(mine, root_rank=hvd.size() - 1)
    assert [variable.numpy().tolist() for variable in mine] == [[float(hvd.size() - 1)], hvd.size() - 1]
    hvd.broadcast_variables([], root_rank=0)


def test_a_models_variables_are_broadcast() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    model.build((None, 3))
    for variable in model.variables:
        variable.assign(tf.fill(variable.shape, float(hvd.rank() + 7)))
    hvd.broadcast_variables(model.variables, root_rank=0)
    assert all((variable.numpy() == 7.0).all() for variable in model.variables)


def test_objects() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank(), "text": "ä" * hvd.rank()}, root_rank=0) == {"rank": 0, "text": ""}
    assert hvd.broadcast_object_fn(root_rank=hvd.size() - 1)([hvd.rank()]) == [hvd.size() - 1]
    assert hvd.allgather_object((hvd.rank(),) * hvd.rank(), name="some") == [(r,) * r for r in range(hvd.size())]
    with pytest.raises(ValueError, match="of rank 0 cannot be pickled"):
        hvd.broadcast_object(threading.Lock() if hvd.rank() == 0 else None, 0, name="not_pickled")


def test_elastic_state() -> None:
    weight = tf.Variable([float(hvd.rank())])
    state = hvd.elastic.TensorFlowState([weight], batch=hvd.rank())
    state.sync()
    assert [weight.numpy()[0], state.batch] == [0.0, 0]
    weight.assign([5.0])
    state.batch = 3
    state.restore()
    assert [weight.numpy()[0], state.batch] == [0.0, 0]
    weight.assign([6.0])
    state.save()
    weight.assign([7.0])
    state.restore()
    assert weight.numpy()[0] == 6.0


def test_elastic_state_of_a_model() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="Model must be built first"):
        hvd.elastic.TensorFlowKerasState(model)
    model.build((None, 2))
    model.compile("adam", "mse")
    model.variables[0].assign(tf.fill([2, 1], float(hvd.rank() + 1)))
    state = hvd.elastic.TensorFlowKerasState(model, epoch=hvd.rank())
    state.sync()
    assert (model.variables[0].numpy() == 1.0).all()
    model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)
    before = [variable.numpy().copy() for variable in model.optimizer.variables]
    state.save()
    model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)
    state.restore()
    assert all((a == b.numpy()).all() for a, b in zip(before, model.optimizer.variables))


def test_the_engines_errors_are_horovods_in_elastic_jobs() -> None:
    class Ends(Exception):
        """Ends the loop of the elastic job, which would start the engine anew."""

    class State:
        def __getattr__(self, name: str) -> object:
            return lambda *args, **kwargs: None

        def restore(self) -> None:
            raise Ends

    def fails(_: object) -> None:
        raise tf.errors.AbortedError(None, None, "Horovod has been shut down. The cause: rank 1 died")

    from horovod.tensorflow import elastic

    with pytest.raises((Ends, HorovodInternalError)):
        elastic.run(fails)(State())
