"""Parquet files of many small row groups: each has its own metadata, pages and reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of, number
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds

_WRITES = ("ParquetWriter.write_table", "ParquetWriter.write_batch")
_MORE = Remedy(
    "Write more rows together: 100,000 to 1,000,000 in a row group.",
    "for part in parts:\n    writer.write_table(part)",
    "pq.write_table(pa.concat_tables(parts), path, row_group_size=1 << 20)",
    "pyarrow",
)
_READS = ("pyarrow.parquet.read_table", "ParquetFile.", "Dataset.to_table", "pandas.read_parquet")


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Files whose footer says so when they are opened."""
    opened = calls_of(observed, "pyarrow.parquet.ParquetFile")
    small = [
        number(detail, "row_groups") >= max(limits["groups"], 1)
        and number(detail, "rows") <= limits["rows"] * number(detail, "row_groups")
        for detail in opened.details
    ]
    files = opened.where(small)
    codes = set(files.column("path").tolist())
    reads = calls_of(observed, *_READS)
    group = reads.where(code in codes for code in reads.column("path").tolist())
    if len(files) and len(group):
        yield _finding(observed, files, group)
    for _, written in calls_of(observed, *_WRITES).by("site", "path"):
        rows = sum(number(detail, "rows") for detail in written.details)
        if len(written) >= max(limits["groups"], 1) and 0 < rows <= limits["rows"] * len(written):
            yield _written(observed, written, rows, max(-(-rows // int(limits["rows"])), 1))


def _finding(observed: Observed, files: Group, group: Group) -> Finding:
    groups = sum(number(detail, "row_groups") for detail in files.details)
    rows = sum(number(detail, "rows") for detail in files.details)
    gain = observed.gain(group.scaled(group.total("duration") // 2), "half of the reads' time: what row groups cost "
                         "depends on their columns")  # fmt: skip
    evidence = Evidence(
        f"{len(files):,} files with {groups:,} row groups of {rows // groups:,} rows each; reading them took "
        f"{seconds(group.total('duration'))}, {group.total('reads'):,} system calls beneath.",
        {"files": len(files), "row_groups": groups, "rows": rows, "reads": group.total("reads")},
    )
    confidence = Confidence(0.6, "the footers' row groups are in the log")
    title = f"Row groups of {rows // groups:,} rows"
    return library_use.finding(observed, group, title, gain, [evidence], _MORE, confidence)


def _written(observed: Observed, group: Group, rows: int, needed: int) -> Finding:
    """rows: of all calls; needed: row groups that would do."""
    count, time = len(group), group.total("duration")
    gain = observed.gain(
        group.scaled(time * (count - needed) // count), "the share of these calls that fewer row groups do without"
    )
    evidence = Evidence(
        f"{count:,} {group.ops()[0]} of {rows // count:,} rows each took {seconds(time)}, {seconds(group.leaf_ns)} of "
        f"it in {group.total('writes'):,} writes.",
        {"calls": count, "rows": rows, "duration_ns": time, "writes": group.total("writes")},
    )
    confidence = Confidence(0.8, "the rows of each call are in the log; each call makes a row group")
    title = f"{count:,} row groups of {rows // count:,} rows are written"
    return library_use.finding(observed, group, title, gain, [evidence], _MORE, confidence)


RULE = Rule(
    "Parquet",
    find,
    {"groups": Limit(50, "row groups in a file", few=10), "rows": Limit(10_000, "rows of a group, at most")},
    NEEDS,
    topic="size",
    each_call=True,
)
