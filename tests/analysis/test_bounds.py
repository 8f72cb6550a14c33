"""Where a log has more of something than is kept in memory, the summary gives bounds that hold, and says so."""

from __future__ import annotations

from functools import partial

import pytest

from pyio_trace.analysis.summary import places, summary_sums
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.sums.byte_ranges import ByteRanges
from pyio_trace.analysis.sums.counts_and_times import KeyedSums
from pyio_trace.events import ALL_COLUMNS
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

#: Every second byte of a file, read twice; then many small files, written by one line.
_READS = """
import os
with open("data", "wb") as file:
    file.write(bytes(4000))
data = os.open("data", os.O_RDONLY)
for again in range(2):
    for place in range(0, 4000, 2):
        os.pread(data, 1, place)
for number in range(100):
    os.close(os.open(f"out{number}", os.O_CREAT | os.O_WRONLY))
"""
_DISTINCT = "distinct bytes are an upper bound: too many separate ranges to keep"
_FILES = "lines may have used more files than shown: too many to keep"


def test_a_run_within_the_bounds_is_exact(program: Runner) -> None:
    summary = summarize(succeeded(program.traced(_READS)).log)
    assert (summary.bytes.distinct_read, summary.bytes.distinct_filled) == (2000, 0)
    assert not {_DISTINCT, _FILES}.intersection(summary.unseen.notes)


def test_more_ranges_than_are_kept(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN memory for 64 ranges, of a run that reads 2,000 separate bytes, each twice
    log = succeeded(program.traced(_READS)).log
    monkeypatch.setattr(summary_sums, "ByteRanges", partial(ByteRanges, limit=16, most=64))
    # WHEN it is summed up
    summary = summarize(log)
    # THEN the distinct bytes lie between the bounds, in all figures that have them, and the summary says that they do
    figures = summary.bytes
    assert figures.posix_read == 4000
    assert figures.distinct_read - figures.distinct_filled <= 2000 <= figures.distinct_read <= 4000
    assert figures.distinct_filled > 0
    assert summary.overview is not None
    read, written = summary.overview.read, summary.overview.written
    assert (read.distinct, read.filled > 0) == (figures.distinct_read, True)
    assert (written.distinct, written.filled) == (4000, 0)
    assert _DISTINCT in summary.unseen.notes


def test_more_files_than_are_kept(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN memory for 16 pairs of line and file, of a run in which one line opens 100 files
    log = succeeded(program.traced(_READS)).log
    monkeypatch.setattr(places, "KeyedSums", partial(KeyedSums, 8))
    monkeypatch.setattr(places, "_MOST_PATHS", 16)
    # WHEN it is summed up in batches as short as they may come
    summary = summarize(log, batches=log.batches(ALL_COLUMNS, rows=50))
    # THEN the sums are those of all files, and it says that the line may have used more than it names
    assert sum(one.opens for one in summary.files) >= 10
    assert summary.files_count >= 101
    assert _FILES in summary.unseen.notes
