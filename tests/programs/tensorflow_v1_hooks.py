"""As the scripts of TensorFlow 1: a monitored session with hooks, a wrapped optimizer, checkpoints of rank 0."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
hvd.init()
inputs, labels = tf.placeholder(tf.float32, [None, 2], name="x"), tf.placeholder(tf.float32, [None], name="y")
weights = tf.get_variable("weights", [2, 1], initializer=tf.constant_initializer(1.0 + hvd.rank()))
loss = tf.losses.mean_squared_error(labels, tf.squeeze(tf.matmul(inputs, weights), 1))
global_step = tf.train.get_or_create_global_step()
optimizer = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(0.05 * hvd.size(), 0.5), op=hvd.Average)
train_op = optimizer.minimize(loss, global_step=global_step)
hooks = [
    hvd.BroadcastGlobalVariablesHook(0),
    tf.train.StopAtStepHook(last_step=40 // hvd.size()),
    tf.train.NanTensorHook(loss),
]
checkpoint_dir = "./checkpoints" if hvd.rank() == 0 else None
random = np.random.RandomState(hvd.rank())
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=checkpoint_dir,
    hooks=hooks,
    config=tf.ConfigProto(),
    save_checkpoint_steps=10,
    log_step_count_steps=None,
) as mon_sess:
    while not mon_sess.should_stop():
        x = random.rand(16, 2)
        mon_sess.run(train_op, feed_dict={inputs: x, labels: x @ [2.0, -1.0]})
        last = mon_sess._coordinated_creator.tf_sess.run(weights)
hvd.shutdown()
hvd.init()
with tf.Session() as session:
    everyones = session.run(hvd.allgather(tf.constant(last[None])))
print(
    f"{hvd.rank()} same {np.array_equal(everyones[0], everyones[-1])} near {np.abs(last.ravel() - [2, -1]).max() < 1}"
)
if checkpoint_dir:
    print("saved step", tf.train.load_variable(tf.train.latest_checkpoint(checkpoint_dir), "global_step"))
