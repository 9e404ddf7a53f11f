"""As the scripts of TensorFlow 2: a tape in a tf.function, a broadcast after the first step, checkpoints of rank 0."""

from __future__ import annotations

import os

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
tf.keras.utils.set_random_seed(1 + hvd.rank())
inputs = np.random.rand(64, 3).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((inputs, inputs.sum(1, keepdims=True))).repeat().shuffle(100).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
checkpoint = tf.train.Checkpoint(model=model)


@tf.function
def training_step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss_value = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables, root_rank=0)
    return loss_value


losses = []
for batch, (images, labels) in enumerate(dataset.take(60 // hvd.size())):
    losses.append(float(hvd.allreduce(training_step(images, labels, batch == 0), name="loss")))
first = hvd.allgather(tf.reshape(model.layers[0].kernel, [1, -1]))
print(f"{hvd.rank()} same {bool(tf.reduce_all(first == first[:1]))} better {losses[-1] < losses[0]}")
if hvd.rank() == 0:
    checkpoint.save("./checkpoints/model")
    print("saved", os.path.exists("./checkpoints/model-1.index"))
