"""CSV, JSON and other text whose parsing takes far longer than reading it: a binary format need not be parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.enums import Role
from pyio_trace.insights import library_share, library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, number
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.units import seconds, size

#: Readers of text: (library, before, after).
_REMEDIES = {
    "pandas.read_json": ("pandas", "pd.read_json(path)", "pd.read_parquet(path, columns=[...])"),
    "pandas.read_csv": ("pandas", "pd.read_csv(path)", "pd.read_parquet(path, columns=[...])    # only those used"),
    "pandas.read_table": ("pandas", "pd.read_table(path)", "pd.read_parquet(path, columns=[...])"),
    "pandas.read_fwf": ("pandas", "pd.read_fwf(path)", "pd.read_parquet(path, columns=[...])"),
    "pandas.read_excel": ("pandas", "pd.read_excel(path)", "pd.read_parquet(path, columns=[...])"),
    "pandas.read_xml": ("pandas", "pd.read_xml(path)", "pd.read_parquet(path, columns=[...])"),
    "pandas.read_html": ("pandas", "pd.read_html(path)", "pd.read_parquet(path, columns=[...])"),
    "TextFileReader.__next__": ("pandas", "pd.read_csv(path, chunksize=n)", "pq.ParquetFile(path).iter_batches(n)"),
    "TextFileReader.get_chunk": ("pandas", "pd.read_csv(path, chunksize=n)", "pq.ParquetFile(path).iter_batches(n)"),
    "pyarrow.csv.read_csv": ("pyarrow", "csv.read_csv(path)", "pq.read_table(path, columns=[...])"),
    "pyarrow.json.read_json": ("pyarrow", "json.read_json(path)", "pq.read_table(path, columns=[...])"),
    "polars.read_csv": ("polars", "pl.read_csv(path)", "pl.scan_parquet(path).select('a', 'b').collect()"),
    "polars.read_ndjson": ("polars", "pl.read_ndjson(path)", "pl.scan_parquet(path).select('a', 'b').collect()"),
    "polars.read_json": ("polars", "pl.read_json(path)", "pl.scan_parquet(path).select('a', 'b').collect()"),
    "numpy.loadtxt": ("numpy", "np.loadtxt(path)", "np.load(path)    # of what np.save wrote"),
    "numpy.genfromtxt": ("numpy", "np.genfromtxt(path)", "np.load(path)    # of what np.save wrote"),
    "json.load": ("json", "json.load(f)", "pq.read_table(path)    # or another binary format"),
}
#: Bytes that are read of a file whose contents go through a mapping: to know its kind, and its first lines.
_LITTLE = 1 << 20
#: Readers that can leave columns out.
_WITH_USECOLS = ("pandas.read_csv", "pandas.read_table", "pandas.read_fwf", "pandas.read_excel")


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines that read text."""
    for group in library_share.lines(observed, _REMEDIES, limits):
        yield _finding(observed, group)


def _finding(observed: Observed, group: Group) -> Finding:
    op = group.ops()[0]
    parsing, reading = group.library_ns, group.leaf_ns
    gain = observed.gain(group.scaled(parsing), "parsing; reading a binary format takes some of it", "upper")
    read = group.total("read")
    little = read < _LITTLE * len(group)
    mapped = little and len(observed.calls.where_paths(group.paths()).where(role=Role.MAP)) > 0
    if mapped:  # what goes through the mapping is in no call
        what, beside = "", f"{seconds(parsing)} parsing, and reading from the mapped file"
    else:
        rate = f", {size(int(read / parsing * 1e9))}/s" if parsing and read else ""
        what, beside = f" of {size(read)}", f"{seconds(parsing)} parsing{rate}, {seconds(reading)} reading"
    shown = [detail for detail in group.details if number(detail, "columns")]
    columns = f" All {number(shown[0], 'columns')} columns were parsed." if _all_columns(shown) else ""
    evidence = Evidence(
        f"{len(group):,} {op}{what} took {seconds(group.total('duration'))}: {beside}.{columns}",
        {"calls": len(group), "read": read, "library_ns": parsing, "io_ns": reading},
    )
    library, before, after = _REMEDIES[op]
    text = "Keep the data in a binary format, converted once"
    if columns and op in _WITH_USECOLS:
        text += "; until then, read only the columns that are used (usecols=)"
    share = parsing / max(group.total("duration"), 1)
    title = f"Parsing takes {share:.0%} of {op}"
    confidence = Confidence(0.7, "parsing is the call's time without the system calls beneath")
    remedy = Remedy(f"{text}.", before, after, library)
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


def _all_columns(details: list[dict[str, object]]) -> bool:
    return bool(details) and not any("usecols" in detail or "names" in detail for detail in details)


RULE = Rule(
    "Text", find, library_share.LIMITS, NEEDS, untried="needs the program: which columns it uses is not in the log"
)
