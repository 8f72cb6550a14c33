"""The views that pyio-trace view prints, one line each.

--json gives each view's name, description and result: its fields and types.

  pyio-trace views
  pyio-trace views --json
"""

from __future__ import annotations

import argparse
import json

from pyio_trace.cli.parser import Parser, add_format, add_output, write_text


def arguments(parser: Parser) -> None:
    add_format(parser, "text", "json")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.analysis.typed_results import described, result_of, schema, views

    known = views()
    if arguments.format == "json":
        listed = [
            {"name": name, "about": described(reducer), "result": schema(result_of(reducer))}
            for name, reducer in known.items()
        ]
        return write_text(json.dumps(listed, indent=2) + "\n", arguments)
    from pyio_trace.report.views_text import list_lines

    names = {name: described(reducer) for name, reducer in known.items()}
    return write_text("".join(f"{line}\n" for line in list_lines(names)), arguments)
