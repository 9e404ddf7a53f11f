"""The compressors that come with the package; see :mod:`horovod.common.compression`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from horovod.common.compression import Compressor as Compressor, NoneCompressor, WireCompression


class FP16Compressor(Compressor):
    """Sends floating-point arrays as half precision; leaves integers as they are."""

    dtype: Any = jnp.float16

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Cast to half precision."""
        return (tensor.astype(cls.dtype) if jnp.issubdtype(tensor.dtype, jnp.floating) else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Cast back."""
        return tensor.astype(ctx)


class BF16Compressor(FP16Compressor):
    """Sends floating-point arrays as bfloat16, which keeps the range of float32; leaves integers as they are."""

    dtype = jnp.bfloat16


class Compression(WireCompression):
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
