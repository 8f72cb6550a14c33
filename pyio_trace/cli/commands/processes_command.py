"""The processes of a run: their names, who started them, how they ended.

Text has one row for each process, below the process that started it: its name
with its pid, when it began (in seconds since the run began) and how long it
lasted (in seconds; empty: its end was not seen); of a batch job, also the node
and the job with its step (4711.0); job_run is the same for all ranks that one
launcher started, on all hosts.  csv, json and parquet have
all columns of Log.processes(), with begin and end in ns since the epoch; the
words of argv and blind are joined by spaces.

  pyio-trace processes LOG
  pyio-trace processes LOG --format csv --output processes.csv
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pyio_trace.cli.parser import Parser, add_log, add_table, open_log, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log


_DEEPEST = 16  # levels that are indented


def arguments(parser: Parser) -> None:
    add_log(parser)
    add_table(parser)


def run(arguments: argparse.Namespace) -> int:
    log = open_log(arguments.log)
    table = _shown(log) if arguments.format == "text" else _plain(log.processes())
    return write_rows(table.to_batches(), table.schema, arguments)


def _plain(table: pa.Table) -> pa.Table:
    """The table with its lists joined to texts, because csv has no lists."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            lists = table[field.name].to_pylist()
            texts = pa.array([" ".join(map(str, values or ())) for values in lists], pa.string())
            table = table.set_column(at, field.name, texts)
    return table


def _shown(log: Log) -> pa.Table:
    import pyarrow as pa

    from pyio_trace.analysis.calls.lifetimes import entries_of, is_continuation
    from pyio_trace.join.processes.process_names import job_text, label, run_text

    start = int(log.info()["start"])
    rows = log.processes().to_pylist()
    continued = {row["parent"] for row in rows if is_continuation(rows, row)}
    in_job, launched = any(row["job"] for row in rows), any(run_text(row) != job_text(row) for row in rows)
    shown = []
    for depth, row in _as_tree(rows):
        if row["index"] not in continued:  # shown with the entry that continues it
            begin = min(rows[entry]["begin"] for entry in entries_of(rows, row["index"]))
            shown.append(
                {
                    "process": "  " * depth + label(row),
                    "time": _in_64_bits(begin - start),
                    "duration": None if row["end"] is None else _in_64_bits(max(row["end"] - begin, 0)),
                    "ended": row["ended"],
                    "node": row["node"] or row["host"],
                    "job": job_text(row),
                    "job_run": run_text(row),
                    "site": row["site"],
                    "command": " ".join(row["argv"]) or row["executable"],
                }
            )
    text, number = pa.string(), pa.int64()
    job = {"node": text} if in_job or launched else {}
    job |= ({"job": text} if in_job else {}) | ({"job_run": text} if launched else {})
    schema = {"process": text, "time": number, "duration": number, "ended": text, **job, "site": text, "command": text}
    return pa.Table.from_pylist(shown, pa.schema(schema))


def _in_64_bits(difference: int) -> int:
    """The nearest int64.  Times of a forged log may differ by more."""
    return min(max(difference, -(1 << 63)), (1 << 63) - 1)


def _as_tree(rows: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """(depth, row) of each process, parents first.  An exec stays at its depth."""
    children: dict[int | None, list[dict[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    found: list[tuple[int, dict[str, Any]]] = []
    listed: set[int] = set()
    for top in [*children.get(None, []), *rows]:  # in forged logs, processes may have started each other
        left = [(0, top)]
        while left:
            depth, row = left.pop()
            if row["index"] in listed:
                continue
            listed.add(row["index"])
            found.append((depth, row))
            below = children.get(row["index"], [])
            left += [(min(depth + (child["pid"] != row["pid"]), _DEEPEST), child) for child in reversed(below)]
    return found
