"""JSON schemas of what the commands print with --json and --format json."""

from __future__ import annotations

import json
from pathlib import Path
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
    from pyio_trace.analysis.typed_results import result_of, schema, views

    if name == "insights":
        found: dict[str, Any] = json.loads((Path(__file__).parent / "findings.schema.json").read_text("utf-8"))
        return found
    if name == "summary":
        return {"$schema": _DIALECT, "title": "pyio-trace summary --json", **schema(Summary)}
    return {"$schema": _DIALECT, "title": f"pyio-trace view {name} --json", **schema(result_of(views()[name]))}
