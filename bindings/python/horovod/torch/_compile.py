"""``torch.compile`` and this package: Dynamo, which traces programs for it, runs our functions as they are."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_RULES = ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles")  # where the list of such packages is, and was to 2.2


def keep_tracer_out() -> None:
    """Put the package on Dynamo's list of those that it skips, now or as soon as somebody imports Dynamo.

    What Dynamo traces, it may run again, in another order or for another parameter: names and handles would mix.
    Importing it takes seconds, so this does not.
    """
    imported = [sys.modules[name] for name in _RULES if name in sys.modules]
    for rules in imported:
        _add_to(rules)
    if not imported:
        sys.meta_path.insert(0, _Finder())


def _add_to(rules: ModuleType) -> None:
    add = getattr(rules, "add", None)
    if add is not None:
        add("horovod")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules with the list as Python does, and adds to it when they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _RULES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_add(module: ModuleType) -> None:
            execute(module)
            _add_to(module)

        spec.loader.exec_module = execute_and_add  # type: ignore[method-assign]
        return spec
