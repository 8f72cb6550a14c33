"""What tracing itself cost: measured for calls of libraries, else estimated from the number of operations.

Watching a call of a library takes microseconds, which differ from library to
library and from call to call.  So each process measures them.  To measure an
operation of POSIX would take as long as recording it.  But its cost is known from
benchmarks/ (medians of bare and traced rounds in turn), and the log has the
number of operations of each kind.
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
#: ns for measuring a file mapping, and for each page of it that is looked at: reads of /proc/self/pagemap, timed on the
#: machine of docs/evidence/benchmarks.md.
MAPPING, PAGE = 4_000, 30
#: Bytes of a page, and pages that are looked at in a large mapping (docs/explanation/blind-spots.md).
_PAGE_SIZE, _MOST_PAGES = 4096, 512 * 256


def estimate(
    records: int, coalesced: int, counted: int, mappings: Iterable[Mapping[str, Any]] = (), watching: int = 0
) -> int:
    """ns spent on tracing.  records: rows; coalesced: calls beyond the first of each row; counted: calls without a
    row; mappings: rows of Log.mappings(); watching: ns, the sum of Process.watch_time."""
    time = RECORDED * records + COALESCED * coalesced + COUNTED * counted + watching
    for row in mappings:
        count, length = max(row["mappings"], 0), max(row["length"], 0)
        measured = max(count - max(row["unmeasured"], 0), 0)
        if measured:
            time += MAPPING * measured + PAGE * min(length * measured // count // _PAGE_SIZE, _MOST_PAGES * measured)
    return time
