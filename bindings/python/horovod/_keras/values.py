"""Collectives on plain values: numbers, NumPy's arrays, tensors of the framework that Keras computes with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from horovod import _roda
from horovod._keras.backend import framework_of
from horovod.common.basics import Average, Sum
from horovod.common.util import raises

note_raises = raises("""
    HorovodInternalError; on TensorFlow tf.errors.FailedPreconditionError, tf.errors.AbortedError or \
tf.errors.InvalidArgumentError
        On all ranks: they disagreed (the text names them and the difference), a peer failed, or Horovod was shut down.
        As of the framework's own function: :func:`horovod.tensorflow.allreduce`, for one.
    ValueError
        For an argument that this rank can tell is wrong. Before :func:`init` it is one of these.
""")


def collective(keras: ModuleType, kind: str, value: Any, *args: Any, **options: Any) -> Any:
    """Run a collective of the framework's, and return its result as a plain value: None stays None."""
    framework = framework_of(keras)
    result = getattr(framework.hvd, kind)(framework.tensor(value), *args, **options)
    return None if result is None else framework.evaluate(result)


class Values:
    """The collectives of a public module.

    Parameters
    ----------
    keras : module
        The module's Keras.
    averages : bool
        Whether :meth:`allreduce` goes by `average`; else that argument is deprecated, and left to the framework.
    """

    def __init__(self, keras: ModuleType, averages: bool) -> None:
        self._keras = keras
        self._averages = averages

    @note_raises
    def allreduce(
        self,
        value: Any,
        name: str | None = None,
        average: bool | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        op: int | None = None,
        compression: Any = None,
    ) -> Any:
        """Reduce a number or an array over all ranks.

        Parameters
        ----------
        value : number, array or tensor
            The same shape and dtype on all ranks.
        name : str, optional
            The name by which the ranks match.
        average : bool, optional
            True for ``op=Average``, False for ``op=Sum``; has to be None where `op` is given, which supersedes it.
        prescale_factor, postscale_factor : float
            Applied to every rank's input, and to the result.
        op : int, optional
            ``Average`` (default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``.
        compression : Compressor
            Applied to what travels.

        Returns
        -------
        array
            A tensor in TensorFlow's eager mode, else NumPy's, with the shape and dtype of `value`.
        """
        if self._averages and op is None and average is not None:
            average, op = None, Average if average else Sum
        return collective(
            self._keras,
            "allreduce",
            value,
            name=name,
            average=average,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            op=op,
            compression=compression,
        )

    @note_raises
    def allgather(self, value: Any, name: str | None = None) -> Any:
        """Concatenate the arrays of all ranks along the first dimension.

        Parameters
        ----------
        value : array or tensor
            With at least one dimension. The first may differ between ranks and may be zero; the others and the dtype
            are the same on all ranks.
        name : str, optional
            The name by which the ranks match.

        Returns
        -------
        array
            As :func:`broadcast` returns it: the rows of rank 0, 1, …, of shape ``(sum of the ranks' rows, ...)``, with
            the dtype of `value`.
        """
        return collective(self._keras, "allgather", value, name=name)

    @note_raises
    def broadcast(self, value: Any, root_rank: int, name: str | None = None) -> Any:
        """Return the root's number or array on all ranks.

        Parameters
        ----------
        value : number, array or tensor
            The same shape and dtype on all ranks.
        root_rank : int
            Rank of the sender.
        name : str, optional
            The name by which the ranks match.

        Returns
        -------
        array
            A tensor in TensorFlow's eager mode, else NumPy's, with the shape and dtype of `value`.
        """
        return collective(self._keras, "broadcast", value, root_rank, name=name)

    @note_raises
    def reduce(self, value: Any, root_rank: int, name: str | None = None, op: int = Average) -> Any:
        """Reduce a number or an array over all ranks; the root alone gets the result.

        Parameters
        ----------
        value, root_rank, name
            As in :func:`broadcast`.
        op : int
            ``Average``, ``Sum``, ``Min``, ``Max`` or ``Product``.

        Returns
        -------
        array or None
            On the root, of the shape and dtype of `value`, as :func:`broadcast` returns it; None on the other ranks.
        """
        reduced = collective(self._keras, "reduce", value, root_rank, name=name, op=op)
        return reduced if _roda.rank() == root_rank else None  # a graph has a result on all ranks

    @note_raises
    def reducescatter(self, value: Any, name: str | None = None, op: int = Average) -> Any:
        """Reduce an array over all ranks and return this rank's rows.

        Parameters
        ----------
        value : array or tensor
            With at least one dimension, the same shape and dtype on all ranks. The first ``shape[0] % size`` ranks get
            one row more.
        name : str, optional
            The name by which the ranks match.
        op : int
            ``Average`` or ``Sum``.

        Returns
        -------
        array
            As :func:`broadcast` returns it: this rank's rows, with the dtype of `value`.
        """
        return collective(self._keras, "reducescatter", value, name=name, op=op)
