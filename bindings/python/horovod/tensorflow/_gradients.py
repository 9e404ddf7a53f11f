"""The reduction of gradients before they are applied. Tapes and optimizers of all kinds have a reducer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.operations import set_id_of
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import split_list
from horovod.tensorflow import _reduce, mpi_ops
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import Average, _normalize_name
from horovod.tensorflow.util import _executing_eagerly

Gradient = Any  # a tensor, IndexedSlices or None


def key_of(variable: Any) -> Any:
    """Return what stands for a variable in sets and dictionaries: variables themselves may not be hashable."""
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def check_groups(num_groups: int, groups: Any) -> int | list[list[Any]] | None:
    """Return how gradients are grouped: an even split, lists of variables, or not at all; ValueError as Horovod."""
    if num_groups < 0:
        raise ValueError(f"num_groups is a number of groups, not {num_groups}.")
    if groups is None:
        return num_groups or None
    if isinstance(groups, bool) or not isinstance(groups, (list, int)):
        raise ValueError("groups should be a non-negative integer or a list of list of tf.Variable.")
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups should be a non-negative integer or a list of list of tf.Variable, not {groups}.")
        return groups or None
    if not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups should be a non-negative integer or a list of list of tf.Variable.")
    return [list(group) for group in groups]


class GradientReducer:
    """Reduces a step's gradients over the ranks.

    Parameters
    ----------
    name : str
        Name scope of the ops in graphs.
    device_dense, device_sparse, compression, op, process_set
        As in :func:`horovod.tensorflow.allreduce`.
    sparse_as_dense : bool
        Whether ``IndexedSlices`` become dense tensors first.
    gradient_predivide_factor : float
        Gradients are divided by it before they are added up; the result is the average all the same.
    groups : int, list of list of variables, or None
        From :func:`check_groups`.
    scale_local_gradients : bool
        Whether gradients of local variables are divided by the number of ranks: their learning rate fits the
        averages then.

    Raises
    ------
    ValueError
        For a `gradient_predivide_factor` with another `op` than ``Average``.
    """

    def __init__(
        self,
        name: str,
        device_dense: str = "",
        device_sparse: str = "",
        compression: type[Compressor] = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: int | list[list[Any]] | None = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._name = name
        self._devices = (device_dense, device_sparse)
        self._compression = compression
        self.sparse_as_dense = sparse_as_dense
        self._op = op
        self._factors = (1.0 / gradient_predivide_factor, gradient_predivide_factor)
        self._groups = groups
        self.process_set = process_set
        self._scale_local_gradients = scale_local_gradients
        self._local: set[Any] = set()

    def register_local(self, variable: Any) -> None:
        """Leave the gradient of a variable as it is on every rank."""
        self._local.add(key_of(variable))

    def is_local(self, variable: Any) -> bool:
        """Tell whether a variable was registered as local."""
        return key_of(variable) in self._local

    def reduce(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        use_generic_names: bool = False,
        ignore_name_scope: bool = False,
    ) -> list[Gradient]:
        """Return the reduced gradients, in their order; None stays None.

        Parameters
        ----------
        gradients : sequence
            One of each variable.
        variables : sequence
            Whose they are.
        use_generic_names : bool
            Whether the ranks match them by their places instead of by their names in the graph.
        ignore_name_scope : bool
            Whether they match them by their variables' names alone: for scopes that ranks may number differently.

        Raises
        ------
        ValueError
            When there are not as many gradients as variables.
        """
        results = list(gradients)
        if not _reduce.is_member(self.process_set):
            return results
        if len(results) != len(variables):
            raise ValueError(f"There are {len(results)} gradients of {len(variables)} variables.")
        dense: list[int] = []
        for i, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if self.is_local(variable):
                results[i] = self._scaled(gradient)
                continue
            if isinstance(gradient, tf.IndexedSlices) and self.sparse_as_dense:
                results[i] = tf.convert_to_tensor(gradient)
            dense.append(i)
        with tf.name_scope(f"{self._name}_Allreduce"):
            for places in self._grouped(dense, variables):
                name = self._name_of(places, variables, use_generic_names)
                reduced = _reduce.grouped_allreduce(
                    [results[i] for i in places], None, *self._devices, self._compression, self._op, *self._factors,
                    self.process_set, use_generic_names or ignore_name_scope, name,
                )  # fmt: skip
                for i, gradient in zip(places, reduced):
                    results[i] = gradient
        return results

    def _scaled(self, gradient: Gradient) -> Gradient:
        if not self._scale_local_gradients:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(self._scaled(gradient.values), gradient.indices, gradient.dense_shape)
        return gradient / tf.cast(mpi_ops.size_op(set_id_of(self.process_set)), gradient.dtype)

    def _grouped(self, places: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Return the places of gradients that become one op each."""
        if _executing_eagerly():  # an op waits for its end: one for all
            return [places] if places else []
        if self._groups is None:
            return [[place] for place in places]
        if isinstance(self._groups, int):
            return [part for part in split_list(places, self._groups) if part]
        by_key = {key_of(variable): i for i, group in enumerate(self._groups) for variable in group}
        found: dict[Any, list[int]] = {}
        for place in places:
            found.setdefault(by_key.get(key_of(variables[place]), f"alone {place}"), []).append(place)
        return list(found.values())

    def _name_of(self, places: list[int], variables: Sequence[Any], use_generic_names: bool) -> str | None:
        """Return the name that the ranks match by: of the variables, which all ranks have alike."""
        if use_generic_names:
            return f"grad_{places[0]}" if len(places) == 1 else f"grads_{places[0]}_{places[-1]}"
        ends = [places[0]] if len(places) == 1 else [places[0], places[-1]]
        names: list[Any] = [getattr(variables[i], "path", None) or getattr(variables[i], "name", None) for i in ends]
        if not all(isinstance(name, str) for name in names):
            return None
        return "HorovodAllreduce_" + "_".join(_normalize_name(name) for name in names)
