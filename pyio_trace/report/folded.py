"""Stacks in the folded format of flame graph tools: "frame;frame;frame number"."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyio_trace.report.tables import printable_column


def folded(table: pa.Table, value: str) -> str:
    """The lines for a table of sums_tables.by_stack().  value: "time" (us), "calls" or "bytes"."""
    if value == "time":
        numbers = pc.divide(table["time"], 1000)
    elif value == "calls":
        numbers = table["calls"]
    else:
        numbers = pc.add(table["read"], table["written"])
    stacks = printable_column(pc.fill_null(table["call_stack"].combine_chunks(), "(no stack)"))
    numbers = numbers.combine_chunks()
    lines = pc.binary_join_element_wise(stacks, pc.cast(numbers, pa.string()), " ")
    return "".join(f"{line}\n" for line in lines.to_pylist())  # one line per distinct stack
