"""Compression of what travels: a pair of functions applied before and after a reduction."""

from __future__ import annotations

from typing import Any

from horovod import _roda

_FORMATS = _roda.wire_format_names()


class Compressor:
    """Interface: both functions are static, and ``decompress(*compress(t))`` has the dtype of ``t``."""

    wire_format = 0  # that the engine is asked for, by its number

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


class WireCompressor(NoneCompressor):
    """Leaves tensors as they are: the engine has its messages between hosts in a wire format, and sums in float32.

    Sums and averages of float32 tensors in host memory have it; others, and what stays on a host, are exact.
    """


class Int8Compressor(WireCompressor):
    """Messages of 8 bits an element, and a scale for each 256 elements."""

    wire_format = _FORMATS.index("int8")


class Int4Compressor(WireCompressor):
    """Messages of 4 bits an element, and a scale for each 32 elements."""

    wire_format = _FORMATS.index("int4")


class FP8Compressor(WireCompressor):
    """Messages of 8-bit floats (e4m3), and a scale for each 256 elements."""

    wire_format = _FORMATS.index("fp8")


class BF16WireCompressor(WireCompressor):
    """Messages of bfloat16, of tensors that stay float32."""

    wire_format = _FORMATS.index("bf16")


class WireCompression:
    """The compressors by wire formats."""

    int8 = Int8Compressor
    int4 = Int4Compressor
    fp8 = FP8Compressor
    bf16_wire = BF16WireCompressor


def wire_format_of(compression: Any) -> int:
    """Return the number of the wire format that a compressor, of anybody's, asks for; 0: none."""
    return getattr(compression, "wire_format", 0)
