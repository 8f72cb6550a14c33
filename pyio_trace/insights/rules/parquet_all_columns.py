"""Every column of a wide Parquet table is read: are all of them used?

Parquet stores each column by itself, so reading three of thirty takes a tenth of
the time. The log shows that no columns were chosen, but not which ones the
program uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import libraries, library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of, number
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

_READS = ("pyarrow.parquet.read_table", "ParquetFile.read", "Dataset.to_table", "pandas.read_parquet",
          "polars.read_parquet")  # fmt: skip
_REMEDIES = {
    "pandas.read_parquet": ("pandas", "pd.read_parquet(path)", "pd.read_parquet(path, columns=['a', 'b'])"),
    "Dataset.to_table": ("pyarrow", "data.to_table()", "data.to_table(columns=['a', 'b'])"),
    "polars.read_parquet": (
        "polars",
        "pl.read_parquet(path)",
        "pl.scan_parquet(path).select('a', 'b').collect()    # filters, too",
    ),
    "": ("pyarrow", "pq.read_table(path)", "pq.read_table(path, columns=['a', 'b'])"),
}
_DASK = (
    "dask",
    "dd.read_parquet(path)",
    "dd.read_parquet(path, columns=['a', 'b'],\n                filters=[('year', '==', 2003)])",
)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Reads of many columns without a choice of any, by line."""
    reads = calls_of(observed, *_READS)
    whole = reads.where(
        _reads_all(detail) and number(detail, "columns") >= limits["columns"] for detail in reads.details
    )
    for _, group in whole.by("site", "op"):
        time = group.total("duration")
        if time >= limits["share"] * observed.wall_ns and _read(group) >= limits["bytes"]:
            yield _finding(observed, group, time)


def _reads_all(detail: Mapping[str, object]) -> bool:
    """Whether no column was named, or as many as there are, as Dask does."""
    names = detail.get("names")
    return names is None or (isinstance(names, list) and len(names) >= number(dict(detail), "columns") > 0)


def _read(group: Group) -> int:
    """Bytes that were read; of a file that Dask opened, as many as its columns have there."""
    return group.total("read") or sum(number(detail, "stored") for detail in group.details)


def _finding(observed: Observed, group: Group, time: int) -> Finding:
    columns, read = max(number(detail, "columns") for detail in group.details), _read(group)
    gain = observed.gain(group.scaled(time), "all of these reads; the columns that are used take their share of it")
    evidence = Evidence(
        f"{len(group):,} {group.ops()[0]} of {size(read)} took {seconds(time)} and chose no columns.",
        {"reads": len(group), "columns": columns, "read": read, "time_ns": time},
    )
    library, before, after = _REMEDIES.get(group.ops()[0], _REMEDIES[""])
    if libraries.is_line_of_dask(observed, group.sites()):
        library, before, after = _DASK
    remedy = Remedy("Name the columns that are used.", before, after, library)
    confidence = Confidence(0.4, "no columns were chosen", ["which columns are used is not known"])
    title = f"All {columns} columns are read"
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence, severity="info")


RULE = Rule(
    "Parquet",
    find,
    {
        "columns": Limit(8, "of the table, at least"),
        "share": Limit(0.05, "of the wall time that reading them takes, at least"),
        "bytes": Limit(1 << 20, "read by one line, at least"),
    },
    NEEDS,
    general=True,
)
