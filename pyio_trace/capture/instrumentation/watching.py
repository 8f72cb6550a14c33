"""Puts an instrument's targets under watch; imported when the first library with an instrument is."""

from __future__ import annotations

from pyio_trace import native
from pyio_trace.capture.instrumentation.instrument import KINDS, MOVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from pyio_trace.capture.instrumentation.instrument import Instrument, Target


def load(where: str) -> Instrument:
    """The instrument that a module describes: ``"package.module"`` or ``"package.module:name"``."""
    module, _, name = where.partition(":")
    name = name or "instrument"
    # not importlib, a module that the program may not have imported
    found: Instrument = getattr(__import__(module, fromlist=(name,)), name)
    return found


def watch(target: Target, module: ModuleType) -> str | None:
    """Watch one function.  Returns the reason where that is not possible."""
    found = find(module, target.where)
    if found is None:
        return f"{module.__name__} has no {target.where}"
    assert native.core is not None  # nothing is armed without it
    index, keyword, path = -1, None, None
    if isinstance(target.path, str):
        index, keyword = _position(found, target.path, target.position), target.path
    elif target.path is not None:
        path = target.path
    moved = target.moved
    why_not: str | None = native.core.watch(
        found,
        name_of(target, module),
        kind=KINDS.index(target.kind),
        path_index=index,
        path_keyword=keyword,
        path=path,
        details=target.details,
        after=target.after,
        bytes=moved if callable(moved) else None,
        bytes_source=len(MOVED) if callable(moved) else MOVED.index(moved),
        role=target.hands_over,
        step_name=target.steps,
        only_if=target.only_if,
        is_property=isinstance(_attribute(module, target.where), property),
    )
    return why_not


def name_of(target: Target, module: ModuleType) -> str:
    """The operation's name in the log."""
    if target.name or "." in target.where:
        return target.name or target.where
    return f"{module.__name__.partition('.')[0]}.{target.where}"


def find(module: ModuleType, where: str) -> object | None:
    """The function itself, unwrapped from staticmethod and the like."""
    found = _attribute(module, where)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    if type(found).__name__ == "instancemethod":  # pybind11's, around a builtin function
        found = found.__func__  # type: ignore[attr-defined]
    if type(found).__name__ == "Frameless":  # instrument_registry.py has replaced it by one that hands the context over
        found = found.__wrapped__  # type: ignore[attr-defined]
    # numpy's dispatcher, of which other code may hold a reference: it calls a Python function
    found = getattr(found, "_implementation", found)
    if type(found).__name__ == "cython_function_or_method":  # a decorator compiled by Cython does not expose it: same
        found = getattr(found, "__wrapped__", found)
    return found


def _attribute(module: ModuleType, where: str) -> object | None:
    """What is there; what a class has is taken from its dictionary, unbound."""
    owner: object = module
    *classes, last = where.split(".")
    for name in classes:
        owner = getattr(owner, name, None)
    return vars(owner).get(last) if isinstance(owner, type) else getattr(owner, last, None)


def _position(function: object, name: str, given: int | None) -> int:
    """The index of an argument; -1: it is given by keyword only."""
    if given is not None:
        return given
    code = getattr(function, "__code__", None)
    names = getattr(code, "co_varnames", ())[: getattr(code, "co_argcount", 0)]
    return names.index(name) if name in names else -1
