"""Running something right after a module's import, should it ever happen.

A small meta-path finder of our own, because this runs in every traced
process: wrapt's post-import hooks would bring in inspect and cost several
milliseconds of start-up.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Action = Callable[[ModuleType], object]


def watch(name: str, action: Action) -> None:
    """Call action(module) once `name` is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None and not _being_imported(module):
        _run(action, module)
        return
    _finder.actions.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def unwatch() -> None:
    """Forget what has not happened yet."""
    _finder.actions.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _run(action: Action, module: ModuleType) -> None:
    try:
        action(module)
    except Exception as problem:  # a fault of ours must not break the program's import
        try:
            os.write(2, f"pyio-trace: {module.__name__} is not instrumented: {problem}\n".encode(errors="replace"))
        except OSError:
            pass  # stderr is closed


class _Finder:
    """Finds watched modules the usual way, and runs their actions after loading."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self.actions.get(name):
            return None
        spec = self._find_elsewhere(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        if isinstance(spec.loader, type):  # BuiltinImporter, FrozenImporter: one class for all their modules
            spec.loader = _Once(spec.loader, self)  # type: ignore[assignment]
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The instance attribute goes first: the module's loader is as it always was.
            del spec.loader.exec_module  # type: ignore[union-attr]
            load(module)
            self.imported(module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            pass  # a loader that takes no attributes: seen by POSIX only
        return spec

    def imported(self, module: ModuleType) -> None:
        """Only now: a spec may be asked for and never loaded (importlib.util.find_spec)."""
        for action in self.actions.pop(module.__name__, ()):
            _run(action, module)

    def _find_elsewhere(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class _Once:
    """Stands for a loader that is a class, for one import: a Python that has mmap built in."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.imported(module)


_finder = _Finder()
