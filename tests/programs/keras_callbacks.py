"""As the Keras scripts: callbacks that broadcast, average, warm up and schedule, then a model that loads anywhere."""

from __future__ import annotations

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow import keras

hvd.init()
keras.utils.set_random_seed(10 + hvd.rank())
x = np.random.rand(64, 4).astype("float32")
y = (x.sum(1) > 2).astype("int32")
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2, "softmax")])
initial_lr = 0.01 * hvd.size()
opt = hvd.DistributedOptimizer(keras.optimizers.Adam(initial_lr), backward_passes_per_step=1)
model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"], run_eagerly=False)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=initial_lr, warmup_epochs=2, steps_per_epoch=4, verbose=0),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=initial_lr, start_epoch=2, multiplier=lambda epoch: 0.1),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("./checkpoint-{epoch}.keras"))
history = model.fit(x, y, batch_size=16, callbacks=callbacks, epochs=3, verbose=0).history
rates = [round(float(rate), 4) for rate in history.get("lr", history.get("learning_rate", [0.001]))]
print(f"{hvd.rank()} rates {rates} better {history['loss'][-1] < history['loss'][0]}")
losses = hvd.allgather(np.array(history["loss"])[None], name="losses")
print(f"{hvd.rank()} averaged {bool(np.allclose(losses[0], losses[-1]))}")
if hvd.rank() == 0:
    loaded = keras.models.load_model("./checkpoint-3.keras", compile=False)
    print("inference", np.allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0)), tf.executing_eagerly())
again = hvd.load_model("./checkpoint-3.keras") if hvd.rank() == 0 else None
if again is not None:
    print("wrapped", type(again.optimizer).__name__, type(again.optimizer).__module__.split(".")[0])
