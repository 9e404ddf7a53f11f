"""As tf_cnn_benchmarks and deepmd-kit: collectives in a graph, a broadcast as an op, what is built, scaled rates."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow.compat.v1 as tf
from horovod.tensorflow.mpi_ops import rank_op, size_op

tf.disable_v2_behavior()
hvd.init()
assert hvd.mpi_threads_supported() in (True, False) if hvd.mpi_enabled() else hvd.gloo_enabled() in (True, False)
config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
config.gpu_options.visible_device_list = str(hvd.local_rank())
with tf.variable_scope("net"):
    kernel = tf.get_variable("kernel", [3], initializer=tf.constant_initializer(float(hvd.rank())))
    bias = tf.get_variable("bias", [3], initializer=tf.constant_initializer(10.0 * hvd.rank() + 1))
rate = tf.train.exponential_decay(0.1 * hvd.size(), tf.train.get_or_create_global_step(), 1, 0.5, staircase=True)
opt = tf.train.GradientDescentOptimizer(rate)
opt = hvd.DistributedOptimizer(opt, compression=hvd.Compression.fp16, sparse_as_dense=True)
grads_and_vars = opt.compute_gradients(tf.reduce_sum(kernel * (hvd.rank() + 1.0)), var_list=[kernel, bias])
train_op = opt.apply_gradients([(g, v) for g, v in grads_and_vars if g is not None], tf.train.get_global_step())
summed = [hvd.allreduce(each, average=False, device_dense="/cpu:0") for each in (kernel, tf.constant([2, 3]))]
slices = hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([hvd.rank()]), tf.constant([4, 2])), op=hvd.Sum)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(hvd.broadcast_global_variables(0))
    print(f"{hvd.rank()} broadcast", sess.run([kernel, bias])[1].tolist())
    for _ in range(2):
        sess.run(train_op)
    print(
        f"{hvd.rank()} kernel", sess.run(kernel).round(3).astype(str).tolist(), "rate", round(float(sess.run(rate)), 3)
    )
    print(f"{hvd.rank()} sums", *(each.round(3).astype(str).tolist() for each in sess.run(summed)))
    print(f"{hvd.rank()} slices", sess.run(slices.indices).tolist(), "of", *map(int, sess.run([rank_op(), size_op()])))
    model = hvd.broadcast_object({"type_map": ["O", "H"]} if hvd.rank() == 0 else None, 0, session=sess)
    print(f"{hvd.rank()} model", model["type_map"])
