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
    from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER
    from pyio_trace.analysis.typed_results import result_of, schema, views

    if name == "insights":
        found: dict[str, Any] = json.loads((Path(__file__).parent / "findings.schema.json").read_text("utf-8"))
        return found
    if name == "summary":
        whole = schema(Summary)
        overview = next(one for one in whole["properties"]["overview"]["anyOf"] if "properties" in one)
        _not_required(overview, "wall")
        for kind in ("kinds", "processes"):
            split = overview["properties"][kind]["items"]["properties"]["split"]
            _not_required(split, *(f"{name}_ns" for name in PARTS_OF_OTHER))
        return {"$schema": _DIALECT, "title": "pyio-trace summary --json", **whole}
    return {"$schema": _DIALECT, "title": f"pyio-trace view {name} --json", **schema(result_of(views()[name]))}


def _not_required(schema: dict[str, Any], *names: str) -> None:
    """These keys are there where the run was sampled."""
    schema["required"] = [name for name in schema["required"] if name not in names]
