"""A growing file is written from the start for each item: twice the items make four times the bytes.

A state, a list of results or a table is saved as a whole whenever something is added to it: by opening the file with
mode "w", by truncating it, or as a new file that is renamed over the old one. Most of what is written was there
before. Append only what is new (a line of JSON, a row of a database), or write the whole less often.

Content that keeps its size, such as the latest checkpoint, is no finding, and neither is a file of SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import OpClass
from pyio_trace.insights import libraries, sql
from pyio_trace.insights.file_events import FILE_EVENTS
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rewrites import Rewritten, rewritten
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Gain, Observed

#: What writing a file consists of.
_KINDS = (OpClass.OPEN, OpClass.WRITE, OpClass.CLOSE, OpClass.META, OpClass.SYNC, OpClass.SPAN)
_TEXT = "Append only what is new, or write the whole at the end or for every hundredth item."
_REMEDIES = {
    "": Remedy(
        _TEXT,
        "for item in items:\n    lines.append(item)\n    Path(path).write_text('\\n'.join(lines))",
        "with open(path, 'a') as f:\n    for item in items:    # a line each\n        print(item, file=f, flush=True)",
    ),
    "json": Remedy(
        _TEXT,
        "for item in items:\n    done.append(item)\n    with open(path, 'w') as f:\n        json.dump(done, f)",
        "with open(path, 'a') as f:    # JSON lines: each item is one\n    for item in items:\n"
        "        f.write(json.dumps(item) + '\\n')\n        f.flush()",
        "json",
    ),
    "pickle": Remedy(
        _TEXT,
        "for item in items:\n    done.append(item)\n    with open(path, 'wb') as f:\n        pickle.dump(done, f)",
        "with open(path, 'ab') as f:    # only the new item; load() one by one\n    for item in items:\n"
        "        pickle.dump(item, f)\n        f.flush()",
        "pickle",
    ),
    "csv": Remedy(
        _TEXT,
        "for rows in parts:\n    table = pandas.concat([table, rows])\n    table.to_csv(path, index=False)",
        "for n, rows in enumerate(parts):    # only the new rows\n"
        "    rows.to_csv(path, mode='a', header=n == 0, index=False)",
        "pandas",
    ),
    "numpy": Remedy(
        "Write it at the end, or for every hundredth item; or write only the new rows to a mapped array.",
        "for item in items:\n    rows.append(item)\n    numpy.save(path, rows)",
        "for item in items:\n    rows.append(item)\nnumpy.save(path, rows)",
        "numpy",
    ),
    "parquet": Remedy(
        "Write each part once, as a row group.",
        "for rows in parts:\n    table = pandas.concat([table, rows])\n    table.to_parquet(path)",
        "with pyarrow.parquet.ParquetWriter(path, schema) as writer:\n    for rows in parts:\n"
        "        writer.write_table(rows)",
        "pyarrow",
    ),
}


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in rewritten(run.of(FILE_EVENTS), run.calls.path, limits["times"]):
        whole, needed = sum(one.sizes), one.sizes[-1]
        if not one.grows or run.is_database(one.name) or whole < limits["ratio"] * needed:
            continue
        calls = _writing(run, one)
        saved = run.times(calls, 1 - needed / whole, value="outer")
        gain = run.gain(saved, "the share of the bytes that were written before, in the time of the calls", "estimate")
        if len(calls) and gain.ns >= limits["share"] * run.wall_ns:
            yield _finding(run, one, calls, gain)


def _writing(run: Observed, one: Rewritten) -> CallTable:
    """What the program's lines that write the versions of a name do, to them and around it."""
    lines = run.calls.where(own=True, path=one.paths, kind=OpClass.WRITE).codes("site")
    own = run.calls.where(own=True, kind=_KINDS)
    return own.rows(np.isin(own.columns["site"], lines) & np.isin(own.columns["path"], [*one.paths, -1]))


def _finding(run: Observed, one: Rewritten, calls: CallTable, gain: Gain) -> Finding:
    whole, times, name = sum(one.sizes), len(one.sizes), one.name.rpartition("/")[2][:40]
    about = run.about(calls, gain)
    return Finding(
        title=f"{name} is written from the start {number(times)} times: {whole / one.sizes[-1]:.3g} times its bytes",
        evidence=[
            Evidence(
                f"{counted(times, 'version')} of it had {size(whole)}, the last one {size(one.sizes[-1])}: it grew, "
                f"and was written again. The calls took {seconds(calls.total('outer'))}.",
                {"times": times, "written": whole, "bytes": one.sizes[-1], "time_ns": calls.total("outer")},
            )
        ],
        remedy=_REMEDIES.get(libraries.library_of(run, calls), _REMEDIES[""]),
        confidence=Confidence(0.85, "the bytes of each version are in the log", ["who needs it in between is not"]),
        query=sql.rows({"path": calls.paths()[:MOST_NAMED], "site": calls.lines()[:MOST_NAMED]}),
        **about | {"files": [one.name]},
    )


RULE = Rule(
    "amount",
    find,
    limits={
        "times": Limit(5, "that the content of one name is written from the start, at least"),
        "ratio": Limit(2, "times the bytes of the last version that all versions have, at least"),
        "share": Limit(0.02, "of the wall time that writing them again takes, at least"),
    },
    needs=(FILE_EVENTS,),
)
