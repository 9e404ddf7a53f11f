"""The library of XLA's handlers, which are registered when this module is imported."""

from __future__ import annotations

import ctypes
import re
import warnings
from pathlib import Path
from typing import Any

import jax

try:
    from jax import ffi
except ImportError:  # before 0.5
    from jax.extend import ffi

TARGET = "roda_collective"
# Versions that bring no header along have this one.
_FIRST_API = (0, 1)


def _header() -> str:
    path = Path(ffi.include_dir()) / "xla/ffi/api/c_api.h"
    return path.read_text() if path.is_file() else ""


def has_futures() -> bool:
    """Tell whether calls are asynchronous with the jaxlib that is installed."""
    return "XLA_FFI_Future" in _header()


def api_version() -> tuple[int, int]:
    """Return the version of XLA's interface in the jaxlib that is installed, as its header has it."""
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", _header()))
    return int(found.get("MAJOR", _FIRST_API[0])), int(found.get("MINOR", _FIRST_API[1]))


def _register() -> None:
    library = ctypes.CDLL(str(Path(__file__).parents[1] / "lib" / "libroda_jax.so"))
    library.roda_jax_use_api(*api_version())
    ffi.register_ffi_target(TARGET, ffi.pycapsule(library.roda_jax_collective), platform="cpu")
    ffi.register_ffi_target(TARGET, ffi.pycapsule(library.roda_jax_collective_cuda), platform="CUDA")


def _run_programs_in_order() -> None:
    """Have a call of a compiled function end before the next one begins, on CPUs.

    Two calls of one function that run side by side have operations of the same names, and JAX may begin them in another
    order on each rank.
    """
    try:
        from jax._src import xla_bridge

        is_late = xla_bridge.backends_are_initialized()
    except (ImportError, AttributeError):  # which is JAX's own
        is_late = False
    if is_late and jax.config.read("jax_cpu_enable_async_dispatch"):
        warnings.warn(
            "JAX computed something before horovod.jax was imported, so its calls on CPUs return before they have run. "
            "Import horovod.jax first, or wait (jax.block_until_ready) for a function's result before you call it "
            "again.",
            RuntimeWarning,
            stacklevel=2,
        )
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def lowering(**options: Any) -> Any:
    """Return the rule that lowers to a call of the handler."""
    return ffi.ffi_lowering(TARGET, **options)


_register()
_run_programs_in_order()
