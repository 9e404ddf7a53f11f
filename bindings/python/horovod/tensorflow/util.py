"""What TensorFlow's two modes differ in."""

from __future__ import annotations

import functools
import sys
from typing import Any

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Tell whether ops run as they are called: not so in a graph, nor while a ``tf.function`` is traced."""
    return tf.executing_eagerly()


_cache = functools.lru_cache(maxsize=None)
_make_subgraph = tf.function


def vars_to_refs(vars: Any) -> Any:  # noqa: A002 (Horovod's name)
    """Return what stands for variables as a key: of a list a tuple, of lists in it tuples again."""
    return tuple(map(vars_to_refs, vars)) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Return the variables that :func:`vars_to_refs` stood for."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()


def refuse_xla() -> None:
    """Raise NotImplementedError where a function is traced for XLA, which has no kernels of ours.

    XLA itself would say so only when the function runs, and not what to do. TensorFlow tells a tracing function nothing
    of it, but the one that it traces for is on the stack.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        tracer = frame.f_locals.get("self") if frame.f_globals.get("__name__", "").startswith("tensorflow.") else None
        if getattr(tracer, "_jit_compile", None) is True:
            raise NotImplementedError(
                "horovod.tensorflow's collectives run in functions that XLA does not compile. Leave jit_compile=True "
                "to functions that compute, and call the collective outside of them: reduce gradients between the "
                "function that computes them and the one that applies them, or give Keras' compile() jit_compile=False."
            )
        frame = frame.f_back
