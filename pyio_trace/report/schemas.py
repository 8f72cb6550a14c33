"""JSON schemas of what the commands print with --json and --format json."""

from __future__ import annotations

from typing import Any

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Of outputs that are no view.
OUTPUTS = ("insights", "summary")


def names() -> tuple[str, ...]:
    """What there is a schema of: OUTPUTS, then the views."""
    from pyio_trace.analysis.typed_results import views

    return (*OUTPUTS, *views())


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one of names()."""
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER
    from pyio_trace.analysis.typed_results import result_of, schema, views

    if name == "insights":
        return _findings()
    if name == "summary":
        whole = schema(Summary)
        overview = next(one for one in whole["properties"]["overview"]["anyOf"] if "properties" in one)
        _not_required(overview, "wall")
        for kind in ("kinds", "processes"):
            split = overview["properties"][kind]["items"]["properties"]["split"]
            _not_required(split, *(f"{name}_ns" for name in PARTS_OF_OTHER))
        return {"$schema": _DIALECT, "title": "pyio-trace summary --json", **whole}
    return {"$schema": _DIALECT, "title": f"pyio-trace view {name} --json", **schema(result_of(views()[name]))}


def _findings() -> dict[str, Any]:
    """Of a list of findings, as report/findings.py writes it: a finding, its log, and what became of it."""
    from pyio_trace.analysis.typed_results import schema
    from pyio_trace.insights.changes import KINDS
    from pyio_trace.insights.finding import LEVELS, Finding

    finding = schema(Finding)
    parts = finding["properties"]
    parts["verified"] = {**parts["verified"]["anyOf"][0], "description": parts["verified"]["description"]}
    parts["confidence"]["properties"]["level"] = {"enum": [name for name, _ in LEVELS]}
    parts["confidence"]["required"].append("level")
    finding["required"] = [name for name in parts if name not in ("verified", "file_systems")] + ["log"]
    parts["log"] = {"type": "string", "description": "the log that it is about"}
    parts["change"] = {
        "enum": list(KINDS),
        "description": "of several runs of a program: what became of it between the first log and the last; gone: in a "
        "finding of the first log, all others: in one of the last",
    }
    parts["before_ns"] = {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
        "description": "beside change: recoverable_ns in the first log, null if it is new",
    }
    _closed(finding)
    return {
        "$schema": _DIALECT,
        "title": "Findings of pyio_trace",
        "description": "What pyio-trace insights --format json prints. Times are ns.",
        "type": "array",
        "items": finding,
    }


def _closed(schema: Any) -> None:
    """No object in it has other properties than those that are listed."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema["additionalProperties"] = False
        for one in schema.values():
            _closed(one)
    elif isinstance(schema, list):
        for one in schema:
            _closed(one)


def _not_required(schema: dict[str, Any], *names: str) -> None:
    """These keys are there where the run was sampled."""
    schema["required"] = [name for name in schema["required"] if name not in names]
