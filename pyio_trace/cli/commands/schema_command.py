"""The JSON schema of what a command prints: `insights`, `summary`, or a view.

For programs that read the output, and for agents: each field with its type and
meaning.  docs/how-to/agents.md shows how to use them.

  pyio-trace schema insights
  pyio-trace schema summary > summary.schema.json
  pyio-trace schema by_line
"""

from __future__ import annotations

import argparse
import json

from pyio_trace.cli.parser import Parser, add_output, write_text
from pyio_trace.errors import ConfigError
from pyio_trace.values import did_you_mean


def arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="insights, summary, or a view that pyio-trace views lists")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.report.schemas import OUTPUTS, names, schema_of

    known = names()
    if arguments.name not in known:
        near = did_you_mean(arguments.name, list(known)) or f"; use {', '.join(OUTPUTS)}, or a view of pyio-trace views"
        raise ConfigError("bad-value", f"schema: there is none of {arguments.name!r}{near}")
    return write_text(json.dumps(schema_of(arguments.name), indent=2) + "\n", arguments)
