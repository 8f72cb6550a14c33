"""Estimates what tracing itself cost, from the number of operations.

One run cannot be measured with and without tracing.  But the cost of one
operation is known from benchmarks/ (medians of bare and traced rounds in turn), and the
log has the number of operations of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: ns for one recorded operation: entry, stack, record, exit.  docs/evidence/benchmarks.md, "Python, os.pread 4 KiB".
RECORDED = 65
#: ns for a call coalesced with like calls.  docs/evidence/benchmarks.md, "Python, f.read(16)".
COALESCED = 20
#: ns for a call that was only counted.  Reasoned, not measured: two clock readings and five atomic adds.
COUNTED = 40
#: ns for a call of a watched library in addition to its record: path, bytes and details.  Between 0.5 us (sqlite3) and
#: 10 us (numpy.load) of processor time; making an HDF5 dataset with h5py takes 50.
WATCHED = 3_000
#: ns for measuring a file mapping, and for each page of it that is looked at: reads of /proc/self/pagemap, timed on the
#: machine of docs/evidence/benchmarks.md.
MAPPING, PAGE = 4_000, 30
#: Bytes of a page, and pages that are looked at in a large mapping (docs/explanation/blind-spots.md).
_PAGE_SIZE, _MOST_PAGES = 4096, 512 * 256


def estimate(
    records: int, coalesced: int, counted: int, mappings: Iterable[Mapping[str, Any]] = (), watched: int = 0
) -> int:
    """ns spent on tracing.  records: rows; coalesced: calls beyond the first of each row; counted: calls without a
    row; mappings: rows of Log.mappings(); watched: outermost calls of libraries among the rows."""
    time = RECORDED * records + COALESCED * coalesced + COUNTED * counted + WATCHED * watched
    for row in mappings:
        count, length = max(row["mappings"], 0), max(row["length"], 0)
        measured = max(count - max(row["unmeasured"], 0), 0)
        if measured:
            time += MAPPING * measured + PAGE * min(length * measured // count // _PAGE_SIZE, _MOST_PAGES * measured)
    return time
