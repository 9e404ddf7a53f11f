"""Compression of what travels: a pair of functions applied before and after a reduction."""

from __future__ import annotations

from typing import Any


class Compressor:
    """Interface: both functions are static, and ``decompress(*compress(t))`` has the dtype of ``t``."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the compressed tensor and what :meth:`decompress` needs to undo it."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor as it was before compression."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the tensor itself."""
        del ctx
        return tensor
