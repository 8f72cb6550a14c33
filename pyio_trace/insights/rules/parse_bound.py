"""CSV, JSON and other text whose parsing takes far longer than reading it: a binary format need not be parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyio_trace.enums import Role
from pyio_trace.insights import library_share, library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, number
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.source_files import statement
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

#: Options with which pandas parses in Python: asked for, or since the parser in C has no such separator or end.
_IN_PYTHON = re.compile(
    rb"engine\s*=\s*['\"]python|skipfooter\s*=|(sep|delimiter)\s*=\s*r?(['\"])(?!(\\s\+|\\t)\2)[^'\"\n]{2,}\2"
)
_IN_C = Remedy(
    "Let the parser that is written in C do it: with one character as the separator (or r'\\s+', any white space), and "
    "without skipfooter; or keep the data in a binary format, converted once.",
    "pd.read_csv(path, sep='[ ]+', engine='python')",
    "pd.read_csv(path, sep=r'\\s+')",
    "pandas",
)
#: Bytes of a chunk, at most, where making a frame of it takes longer than parsing it.
_SMALL_CHUNK = 65536
#: Chunks, at least: where there are few, there may be no more rows.
_CHUNKS_LEAST = 20
_CHUNKS = Remedy(
    "Read more rows at a time: each chunk becomes a frame of its own, which takes as long as parsing 100 KiB.",
    "for part in pd.read_csv(path, chunksize=100):\n    use(part)",
    "for part in pd.read_csv(path, chunksize=100_000):\n    use(part)",
    "pandas",
)


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
    if op.startswith("TextFileReader.") and len(group) >= _CHUNKS_LEAST and read < _SMALL_CHUNK * len(group):
        title = f"{len(group):,} chunks become a frame each" + (
            f", of {size(read // len(group))} of text" if read else ""
        )
        remedy = _CHUNKS
    elif library == "pandas" and any(_IN_PYTHON.search(statement(site.file, site.line)) for site in group.sites()[:1]):
        remedy = _IN_C
    else:
        remedy = Remedy(f"{text}.", before, after, library)
    confidence = Confidence(0.7, "parsing is the call's time without the system calls beneath")
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


def _all_columns(details: list[dict[str, object]]) -> bool:
    return bool(details) and not any("usecols" in detail or "names" in detail for detail in details)


RULE = Rule(
    "Text", find, library_share.LIMITS, NEEDS, untried="needs the program: which columns it uses is not in the log"
)
