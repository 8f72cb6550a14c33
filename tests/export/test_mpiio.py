"""The modules MPI-IO and DXT_MPIIO of exported Darshan logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.analysis.calls.darshan_calls import Call
from pyio_trace.export.darshan.calls import Counted, mpiio_call
from tests.export.test_darshan_counters import START, exported, ranks
from tests.support.logwriter import LogWriter


@pytest.mark.parametrize(
    ("op", "counted"),
    [
        ("MPI_File_read", Counted(Call.READ, "INDEP_READS")),
        ("MPI_File_write_at", Counted(Call.WRITE, "INDEP_WRITES")),
        ("MPI_File_read_shared", Counted(Call.READ, "INDEP_READS")),
        ("MPI_File_write_all", Counted(Call.WRITE, "COLL_WRITES")),
        ("MPI_File_read_at_all", Counted(Call.READ, "COLL_READS")),
        ("MPI_File_write_ordered", Counted(Call.WRITE, "COLL_WRITES")),
        ("MPI_File_iread_at", Counted(Call.READ, "NB_READS")),
        ("MPI_File_iwrite_all", Counted(Call.WRITE, "NB_WRITES")),
        ("MPI_File_iread_at_all", Counted(Call.READ, "NB_READS")),
        ("MPI_File_iwrite_shared", Counted(Call.WRITE, "NB_WRITES")),
        ("MPI_File_read_at_all_begin", Counted(Call.READ, "SPLIT_READS")),
        ("MPI_File_write_ordered_begin", Counted(Call.WRITE, "SPLIT_WRITES")),
        ("MPI_File_write_all_end", None), ("MPI_Wait", None), ("MPI_File_seek", None),
        ("MPI_File_sync", Counted(Call.FSYNC, "SYNCS")), ("MPI_File_close", Counted(Call.CLOSE)),
    ],
)  # fmt: skip
def test_what_counts_a_call(op: str, counted: Counted | None) -> None:
    assert mpiio_call(op) == counted


def test_records_of_ranks(tmp_path: Path) -> None:
    # GIVEN three ranks that open a file together, and each one of its own
    writer = LogWriter()

    def detail(op: str, **more: object) -> int:
        return writer.string(json.dumps(more), writer.string(op))

    def text(**more: object) -> int:
        return writer.string(json.dumps(more))

    for rank, process in enumerate(ranks(writer, 3)):
        thread = writer.thread(process, 100)
        now = START + 1_000_000 * rank
        for name, together in (("/d/all", True), (f"/d/{rank}", False)):
            file = writer.string(name)
            size = 3 if together else 1
            thread.record("MPI_FILE_OPEN", begin=now, duration=100, desc=file, offset=text(collective=True, ranks=size))
            writes = detail("MPI_File_write_at_all", collective=True, ranks=size)
            for number in range(4):
                thread.record("MPI_FILE_WRITE", begin=now + 1000 * (number + 1), duration=500, desc=file, aux=writes,
                              offset=4000 * rank + 12_000 * number, size=4000, result=4000)  # fmt: skip
            reads = detail("MPI_File_read_shared", collective=False, ranks=size)
            thread.record("MPI_FILE_READ", begin=now + 6000, duration=700, desc=file, aux=reads, size=100, result=40)
            thread.record("MPI_FILE_CLOSE", begin=now + 7000, duration=100, desc=file)
            now += 10_000
    # WHEN it is exported
    found = exported(writer, tmp_path)
    # THEN the first has one record of all, opened collectively
    shared = found.of("MPI-IO", "/d/all")
    assert shared["rank"] == -1 and (shared["COLL_OPENS"], shared["INDEP_OPENS"]) == (3, 0)
    assert (shared["COLL_WRITES"], shared["INDEP_READS"], shared["BYTES_WRITTEN"]) == (12, 3, 48_000)
    assert (shared["BYTES_READ"], shared["RW_SWITCHES"], shared["SIZE_WRITE_AGG_1K_10K"]) == (120, 3, 12)
    assert (shared["ACCESS1_ACCESS"], shared["ACCESS1_COUNT"]) == (4000, 12)
    assert shared["F_WRITE_TIME"] == pytest.approx(12 * 500e-9) and shared["F_META_TIME"] == pytest.approx(600e-9)
    own = found.of("MPI-IO", "/d/1")
    assert own["rank"] == 1 and (own["COLL_OPENS"], own["INDEP_OPENS"], own["COLL_WRITES"]) == (0, 1, 4)
    # AND segments with the offsets that MPI says; the shared pointer has none
    segments = found.of("DXT_MPIIO", "/d/all", 2)
    assert [one[:2] for one in segments["writes"]] == [(8000 + 12_000 * number, 4000) for number in range(4)]
    assert [one[:2] for one in segments["reads"]] == [(-1, 40)]
    assert {one["name"] for one in found.records["HEATMAP"]} == {"heatmap:MPIIO"}
