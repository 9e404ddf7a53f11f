"""Small helpers that the framework modules, the launcher and user code share."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import operator
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from packaging.version import parse

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

_cache = functools.lru_cache(maxsize=None)
EXTENSIONS = ["tensorflow", "torch", "mxnet"]
_FRAMEWORK_OF_EXTENSION = {"tensorflow": "tensorflow", "torch": "torch", "mxnet": "mxnet", "keras": "keras"}


def get_ext_suffix() -> str:
    """Return the file suffix of extension modules of this Python."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Tell whether ``horovod.<ext_base_name>`` can be imported here.

    No binding compiles against its framework, so this is: our module exists and the framework is installed. Neither is
    imported.

    Parameters
    ----------
    ext_base_name : str
        ``torch``, ``tensorflow``, ``mxnet`` or ``keras``.
    verbose : bool
        Print what is missing.
    """
    framework = _FRAMEWORK_OF_EXTENSION.get(ext_base_name, ext_base_name)
    for module in (f"horovod.{ext_base_name}", framework):
        if importlib.util.find_spec(module) is None:
            if verbose:
                print(f"Extension {ext_base_name} is not available: {module} is not installed.")
            return False
    return True


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Tell whether collectives of ``horovod.<ext_base_name>`` can run on GPU memory."""
    return extension_available(ext_base_name, verbose) and bool(nccl_built(verbose))


def _transport_usable(name: str, verbose: bool) -> bool:
    from horovod import _roda

    usable = _roda.transport_usable(name)
    if verbose and not usable:
        print(f"Transport {name} is not usable on this machine; `roda-info --plugins` prints the reason.")
    return usable


def mpi_built(verbose: bool = False) -> bool:
    """Tell whether collectives can run over MPI here."""
    return _transport_usable("mpi", verbose)


def gloo_built(verbose: bool = False) -> bool:
    """Tell whether collectives can run over Gloo here."""
    return _transport_usable("gloo", verbose)


def nccl_built(verbose: bool = False) -> int:
    """Return a non-zero number when collectives can run over NCCL here, else 0."""
    return int(_transport_usable("nccl", verbose))


def ddl_built(verbose: bool = False) -> bool:
    """IBM's DDL has no transport: always False."""
    return _transport_usable("ddl", verbose)


def ccl_built(verbose: bool = False) -> bool:
    """Tell whether collectives can run over oneCCL here."""
    return _transport_usable("ccl", verbose)


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raise ImportError when the engine's extension module is missing.

    Parameters
    ----------
    ext_name : str
        Name of the binding, for the message.
    ext_env_var : str
        Build variable of the original that asks for the binding, for the message.
    pkg_path, *args : str
        Unused: there is one extension for all frameworks.
    """
    del pkg_path, args
    if importlib.util.find_spec("horovod._roda") is None:
        raise ImportError(
            f"Extension {ext_name} has not been built: horovod._roda is missing from the installation. "
            f"Install the package again (with Horovod itself: with {ext_env_var}=1)."
        )


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Return the path of the engine's extension module: there is one for all frameworks."""
    del pkg_path, args
    spec = importlib.util.find_spec("horovod._roda")
    return (spec and spec.origin) or ""


def packages_of(module: str) -> str:
    """Return what pip installs for a framework to be used with its binding, as a shell reads it."""
    return {"pyspark": "pyspark pandas pyarrow fsspec", "mxnet": "mxnet 'numpy<1.24'"}.get(module, module)


def lightning_package() -> str:
    """Return which package of Lightning's is meant: the one that the program has imported, or the one that there is."""
    is_older = "pytorch_lightning" in sys.modules or importlib.util.find_spec("lightning") is None
    return "pytorch_lightning" if is_older else "lightning.pytorch"


def require_framework(module: str, binding: str) -> None:
    """Raise ModuleNotFoundError, with the line to type, when the framework of a binding is not installed."""
    if module not in sys.modules and importlib.util.find_spec(module) is None:
        text = f"{binding} needs {module}, which is not installed: pip install {packages_of(module)}"
        raise ModuleNotFoundError(text, name=module)


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Set environment variables for the duration of a ``with`` block; None values are ignored."""
    given = {key: str(value) for key, value in kwargs.items() if value is not None}
    before = {key: os.environ.get(key) for key in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def num_rank_is_power_2(num_rank: int) -> bool:
    """Tell whether `num_rank` is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence[_T], n: int) -> list[list[_T]]:  # noqa: E741 (Horovod's name)
    """Cut `l` into `n` consecutive chunks whose lengths differ by at most one."""
    quotient, remainder = divmod(len(l), n)
    starts = [i * quotient + min(i, remainder) for i in range(n + 1)]
    return [list(l[begin:end]) for begin, end in zip(starts, starts[1:])]


def is_iterable(x: object) -> bool:
    """Tell whether `x` can be iterated over."""
    return isinstance(x, Iterable)


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compare versions given as text with at least three parts, such as ``1.2.3``.

    Raises
    ------
    ValueError
        When either is no text or has fewer than three parts.
    """
    for value in (ver, target):
        if not isinstance(value, str):
            raise ValueError("This function only accepts string arguments. \n Received type: " + str(type(value)))
        if len(value.split(".")) < 3:
            raise ValueError("We only accepts version values in the form of: major.minor.patch. \n Received: " + value)
    return bool(parse(ver) >= parse(target))


def support_non_legacy_keras_optimizers(k: Any) -> bool:
    """Tell whether a Keras has the optimizers of 2.11 and newer."""
    return is_version_greater_equal_than(k.__version__, "2.11.0")


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Do nothing: no binding is tied to a framework's version."""
    del name, version
    if exception is not None:
        raise exception


def raises(errors: str) -> Callable[[_F], _F]:
    """Return what puts errors, which functions have in common, at the end of their docstrings as NumPy's list them."""

    def note(function: _F) -> _F:
        if function.__doc__ is not None:  # as under python -OO
            text = inspect.cleandoc(function.__doc__)
            function.__doc__ = f"{text}\n\nRaises\n------\n{inspect.cleandoc(errors)}\n"
        return function

    return note


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[int | None, bool | None], int]:
    """Return what turns the pair (`op`, deprecated `average`) into one reduction of `reduce_ops`.

    Parameters
    ----------
    reduce_ops : object
        Has the attributes ``Average`` and ``Sum``, as :class:`horovod.common.basics.HorovodBasics` does.
    """

    def reduction(op: int | None, average: bool | None) -> int:
        """Return the reduction that `op`, or the deprecated `average`, asks for; ValueError where both are given."""
        if average is None:
            return reduce_ops.Average if op is None else op
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn(
            "Parameter `average` has been replaced with `op` and will be removed.", DeprecationWarning, stacklevel=3
        )
        chosen: int = reduce_ops.Average if average else reduce_ops.Sum
        return chosen

    return reduction


def check_num_rank_power_of_2(num_rank: int) -> None:
    """Raise NotImplementedError unless `num_rank` is a power of two (Adasum needs it)."""
    if not num_rank_is_power_2(num_rank):
        raise NotImplementedError("Running Adasum with non-power-of-2 ranks is not supported yet.")


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """Return an argument's value as an int: any type of whole numbers will do, but no bool.

    Raises
    ------
    ValueError
        When it is none, or below the least one; the text names the argument.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r} must be a whole number") from None
    if least is not None and number < least:
        raise ValueError(f"{name}={number} must be > {least - 1}")
    return number


def exit_status(code: object) -> int:
    """Return the status that Python ends with for ``SystemExit(code)``: 1 for what is no number, which it prints."""
    if code is None:
        return 0
    return int(code) if isinstance(code, int) else 1


def ranks_in_brief(ranks: Collection[Any]) -> str:
    """Return ``0-3,7``; names that are no numbers as they are."""
    runs: list[list[Any]] = []
    for rank in sorted(ranks, key=lambda each: (isinstance(each, str), each)):
        if runs and isinstance(rank, int) and rank - 1 == runs[-1][-1]:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    return ",".join("-".join(map(str, run)) for run in runs)


def interface(module: dict[str, Any], *not_horovods: str) -> tuple[list[str], Callable[[], list[str]]]:
    """Return the ``__all__`` and ``__dir__`` of a framework's module, given at its end: its users' names.

    Those of `not_horovods` are none of ``__all__``: in a program that imports all of Horovod they may be its own.
    """
    names = sorted(
        name
        for name, each in module.items()
        if not name.startswith("_")
        and name not in ("Any", "annotations", "check_extension", "interface", "require_framework")
        and not (inspect.ismodule(each) and not each.__name__.startswith("horovod."))
    )
    return [name for name in names if name not in not_horovods], lambda: names
