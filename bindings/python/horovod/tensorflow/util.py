"""What TensorFlow's two modes differ in."""

from __future__ import annotations

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Tell whether ops run as they are called: not so in a graph, nor while a ``tf.function`` is traced."""
    return tf.executing_eagerly()
