"""The compressors that come with the package; see :mod:`horovod.common.compression`."""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod.common.compression import Compressor, NoneCompressor, WireCompression


class FP16Compressor(Compressor):
    """Sends floating-point arrays as half precision; leaves integers as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Cast to half precision."""
        is_floating = np.issubdtype(tensor.dtype, np.floating)
        return (tensor.astype("float16", copy=False) if is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Cast back."""
        return tensor.astype(ctx, copy=False)


class Compression(WireCompression):
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
