"""Runs an action right after a module is imported, and has imports timed.

The first is a small meta-path finder of our own because every traced process needs
it: wrapt's post-import hooks import inspect and cost several milliseconds of
start-up.  The part that the import system calls is in C (csrc/ext/imports/finder.c), so
no frame of ours is in the program's tracebacks and no line in its profile.
"""

import sys

from pyio_trace import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Action = Callable[[ModuleType], object]

_actions: "dict[str, list[Action]]" = {}
_IMPORTS, _LOADS = 5, 6  # enum pt_role in csrc/ext/watch/target.h


def watch(name: str, action: "Action") -> None:
    """Call action(module) once `name` is imported; at once if it is already."""
    module = sys.modules.get(name)
    if module is not None and not _being_imported(module):
        _run(action, module)
        return
    if module is not None and name not in _actions:
        _await(module)
    _actions.setdefault(name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def is_watched(name: str) -> bool:
    """Whether an action is still waiting for the import of `name`."""
    return bool(_actions.get(name))


def unwatch() -> None:
    """Drop all actions that are still waiting."""
    _actions.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _being_imported(module: "ModuleType") -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _await(module: "ModuleType") -> None:
    """Run the actions of a module at the end of an import that is under way.  It is too late to hook the loader.

    The import system then sets an attribute of the module's spec, whose class is replaced until that moment.
    """
    spec = module.__spec__
    kind: Any = type(spec)

    def set_attribute(self: "Any", name: str, value: object) -> None:
        if name != "_initializing" or value:
            kind.__setattr__(self, name, value)
            return
        object.__setattr__(self, "__class__", kind)
        kind.__setattr__(self, name, value)
        loaded = sys.modules.get(self.name)
        if loaded is not None:  # else the import has failed; it may be tried again
            _imported(loaded)

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    try:
        object.__setattr__(
            spec, "__class__", type(kind.__name__, (kind,), {**names, "__slots__": (), "__setattr__": set_attribute})
        )
    except TypeError:
        pass  # a spec of another kind: only POSIX operations are seen


def _run(action: "Action", module: "ModuleType") -> None:
    try:
        action(module)
    except BaseException as problem:  # a fault of ours must not break the program's import
        from pyio_trace.capture.instrumentation.exception_origin import came_from_outside

        if came_from_outside(problem):
            raise
        native.say(f"{module.__name__} is not instrumented: {problem}")


class _Finder:
    """Finds watched modules in the usual way, and has their actions run after they are loaded."""

    def __init__(self) -> None:
        if native.core is not None:
            self.find_spec = native.core.finder(_actions, self, _prepare)


def _prepare(spec: "ModuleSpec") -> None:
    """A watched module has been found: hook its loader."""
    assert native.core is not None  # it has made the finder
    loader: Any = spec.loader
    if not hasattr(loader, "exec_module"):
        return
    if isinstance(loader, type):  # BuiltinImporter, FrozenImporter: one class serves all their modules
        spec.loader = _once(loader)
        return
    try:
        # The instance attribute is removed before the module is loaded, so the module sees an unchanged loader.
        loader.exec_module = native.core.wrap_exec_module(
            lambda module: loader.__dict__.pop("exec_module", None), loader.exec_module, _imported
        )
    except AttributeError:
        pass  # a loader that takes no attributes: only POSIX operations are seen


def _imported(module: "ModuleType") -> None:
    """Called after the module is loaded, not when it is found: importlib.util.find_spec() only finds it."""
    while actions := _actions.pop(module.__name__, ()):  # an action may watch for the same module again
        for action in actions:
            _run(action, module)


def _once(loader: "Any") -> "Any":
    """A loader in place of one that is a class, for one import: of mmap, where Python has it built in."""
    assert native.core is not None

    def put_back(module: "ModuleType") -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = loader
        module.__loader__ = loader

    load = native.core.wrap_exec_module(put_back, loader.exec_module, _imported)
    namespace: Any = type(sys.implementation)  # types.SimpleNamespace: the program may not have imported types
    return namespace(create_module=loader.create_module, exec_module=load)


_finder = _Finder()


# ---- how long imports take ---------------------------------------------------------------


def time_imports() -> None:
    """Measure imports, and note when the script begins (csrc/ext/imports/import_times.c).

    Two functions of importlib are watched in place, and unwatched with all others.
    """
    if native.core is None:
        return
    native.core.watch(sys.modules["_frozen_importlib"]._find_and_load, "", role=_IMPORTS)
    if _script_runs():
        native.core.script_is_running()
    else:
        loader = sys.modules["_frozen_importlib_external"].FileLoader
        native.core.watch(loader.__dict__["__init__"], "", role=_LOADS)


def _script_runs() -> bool:
    """Whether tracing starts in the middle of the script, on this thread."""
    script = getattr(sys.modules.get("__main__"), "__dict__", None)  # a program may have removed or replaced it
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals is script:
            return True
    return False
