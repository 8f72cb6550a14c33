"""Running something right after a module's import, should it ever happen.

A small meta-path finder of our own, because this runs in every traced
process: wrapt's post-import hooks would bring in inspect and cost several
milliseconds of start-up.  What the import system calls is in C
(csrc/ext/unseen.c), so that no frame of ours is in the program's tracebacks,
and no line in its profile.
"""

from __future__ import annotations

import sys

from pyio_trace import native
from pyio_trace.errors import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Action = Callable[[ModuleType], object]

_actions: dict[str, list[Action]] = {}


def watch(name: str, action: Action) -> None:
    """Call action(module) once `name` is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is not None and not _being_imported(module):
        _run(action, module)
        return
    _actions.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def watched(name: str) -> bool:
    """Whether something is still to run once `name` is imported."""
    return bool(_actions.get(name))


def unwatch() -> None:
    """Forget what has not happened yet."""
    _actions.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _run(action: Action, module: ModuleType) -> None:
    try:
        action(module)
    except BaseException as problem:  # a fault of ours must not break the program's import
        from pyio_trace.capture.faults import came_from_outside

        if came_from_outside(problem):
            raise
        say(f"{module.__name__} is not instrumented: {problem}")


class _Finder:
    """Finds watched modules the usual way, and sees to it that their actions run after loading."""

    def __init__(self) -> None:
        if native.core is not None:
            self.find_spec = native.core.finder(_actions, self, _prepare)


def _prepare(spec: ModuleSpec) -> None:
    """A watched module has been found: its loading is going to be noticed."""
    assert native.core is not None  # the finder is its
    loader: Any = spec.loader
    if not hasattr(loader, "exec_module"):
        return
    if isinstance(loader, type):  # BuiltinImporter, FrozenImporter: one class for all their modules
        spec.loader = _Once(loader)  # type: ignore[assignment]
        return
    try:
        # The instance attribute goes before the module is loaded: its loader is as it always was.
        loader.exec_module = native.core.loading(
            lambda module: loader.__dict__.pop("exec_module", None), loader.exec_module, _imported
        )
    except AttributeError:
        pass  # a loader that takes no attributes: seen by POSIX only


def _imported(module: ModuleType) -> None:
    """Only now: a spec may be asked for and never loaded (importlib.util.find_spec)."""
    while actions := _actions.pop(module.__name__, ()):  # an action may watch for the same module again
        for action in actions:
            _run(action, module)


class _Once:
    """Stands for a loader that is a class, for one import: a Python that has mmap built in."""

    def __init__(self, loader: Any) -> None:
        assert native.core is not None

        def put_back(module: ModuleType) -> None:
            if module.__spec__ is not None:
                module.__spec__.loader = loader
            module.__loader__ = loader

        self.create_module = loader.create_module
        self.exec_module = native.core.loading(put_back, loader.exec_module, _imported)


_finder = _Finder()
