"""Datasets that a job of their own computes: tf.data's service, started by Horovod."""
