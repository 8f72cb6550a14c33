"""A filter reads whole Parquet files, and keeps little of them.

A reader skips a row group if its statistics show that no row can match. That
needs files sorted by the column of the filter, or a folder for each of its
values (partitions).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of, number
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

_READS = ("pyarrow.parquet.read_table", "Dataset.to_table", "Fragment.to_table", "Scanner.to_table")


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Reads with a filter, by line."""
    reads = calls_of(observed, *_READS)
    filtered = reads.where(detail.get("filtered") is True for detail in reads.details)
    for _, group in filtered.by("site"):
        read, kept = group.total("read"), group.total("asked")
        if read >= limits["bytes"] and read >= limits["ratio"] * max(kept, 1):
            yield _finding(observed, group, read, kept)


def _finding(observed: Observed, group: Group, read: int, kept: int) -> Finding:
    gain = observed.gain(
        group.scaled(int(group.total("duration") * (1 - kept / read))), "the share of the reads that the filter drops"
    )
    rows = sum(number(detail, "rows") for detail in group.details)
    evidence = Evidence(
        f"{len(group):,} reads with a filter read {size(read)} and kept {rows:,} rows, {size(kept)} in memory, in "
        f"{seconds(group.total('duration'))}.",
        {"reads": len(group), "read": read, "kept": kept, "rows": rows},
    )
    remedy = Remedy(
        "Sort the rows by the column of the filter when they are written, or partition by it.",
        "pq.write_table(table, path)\npq.read_table(path, filters=[('day', '=', day)])",
        "pq.write_table(table.sort_by('day'), path, row_group_size=100_000)\n"
        "pq.read_table(path, filters=[('day', '=', day)])",
        "pyarrow",
    )
    confidence = Confidence(
        0.7, "bytes read and bytes returned are in the log", ["by which column is filtered is not known"]
    )
    title = f"A filter keeps {size(kept)} of {size(read)} that are read"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "Parquet",
    find,
    {
        "bytes": Limit(1 << 20, "read by one line with a filter, at least"),
        "ratio": Limit(10, "times the bytes that it returns, at least"),
    },
    NEEDS,
    each_call=True,
)
