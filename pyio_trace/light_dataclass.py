"""dataclasses.dataclass, made in a fraction of the time.

The reading half has some sixty such classes, and the end of a small run imports
them all: dataclasses compiles up to seven functions for each, which takes a
sixth of that end.  Here nothing is compiled.  The constructor is a closure, which
takes half a microsecond more for each instance; comparison, hash, repr and the refusal
of changes are functions that all classes share.  Everything else is as in
dataclasses, for mypy too.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False) -> type | Callable[[type], type]:
        """As dataclasses.dataclass(), of whose options there is only this one."""

        def make(cls: type) -> type:
            own = frozenset(vars(cls))
            has_doc = bool(cls.__doc__)
            if not has_doc:
                cls.__doc__ = cls.__name__  # else dataclasses makes one, which takes as long as all the rest
            made = dataclasses.dataclass(cls, init=False, eq=False, repr=False)
            if not has_doc:
                made.__doc__ = f"{made.__name__}({', '.join(one.name for one in dataclasses.fields(made))})"
            compared = [one.name for one in dataclasses.fields(made) if one.compare]
            shared = {
                "_compared": attrgetter(*compared) if compared else type,
                "__init__": _constructor(made),
                "__repr__": _repr,
            }
            if "__eq__" not in own:
                shared |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
            if frozen:
                shared |= {"__setattr__": _unchangeable, "__delattr__": _undeletable}
            for name, value in shared.items():
                if name not in own:
                    setattr(made, name, value)
            return made

        return make if cls is None else make(cls)


def _constructor(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    names = tuple(field.name for field in fields)
    known = frozenset(names)
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    factories = {one.name: one.default_factory for one in fields if one.default_factory is not dataclasses.MISSING}
    is_checked = hasattr(cls, "__post_init__")

    def __init__(self: Any, /, *args: Any, **named: Any) -> None:
        if len(args) + len(named) == len(names):
            given = self.__dict__
            given.update(zip(names, args, strict=False))
            given.update(named)
            if given.keys() == known:
                if is_checked:
                    self.__post_init__()
                return
        values = {**defaults, **dict(zip(names, args, strict=False)), **named}
        for name, make in factories.items():
            if name not in values:
                values[name] = make()
        if values.keys() != known or len(args) > len(names) or not named.keys().isdisjoint(names[: len(args)]):
            raise TypeError(f"{cls.__qualname__}({', '.join(names)}) was given {len(args)} values and {list(named)}")
        self.__dict__.update(values)
        if is_checked:
            self.__post_init__()

    return __init__


def _unchangeable(one: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _undeletable(one: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _equal(one: Any, other: Any) -> bool:
    return one._compared(one) == one._compared(other) if other.__class__ is one.__class__ else NotImplemented


def _hash(one: Any) -> int:
    return hash(one._compared(one))


def _repr(one: Any) -> str:
    shown = (f"{field.name}={getattr(one, field.name)!r}" for field in dataclasses.fields(one) if field.repr)
    return f"{type(one).__qualname__}({', '.join(shown)})"
