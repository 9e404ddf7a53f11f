"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` share; ``front`` makes both.

Functions take the module `keras` first: Keras 3 on TensorFlow, PyTorch or JAX, or Keras 2 (``tf_keras``).
"""

from horovod._keras.optimizer import create_distributed_optimizer as create_distributed_optimizer  # Horovod's name
