"""The compressors that come with the package; see :mod:`horovod.common.compression`."""

from __future__ import annotations

from typing import Any

import torch

from horovod.common.compression import Compressor as Compressor, NoneCompressor, WireCompression


def compressor_of(compression: type[Compressor]) -> type[Compressor]:
    """Return `compression`; TypeError for what has no compress and decompress."""
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        names = [*vars(Compression), *vars(WireCompression)]
        known = ", ".join(f"hvd.Compression.{name}" for name in names if not name.startswith("_"))
        raise TypeError(f"compression is {known} or a class of your own like them, not {compression!r:.60}.")
    return compression


class FP16Compressor(Compressor):
    """Sends floating-point tensors as half precision; leaves integers as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Cast to half precision."""
        return (tensor.half() if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Cast back."""
        return tensor if tensor.dtype == ctx else tensor.to(ctx)


class BF16Compressor(FP16Compressor):
    """Sends floating-point tensors as bfloat16, which keeps the range of float32; leaves integers as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Cast to bfloat16."""
        return (tensor.bfloat16() if tensor.is_floating_point() else tensor), tensor.dtype


class Compression(WireCompression):
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
