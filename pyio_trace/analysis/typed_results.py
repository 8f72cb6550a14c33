"""Results of reducers as JSON: any dataclass of numbers, strings, lists and further dataclasses."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any

import numpy as np
import pyarrow as pa

from pyio_trace import plug_ins
from pyio_trace.analysis.reducer import Reducer, found
from pyio_trace.errors import ConfigError, printable
from pyio_trace.schema_keys import Keys

_JSON_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}


#: Views of other distributions are entry points of this group: the view's name, and its class.
GROUP = "pyio_trace.views"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def views(third_party: bool = True) -> dict[str, type[Reducer[Any, Any]]]:
    """The reducers whose result is typed, by name; ours win.  Raises ConfigError for a third party's that is none."""
    ours = {name: reducer for name, reducer in found().items() if is_dataclass(result_of(reducer))}
    return dict(sorted((_third_party() | ours).items())) if third_party else ours


def _third_party() -> dict[str, type[Reducer[Any, Any]]]:
    views = {}
    for name, where in plug_ins.of_group(GROUP).items():
        blame = f"the view {printable(name)!r} of {printable(where)}"
        try:
            view: Any = plug_ins.loaded(where)
            sound = bool(_NAME.fullmatch(name)) and is_dataclass(result_of(view)) and bool(view.columns)
        except Exception as error:  # whatever its module does when it is imported
            what = f"{type(error).__name__}: {error}"
            raise ConfigError("bad-view", f"{blame} cannot be loaded ({what}); repair or uninstall it") from None
        if not sound:
            raise ConfigError("bad-view", f"{blame} is no reducer with a typed result; repair or uninstall it")
        views[name] = view
    return views


def described(reducer: type[Reducer[Any, Any]]) -> str:
    """What a view shows, in one line: the first sentence of its module."""
    import sys

    text = (sys.modules[reducer.__module__].__doc__ or "").split("\n\n")[0]
    return " ".join(text.split()).rstrip(".")


def result_of(reducer: type[Reducer[Any, Any]]) -> Any:
    """The type of a view's result: what its finish() returns."""
    finish = reducer.finish
    name = finish.__annotations__["return"]
    # The other annotations may name what a module imports for types alone.
    return finish.__globals__.get(name) if isinstance(name, str) else name


def as_plain(value: Any) -> Any:
    """A result as JSON has it: objects, arrays, numbers, strings."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): as_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(one) for one in value]
    if isinstance(value, pa.Table):
        return value.to_pylist()
    return value.item() if isinstance(value, np.generic) else value


def schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type that a result is made of.

    What Annotated adds to a type is a description, or Keys of the schema.
    """
    if is_dataclass(kind):
        properties = {name: schema(one) for name, one in fields_of(kind).items()}
        about = " ".join((kind.__doc__ or "").split())
        return {"type": "object", "description": about, "properties": properties, "required": list(properties)}
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        made = schema(parts[0])
        for more in parts[1:]:
            made |= more.keys if isinstance(more, Keys) else {"description": more}
        return made
    if origin in (typing.Union, UnionType):
        return {"anyOf": [schema(part) for part in parts]}
    if origin is list:
        return {"type": "array", "items": schema(parts[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [schema(part) for part in parts], "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1])}
    return {"type": _JSON_TYPES[kind]} if kind in _JSON_TYPES else {}


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a result's dataclass and their types."""
    hints = typing.get_type_hints(kind, localns={"pa": pa}, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def types_of(kinds: Iterable[Any]) -> Iterator[Any]:
    """The dataclasses that these types consist of, each once, outer ones first."""
    seen: set[Any] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            yield kind
            waiting[:0] = fields_of(kind).values()
        waiting[:0] = typing.get_args(kind)


def spelled(kind: Any) -> str:
    """A type as one writes it."""
    if typing.get_args(kind):
        return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(kind))
    return str(getattr(kind, "__name__", kind))
