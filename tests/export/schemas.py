"""JSON schemas of formats that we write, from their documentation."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def table(*columns: str, **types: Any) -> dict[str, Any]:
    """A table of arrays with its length."""
    return {
        "type": "object", "required": ["length", *columns, *types],
        "properties": {
            "length": {"type": "integer"}, **{name: {"type": "array"} for name in columns},
            **{name: {"type": "array", "items": kind} for name, kind in types.items()},
        },
    }  # fmt: skip


_INTEGER, _NUMBER, _TEXT, _TRUTH = ({"type": one} for one in ("integer", "number", "string", "boolean"))
_MAYBE = {"type": ["integer", "null"]}
_MARKER = {
    "type": "object", "required": ["type", "operation", "source"],
    "properties": {
        "type": {"const": "FileIO"}, "operation": _TEXT, "source": _TEXT, "filename": _TEXT, "line": _TEXT,
        "offset": _INTEGER, "bytes": _INTEGER, "errno": _INTEGER, "calls": _INTEGER, "time_ns": _INTEGER,
        "in_flight": _INTEGER,
        "cause": {
            "type": "object", "required": ["time", "stack"],
            "properties": {"tid": _INTEGER, "time": _NUMBER, "stack": {"type": "integer", "minimum": 0}},
        },
    },
    "additionalProperties": False,
}  # fmt: skip
_THREAD = {
    "type": "object",
    "required": ["processType", "processStartupTime", "processShutdownTime", "registerTime", "unregisterTime",
                 "pausedRanges", "name", "isMainThread", "pid", "tid", "samples", "markers", "stackTable", "frameTable",
                 "stringArray", "funcTable", "resourceTable", "nativeSymbols"],
    "properties": {
        "processType": _TEXT, "processName": _TEXT, "name": _TEXT, "isMainThread": _TRUTH, "pid": _TEXT,
        "tid": _INTEGER, "pausedRanges": {"type": "array"}, "stringArray": {"type": "array", "items": _TEXT},
        "samples": table(stack=_MAYBE, time=_NUMBER, weight=_NUMBER)
        | {"required": ["stack", "time", "weight", "weightType", "length"]},
        "markers": table(
            data=_MARKER, name=_INTEGER, startTime=_NUMBER, endTime=_NUMBER, phase={"const": 1}, category=_INTEGER
        ),
        "stackTable": table(frame=_INTEGER, prefix=_MAYBE, category=_INTEGER, subcategory=_INTEGER),
        "frameTable": table("nativeSymbol", "innerWindowID", "implementation", "column", address={"const": -1},
                            inlineDepth=_INTEGER, category=_MAYBE, subcategory=_MAYBE, func=_INTEGER, line=_MAYBE),
        "funcTable": table("lineNumber", "columnNumber", name=_INTEGER, isJS=_TRUTH, relevantForJS=_TRUTH,
                           resource={"const": -1}, fileName=_MAYBE),
        "resourceTable": table("lib", "name", "host", "type"),
        "nativeSymbols": table("libIndex", "address", "name", "functionSize"),
    },
}  # fmt: skip
#: The processed profile of the Firefox Profiler, version 48 (its CHANGELOG-formats.md and src/types/profile.js), as far
#: as we use it.
FIREFOX: dict[str, Any] = {
    "type": "object", "required": ["meta", "libs", "threads"],
    "properties": {
        "meta": {
            "type": "object",
            "required": ["interval", "startTime", "processType", "product", "stackwalk", "version",
                         "preprocessedProfileVersion", "markerSchema", "categories"],
            "properties": {
                "interval": _NUMBER, "startTime": _NUMBER, "processType": _INTEGER, "stackwalk": {"enum": [0, 1]},
                "preprocessedProfileVersion": {"const": 48},
                "categories": {
                    "type": "array", "contains": {"properties": {"color": {"const": "grey"}}},
                    "items": {"required": ["name", "color", "subcategories"],
                              "properties": {"subcategories": {"prefixItems": [{"const": "Other"}], "minItems": 1}}},
                },
                "markerSchema": {"type": "array", "items": {"required": ["name", "display", "data"]}},
            },
        },
        "threads": {"type": "array", "items": _THREAD},
    },
}  # fmt: skip
_SAMPLED = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"}, "name": _TEXT,
        "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
        "startValue": _NUMBER, "endValue": _NUMBER, "weights": {"type": "array", "items": _NUMBER},
        "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
    },
}  # fmt: skip
#: Speedscope's file format (its src/lib/file-format-spec.ts), as far as we use it.
SPEEDSCOPE: dict[str, Any] = {
    "type": "object", "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": _TEXT, "exporter": _TEXT, "activeProfileIndex": _INTEGER,
        "shared": {
            "type": "object", "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": {
                "required": ["name"], "properties": {"name": _TEXT, "file": _TEXT, "line": _INTEGER}}}},
        },
        "profiles": {"type": "array", "items": _SAMPLED},
    },
}  # fmt: skip


def valid(value: Any, schema: dict[str, Any]) -> None:
    """Fails if a value is not as a schema says, where there is a library that can tell."""
    if find_spec("jsonschema"):
        import jsonschema

        jsonschema.validate(value, schema)
