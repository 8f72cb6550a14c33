"""Runs the code of remedies, traced: each before and each after in a folder and a span of its own.

Arguments: a file with the rows (JSON), one for the results.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pyio_trace


def text_of(value: Any) -> str:
    """A value such that equal ones are equal texts, whichever class holds them."""
    for name in ("to_pylist", "rows", "tolist", "tobytes"):
        if hasattr(value, name):
            return repr(getattr(value, name)())
    return repr(value.values.tolist()) if hasattr(value, "values") else repr(value)


def run(row: dict[str, str], which: str) -> list[str]:
    """What one of them gives."""
    used: list[str] = []
    space: dict[str, Any] = {"use": lambda value: used.append(text_of(value)), "__name__": "__main__"}
    exec(compile(row["make"], "make.py", "exec"), space)
    with pyio_trace.span(f"{row['name']} {which}"):
        exec(compile(f"{row[which]}\n{row['act']}", str(Path("row.py").absolute()), "exec"), space)
    exec(compile(row["result"], "result.py", "exec"), space)
    return sorted(used)


def main(rows: str, results: str) -> None:
    here, found = Path.cwd(), {}
    for row in json.loads(Path(rows).read_text()):
        for which in ("before", "after"):
            folder = here / f"{row['name']} {which}".replace("/", "_")
            folder.mkdir()
            os.chdir(folder)
            try:
                found[f"{row['name']} {which}"] = {"used": run(row, which)}
            except ImportError as error:
                found[f"{row['name']} {which}"] = {"lacks": str(error)}
            except Exception:
                found[f"{row['name']} {which}"] = {"failed": traceback.format_exc()}
            os.chdir(here)
    Path(results).write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # with what libraries' threads still hold


if __name__ == "__main__":
    main(*sys.argv[1:])
