"""Which parameters of a distributed optimizer are reduced together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from horovod.common.process_sets import ProcessSet
from horovod.common.util import is_iterable, split_list
from horovod.torch.functions import broadcast_object

Groups = Mapping[torch.Tensor, Sequence[torch.Tensor]]

_WRONG_TYPE = "groups should be a non-negative integer or a list of list of torch.Tensor."


def assign_groups(
    groups: int | Sequence[Sequence[torch.Tensor]] | None,
    trained: Mapping[str, torch.Tensor],
    process_set: ProcessSet,
    active: bool,
) -> Groups:
    """Return for every parameter that is in a group the members of the group.

    Parameters
    ----------
    groups : int, list of lists of torch.Tensor, or None
        What the user gave: so many groups, or these.
    trained : mapping
        The parameters that have gradients, by name.
    process_set : ProcessSet
        Who agrees on the order of names, that of its first rank, when a number is given; collective then.
    active : bool
        Whether this rank takes part in reductions at all.

    Raises
    ------
    ValueError
        For a negative number, and for what is neither a number nor a list.
    """
    if groups is None:
        return {}
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)):
        raise ValueError(_WRONG_TYPE)
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(_WRONG_TYPE)
        return _by_member(_even_groups(groups, trained, process_set) if groups and active else [])
    return _by_member(groups)


def _even_groups(count: int, trained: Mapping[str, torch.Tensor], process_set: ProcessSet) -> list[list[torch.Tensor]]:
    root = (process_set.ranks or [0])[0]
    order = broadcast_object(list(trained), root, "optimizer_groups", process_set)
    return split_list([trained[name] for name in order], count)


def _by_member(groups: Sequence[Sequence[Any]]) -> Groups:
    group_of: dict[torch.Tensor, Sequence[torch.Tensor]] = {}
    for group in groups:
        members: list[torch.Tensor] = []
        for parameter in group if is_iterable(group) else [group]:
            if not isinstance(parameter, torch.Tensor) or isinstance(group, torch.Tensor):
                raise ValueError("groups must consist of torch.Tensor.")
            if parameter in group_of:
                raise ValueError("A parameter can only appear once in groups.")
            if parameter.requires_grad:
                group_of[parameter] = members
                members.append(parameter)
    return group_of
