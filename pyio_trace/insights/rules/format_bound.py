"""Formatting text takes far longer than writing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_share, library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Rule
from pyio_trace.units import seconds, size

#: Writers of text: (library, before, after).
_REMEDIES = {
    "DataFrame.to_csv": ("pandas", "df.to_csv(path)", "df.to_parquet(path)    # if nobody needs the text"),
    "DataFrame.to_json": ("pandas", "df.to_json(path)", "df.to_parquet(path)    # if nobody needs the text"),
    "DataFrame.to_excel": ("pandas", "df.to_excel(path)", "df.to_parquet(path)    # if nobody needs the sheet"),
    "DataFrame.to_xml": ("pandas", "df.to_xml(path)", "df.to_parquet(path)"),
    "DataFrame.to_html": ("pandas", "df.to_html(path)", "df.to_parquet(path)"),
    "DataFrame.to_string": ("pandas", "df.to_string(path)", "df.to_parquet(path)"),
    "DataFrame.write_csv": ("polars", "df.write_csv(path)", "df.write_parquet(path)    # if nobody needs the text"),
    "DataFrame.write_json": ("polars", "df.write_json(path)", "df.write_parquet(path)    # if nobody needs the text"),
    "DataFrame.write_ndjson": (
        "polars",
        "df.write_ndjson(path)",
        "df.write_parquet(path)    # if nobody needs the text",
    ),
    "pyarrow.csv.write_csv": ("pyarrow", "csv.write_csv(table, path)", "pq.write_table(table, path)"),
    "numpy.savetxt": ("numpy", "np.savetxt(path, array)", "np.save(path, array)"),
    "json.dump": ("json", "json.dump(data, f)", "f.write(json.dumps(data))    # the C encoder, in one call"),
}

#: Calls for so many bytes, on average, at most, and so many of them, cost what a call costs, not what the text does:
#: (before, after) by library.
_LITTLE, _MANY = 4096, 10
_ROWS = {
    "pandas": (
        "for row in rows:\n    pd.DataFrame([row]).to_csv(path, mode='a', header=False)",
        "pd.DataFrame(rows).to_csv(path, mode='a', header=False)",
    ),
    "polars": (
        "with open(path, 'wb') as f:\n    for row in rows:\n        pl.DataFrame([row]).write_ndjson(f)",
        "pl.DataFrame(rows).write_ndjson(path)",
    ),
    "numpy": (
        "with open(path, 'w') as f:\n    for row in rows:\n        np.savetxt(f, [row])",
        "np.savetxt(path, rows)",
    ),
}


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines that write text."""
    for group in library_share.lines(observed, _REMEDIES, limits):
        yield _finding(observed, group)


def _finding(observed: Observed, group: Group) -> Finding:
    op = group.ops()[0]
    formatting, written = group.library_ns, group.total("written")
    gain = observed.gain(group.scaled(formatting), "formatting; a binary format takes some of it", "upper")
    share = formatting / max(group.total("duration"), 1)
    evidence = Evidence(
        f"{len(group):,} {op} took {seconds(group.total('duration'))}: {seconds(formatting)} formatting, "
        f"{seconds(group.leaf_ns)} to write {size(written)}.",
        {"calls": len(group), "written": written, "library_ns": formatting, "io_ns": group.leaf_ns},
    )
    library, before, after = _REMEDIES[op]
    title = f"Formatting text takes {share:.0%} of {op}"
    rows = _ROWS.get(library)
    if rows is not None and len(group) >= _MANY and written <= _LITTLE * len(group):
        title = f"{len(group):,} {op} write {size(written // len(group))} each"
        remedy = Remedy("Collect the rows, and write them in one call: most of a call does not depend on how many "
                        "there are.", *rows, library)  # fmt: skip
        confidence = Confidence(0.7, "calls and bytes are in the log; whether rows can wait for each other is not")
        return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)
    confidence = Confidence(0.7, "formatting is the call's time without the system calls beneath")
    text = "Write a binary format."
    if library == "json":
        text = "Make the text in one call, and without indent, which C code then does; or write a binary format."
    remedy = Remedy(text, before, after, library)
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule("Text", find, library_share.LIMITS, NEEDS, yields_to=("written-again",))
