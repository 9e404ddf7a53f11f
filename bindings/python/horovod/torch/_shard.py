"""One rank's part of a parameter."""

from __future__ import annotations

from typing import Any

import torch

# State that optimizers keep once for a parameter; torch's as tensors without dimensions.
_PER_PARAMETER = ("step", "mu_product", "eta", "mu")


def share_of(elements: int, rank: int, count: int) -> tuple[int, int]:
    """Return where one of `count` parts of so many elements begins and ends: the first ones have one more."""
    rows, more = divmod(elements, count)
    begin = rank * rows + min(rank, more)
    return begin, begin + rows + (1 if rank < more else 0)


class Shard:
    """The elements of a parameter that this rank keeps the optimizer's state of.

    Elements are counted in memory order, so that parts are contiguous whatever the parameter's strides are. Ranks get
    as many as reducescatter gives them.

    Parameters
    ----------
    parameter : torch.Tensor
        Dense, without gaps or overlaps in memory; the same strides on all ranks.
    name : str
        The name by which the ranks match.
    rank, count : int
        Which part of how many.
    keeps_master : bool
        Whether the part of a float32 parameter in host memory is the master copy, apart from the parameter, which all
        ranks change by the same rounded differences: roundings do not add up.

    Raises
    ------
    ValueError
        For a sparse parameter, and one with gaps in memory.
    """

    def __init__(self, parameter: torch.Tensor, name: str, rank: int, count: int, keeps_master: bool = False) -> None:
        # empty_like keeps the strides of a tensor only if it is without gaps and overlaps.
        if parameter.is_sparse or torch.empty_like(parameter).stride() != parameter.stride():
            raise ValueError(f"sharded=True needs parameters without gaps in memory; {name} has some.")
        self.parameter, self.name = parameter, name
        self._begin, self._end = share_of(parameter.numel(), rank, count)
        # The part as the parameter had it when it was written last; None: there is no master copy, the part is a view.
        self._replica: torch.Tensor | None = None
        if keeps_master and parameter.is_cpu and parameter.dtype is torch.float32:
            self._replica = self._own().clone()
        self._is_alike = False  # the parameter has the same bits on all ranks
        own = self._own() if self._replica is None else self._replica.clone()
        self.part = torch.nn.Parameter(own, requires_grad=parameter.requires_grad)

    def flat(self) -> torch.Tensor:
        """Return the whole parameter in memory order, as a view without autograd."""
        return _flat(self.parameter.detach())

    def _own(self) -> torch.Tensor:
        return self.flat()[self._begin : self._end]

    def refreshed(self) -> torch.nn.Parameter:
        """Return the part, which follows the parameter when that got other memory (moved, or loaded anew).

        Where it is a master copy, it takes over what others have written into the parameter.
        """
        own = self._own()
        if self._replica is not None and (own.dtype, own.device) != (self._replica.dtype, self._replica.device):
            self._replica = None  # the parameter was moved to where there are no formats
        if self._replica is not None:
            if not torch.equal(own, self._replica):
                self.part.data = torch.where(own == self._replica, self.part.data, own)
                self._replica.copy_(own)
            return self.part
        if own.data_ptr() != self.part.data_ptr() or own.dtype != self.part.dtype:
            self.part.grad = None
            self.part.data = own
        return self.part

    def update(self) -> tuple[torch.Tensor, bool]:
        """Return what all ranks need of this part, and whether it is a difference to what they have."""
        if self._replica is None or not self._is_alike:
            return self.part.detach(), False
        return self.part.detach() - self._replica, True

    def take(self, gathered: torch.Tensor, is_difference: bool) -> None:
        """Change the parameter by the :meth:`update` of every rank."""
        if is_difference:
            self.flat().add_(gathered)
        else:
            self.flat().copy_(gathered)
        if self._replica is not None:
            self._replica.copy_(self._own())
            self._is_alike = True

    def flat_gradient(self, gradient: torch.Tensor | None) -> torch.Tensor:
        """Return a gradient of the whole parameter in the order of :meth:`flat`; zeros for None."""
        if gradient is None:
            return torch.zeros_like(self.flat())
        if gradient.stride() != self.parameter.stride():
            gradient = torch.empty_like(self.parameter, dtype=gradient.dtype, requires_grad=False).copy_(gradient)
        return _flat(gradient.detach())

    def cut(self, key: str, value: Any) -> Any:
        """Return this rank's part of a state tensor of the parameter's shape; anything else as it is."""
        if not isinstance(value, torch.Tensor) or value.shape != self.parameter.shape or key in _PER_PARAMETER:
            return value
        laid_out = torch.empty_like(self.parameter, dtype=value.dtype, requires_grad=False).copy_(value)
        return _flat(laid_out)[self._begin : self._end].clone()

    def is_part(self, key: str, value: Any) -> bool:
        """Tell whether a state value has one number for each element of the part."""
        is_alike = isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape == self.part.shape
        return is_alike and key not in _PER_PARAMETER

    def whole(self, gathered: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the parameter's shape from the parts of all ranks."""
        result = torch.empty_like(self.parameter, dtype=gathered.dtype, requires_grad=False)
        _flat(result).copy_(gathered)
        return result


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((tensor.numel(),), (1,))
