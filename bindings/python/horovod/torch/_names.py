"""The names by which ranks match the tensors of a distributed optimizer."""

from __future__ import annotations

import copy
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from horovod.common.basics import Max
from horovod.common.claims import Claims, prefix_of
from horovod.common.exceptions import HorovodInternalError
from horovod.common.operations import expect, shutdowns
from horovod.common.process_sets import ProcessSet
from horovod.torch import _ops
from horovod.torch._tensors import start

_TOTAL = 1 << 33  # a value and what it lacks to this: the largest of each add up to it only where all values are equal


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    for i, group in enumerate(optimizer.param_groups):
        for j, parameter in enumerate(group["params"]):
            yield f"allreduce.noname.{i}.{j}", parameter


def checked_names(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None
) -> dict[torch.Tensor, str]:
    """Return each parameter's name: as given, else by its place in the groups. ValueError for names that can't be."""
    if named_parameters is None:
        return {parameter: name for name, parameter in _parameters(optimizer)}
    named: list[Any] = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if duplicates:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(duplicates)}"
        )
    name_of = {parameter: name for name, parameter in named}
    missing = sum(parameter not in name_of for _, parameter in _parameters(optimizer))
    if missing:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. Python object ids: "
            + ", ".join(str(id(p)) for _, p in _parameters(optimizer) if p not in name_of)
        )
    return name_of


class TensorNames:
    """The names of an optimizer's parameters, with its number where another one uses some of them, too.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Whose they are; it has ``_hooks`` while it is told of gradients.
    parameters : list of torch.Tensor
        Those that it may name; more may be added to the list.
    name_of : mapping
        Each parameter's own name.
    process_set : ProcessSet
        Whose members match by the names.
    """

    def __init__(
        self,
        optimizer: Any,
        parameters: list[torch.Tensor],
        name_of: Mapping[torch.Tensor, str],
        process_set: ProcessSet,
    ) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._parameters, self._name_of, self._process_set = parameters, name_of, process_set
        self._claims: Claims | None = None
        self._prefix_of: dict[torch.Tensor, str] = {}
        self._comparisons: list[tuple[str, int]] = []
        self._made_in = process_set.claims()
        self._made_in.made += 1
        self._made_as = self._made_in.made

    def __deepcopy__(self, memo: dict[int, Any]) -> TensorNames:
        """A copied optimizer is one more."""
        copied = memo[id(self._optimizer())]
        return TensorNames(copied, *copy.deepcopy((self._parameters, self._name_of), memo), self._process_set)

    def of(self, parameter: torch.Tensor) -> str:
        """Return the name to reduce the parameter's gradient under."""
        return self.prefix(parameter) + self._name_of[parameter]

    def prefix(self, parameter: torch.Tensor) -> str:
        """Return what stands before the parameter's own name. The first call claims the names of all."""
        claims = self._process_set.claims()
        if claims is not self._claims:  # the first use, or that after a join or a new start of the engine
            self._claims = claims
            self._prefix_of.clear()
            self._comparisons.clear()
        if parameter not in self._prefix_of:
            self._claim(claims, [each for each in self._parameters if each not in self._prefix_of])
        return self._prefix_of[parameter]

    def _claim(self, claims: Claims, parameters: list[torch.Tensor]) -> None:
        self._refuse_shared(parameters)
        prefix = prefix_of(claims.number(self._name_of[parameter] for parameter in parameters))
        self._prefix_of.update(dict.fromkeys(parameters, prefix))
        _users.add(self)
        if prefix:
            self._begin_comparison(prefix, parameters)

    def _refuse_shared(self, parameters: list[torch.Tensor]) -> None:
        for other in _users:
            optimizer = other._optimizer()
            if other is self or optimizer is None or not optimizer._hooks:
                continue
            shared = [parameter for parameter in parameters if parameter in other._prefix_of]
            if shared:
                raise ValueError(
                    f"The parameter '{self._name_of[shared[0]]}' is in two distributed optimizers, and both would "
                    "reduce its gradient. Give each parameter to one of them, and drop an optimizer (del optimizer) "
                    "before another one takes its place."
                )

    # --- all ranks number the same optimizers alike ---

    def _begin_comparison(self, prefix: str, parameters: list[torch.Tensor]) -> None:
        named = sorted((self._name_of[each], each) for each in parameters)
        contents = ";".join(f"{name}:{list(each.shape)}:{each.dtype}" for name, each in named)
        pair = [zlib.crc32(contents.encode()) + 1]
        pair.append(_TOTAL - pair[0])
        # Ranks that were in an earlier engine, or have joined, made others before.
        is_new = self._made_in is self._claims and not shutdowns()
        pair += [self._made_as, _TOTAL - self._made_as] if is_new else [0, 0]
        arguments = (f"{prefix}order", Max, 1.0, 1.0, self._process_set)
        handle = start(*_ops.prepare_allreduce(torch.tensor(pair), True, *arguments))
        self._comparisons.append((f"{len(named)} parameters from '{named[0][0]}' to '{named[-1][0]}'", handle))

    def compare(self) -> None:
        """Wait until the ranks have compared what has this optimizer's number; RuntimeError where they differ."""
        while self._comparisons:
            contents, handle = self._comparisons.pop()
            try:
                contents_all, contents_lack, made_all, made_lack = expect(handle).tolist()
            except HorovodInternalError:  # the gradients end for the same cause, and are waited for next
                return
            if contents_all + contents_lack != _TOTAL or made_all + made_lack not in (0, _TOTAL):
                raise RuntimeError(
                    f"The ranks use different optimizers at once: here one of {contents}, elsewhere another one that "
                    "has some of these names. Optimizers whose parameters have the same names must be made, and used "
                    "for the first time, in the same order on all ranks. Or give them different names: "
                    "named_parameters=[('generator.' + name, p) for name, p in model.named_parameters()]."
                )


_users: weakref.WeakSet[TensorNames] = weakref.WeakSet()
