"""Each section of the summary as text, from figures made by hand: what it says, and when it is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyio_trace.analysis.results import figures
from pyio_trace.analysis.results.overview_figures import Overview, Storage, Tracing, Transfer
from pyio_trace.analysis.summary.weaknesses import weaknesses
from pyio_trace.report.sections import command, sections
from tests.support.summaries import NO_BYTES, PROCESS, section, sizes, summary


def test_the_run() -> None:
    # 500 ms of 2 s are 25 %; 2048 bytes of log for 10 records are 204.8 each
    assert section("pyio_trace") == [
        "pyio_trace: python train.py",
        "  2 s wall time, 500 ms in calls, 25 % of the wall time",
        "  10 calls in 1 process on node1; log /l/run.pyio, 2 KiB, 204.8 B an operation",
    ]


def test_a_run_that_goes_on_in_another_mode() -> None:
    # the ring is whole from 1,501,000 ns on: 1.50 ms after the start at 1,000 ns
    lines = section("pyio_trace", run={"running": True, "mode": "ring", "ring_since": 1_501_000})
    assert lines == [
        "pyio_trace: python train.py",
        "  2 s wall time so far; still running, 500 ms in calls, 25 % of the wall time",
        "  10 calls in 1 process on node1; log /l/run.pyio, 2 KiB, mode ring",
        "  The ring has overwritten earlier operations; the log is complete from 1.50 ms after the start.",
    ]


def test_a_ring_that_was_whole_before_the_start() -> None:
    lines = section("pyio_trace", run={"mode": "ring", "ring_since": 0})
    assert lines and lines[-1].endswith("the log is complete from 0 ns after the start.")


@pytest.mark.parametrize(
    ("wall_is", "wall", "share"),
    [("", "2 s", "25 %"), ("at most", "at most 2 s", "at least 25 %"), ("at least", "at least 2 s", "at most 25 %")],
)
def test_a_wall_time_that_is_a_bound(wall_is: str, wall: str, share: str) -> None:
    # a share of a time that is at most so long is at least so large
    time = figures.Time(500_000_000, 2_000_000_000, 0.25, wall_is)
    lines = section("pyio_trace", run={"wall_is": wall_is}, time=time)
    assert lines and lines[1] == f"  {wall} wall time, 500 ms in calls, {share} of the wall time"


def test_several_processes_share_what_they_lived_together() -> None:
    time = figures.Time(900_000_000, 3_600_000_000, 0.25, "at least")
    lines = section("pyio_trace", processes=[PROCESS, PROCESS], time=time)
    assert lines and lines[1] == (
        "  2 s wall time, 900 ms in calls, at most 25 % of the at least 3.60 s that 2 processes lived"
    )


def test_nothing_was_recorded() -> None:
    # GIVEN a log without a call or a process
    parts: dict[str, Any] = {"run": {"calls": 0, "bytes_per_operation": None, "command": []}, "processes": []}
    # THEN the run says so, and of the rest only the cost is left
    assert section("pyio_trace", time=figures.Time(0, 0, None), **parts) == [
        "pyio_trace: (command not known)",
        "  2 s wall time, 0 ns in calls, - of the wall time",
        "  0 calls in 1 process on node1; log /l/run.pyio, 2 KiB",
        "  No operation was recorded.",
    ]
    assert [one.title.partition(":")[0] for one in sections(summary(**parts))] == ["pyio_trace", "Cost of tracing"]


def test_layers() -> None:
    layers = [figures.Layer("app", 1_001, 60_000, 70_000, 2048, 0), figures.Layer("posix", 9, 0, 0, 0, 1)]
    assert section("Layers", layers=layers) == [
        "Layers",
        "  layer  calls   busy  summed   read  written",
        "  app    1,001  60 us   70 us  2 KiB      0 B",
        "  posix      9   0 ns    0 ns    0 B      1 B",
    ]
    assert section("Layers") is None


def test_spans() -> None:
    # shares are of what is not outside: 3 of 4, 1 of 4
    links = [
        figures.Link("thread", 3, 30, 0.75),
        figures.Link("none", 1, 10, 0.25),
        figures.Link("outside", 5, 2048, None),
    ]
    assert section("Spans", links=links) == [
        "Spans",
        "  parents known: 75.0 % thread, 25.0 % none; outside any span: 5 calls, 2 KiB",
    ]
    assert section("Spans", links=links[2:]) == ["Spans", "  outside any span: 5 calls, 2 KiB"]
    assert section("Spans") is None


def test_bytes_of_which_there_are_all_kinds() -> None:
    # 3,072 moved below for 2,048 asked are 1.50; 1,024 for 4,096 are 0.25
    moved = figures.Bytes(2048, 4096, 3072, 1024, 4096, 5120, 6144, 7168, 8192, 1024, 2048, 3072, 1.5, 0.25)
    lines = section(
        "Bytes", bytes=moved, metadata=figures.Metadata(4, 1_000, 0.125), imports=figures.Imports(1, 2_000, 512)
    )
    assert lines == [
        "Bytes",
        "  application asked for  2 KiB read, 4 KiB written",
        "  POSIX moved            4 KiB read, 5 KiB written, 8 KiB copied",
        "  C streams moved        6 KiB read, 7 KiB written",
        "  distinct bytes touched 3 KiB (1 KiB read, 2 KiB written)",
        "  amplification          1.50 x for reads, 0.25 x for writes (moved / asked for)",
        "  metadata               4 calls, 1 us, 12 % of POSIX time",
        "  imports (not above)    1 call, 2 us, 512 B read",
    ]


def test_bytes_of_which_there_are_none() -> None:
    assert section("Bytes") == [
        "Bytes",
        "  POSIX moved            0 B read, 0 B written",
        "  distinct bytes touched 0 B",
        "  metadata               0 calls, 0 ns, - of POSIX time",
    ]
    # of one kind alone there is nothing to tell apart
    lines = section("Bytes", bytes=replace(NO_BYTES, distinct_read=7, distinct=7, read_amplification=2.0))
    assert lines and lines[2] == "  distinct bytes touched 7 B"
    assert lines[3].startswith("  amplification          2.00 x for reads (")


def test_distinct_bytes_that_are_a_bound() -> None:
    lines = section("Bytes", bytes=replace(NO_BYTES, distinct_read=7, distinct=7, distinct_filled=2))
    assert lines and lines[2] == "  distinct bytes touched at most 7 B"


def test_bytes_whose_place_is_not_known() -> None:
    read, written = Transfer(unplaced=3), Transfer(unplaced=1021)
    overview = Overview(1, [], [], Storage(None, None, 1), [], [], [], [], Tracing(0, 0), read=read, written=written)
    lines = section("Bytes", bytes=replace(NO_BYTES, distinct_written=7, distinct=7), overview=overview)
    assert lines and lines[2:4] == [
        "  distinct bytes touched 7 B",
        "  not in these           1 KiB moved at offsets that are not known",
    ]


def test_files() -> None:
    files = [
        figures.File("/d/new", 2_000, 1, 2, 3, 2048, 5, renamed_from="/d/old"),
        figures.File("/d/zero", 0, 0, 0, 0, 0, 0),
    ]
    assert section("Files", files=files, files_count=1_200) == [
        "Files by time (top 2 of 1,200)",
        "  time  opens  reads   read  writes  written  file",
        "  2 us      1      2  2 KiB       3      5 B  /d/new (inferred: written as old)",
        "  0 ns      0      0    0 B       0      0 B  /d/zero",
    ]
    assert section("Files", files=files, files_count=2)[:1] == ["Files by time"]
    assert section("Files") is None


def test_source_lines() -> None:
    sites = [
        figures.Site("/a.py:1:f", 4, 3_000, 1, 0, submitted=4),
        figures.Site("/a.py:2:g", 4, 2_000, 0, 1, submitted=3),
        figures.Site("/a.py:3:h", 4, 1_000, 0, 0),
    ]
    assert section("Source lines", sites=sites, sites_count=3) == [
        "Source lines by time",
        "  time  calls  read  written  line",
        "  3 us      4   1 B      0 B  /a.py:1:f (submitted)",
        "  2 us      4   0 B      1 B  /a.py:2:g (partly submitted)",
        "  1 us      4   0 B      0 B  /a.py:3:h",
    ]
    assert section("Source lines") is None


def test_operations() -> None:
    # 10,000 ns over 3 calls are 3,333 ns each
    operations = [figures.Operation("posix", "read", "read", 3, 10_000, 100, 1)]
    assert section("Operations", operations=operations) == [
        "Operations by time",
        "   time  calls     mean  bytes  errors  layer  operation",
        "  10 us      3  3.33 us  100 B       1  posix  read",
    ]
    assert section("Operations") is None


def test_access_sizes() -> None:
    # bins without any transfer are left out
    reads = sizes([(4096, 5), (8, 1)], b1K_10K=5, b0_100=1)
    assert section("Access sizes", reads=reads) == [
        "Access sizes (POSIX)",
        "  bytes   reads  writes",
        "  0-100       1       0",
        "  1K-10K      5       0",
        "  most common reads: 4,096 B x 5, 8 B x 1",
    ]
    assert section("Access sizes") is None


def test_failed_calls() -> None:
    errors = [figures.Failure("posix", "stat", 2, "ENOENT", 1_000), figures.Failure("posix", "open", 13, "EACCES", 1)]
    assert section("Failed calls", errors=errors, failed_count=1_001) == [
        "Failed calls (1,001)",
        "  calls  error   layer  operation",
        "  1,000  ENOENT  posix  stat",
        "      1  EACCES  posix  open",
    ]
    assert section("Failed calls") is None


def test_calls_in_flight() -> None:
    one = figures.InFlight(0, 100, "posix", "read", "/d/fifo", "/a.py:1:f", 700, "train.py")
    unknown = figures.InFlight(5, None, "posix", "poll", None, None, 0)
    assert section("In flight", in_flight=[one, unknown], in_flight_count=30) == [
        "In flight when their process ended (30)",
        "  process         operation  file     line",
        "  train.py (100)  read       /d/fifo  /a.py:1:f",
        "  ?               poll",
    ]
    # of a run that goes on it is no loss that they have not returned
    assert (section("In flight", in_flight=[one], in_flight_count=1, run={"running": True}) or [""])[
        0
    ] == "In flight (1)"
    assert section("In flight") is None


def test_processes() -> None:
    # GIVEN three processes, whose ends were seen, bounded from above, and not seen at all
    second = replace(
        PROCESS, pid=7, busy=900_000_000, share=0.45, wall_is="at most", site="/d/train.py:12:main", ended="lost",
        name="DataLoader 0, worker 1", storage_read=4096,
    )  # fmt: skip
    third = replace(PROCESS, pid=8, wall=0, busy=0, share=None, wall_is="at least", name="")
    # THEN the one with most I/O is first; how a process ended is there unless it was as it should be
    assert section("Processes", processes=[PROCESS, second, third]) == [
        "Processes by time",
        "    wall     I/O  calls  read  storage  written  process",
        "   <=2 s  900 ms     10   0 B    4 KiB      0 B  DataLoader 0, worker 1 (7) from train.py:12, lost",
        "     2 s  500 ms     10   0 B        ?      0 B  train.py (100)",
        "  >=0 ns    0 ns     10   0 B        ?      0 B  process (8)",
    ]
    assert section("Processes", processes=[PROCESS]) is None


def test_the_processes_with_most_io_stand_for_many() -> None:
    many = [replace(PROCESS, pid=n, busy=n) for n in range(30)]
    lines = section("Processes", processes=many)
    assert lines and lines[0] == "Processes by time (top 20 of 30)"
    assert [int(line.rpartition("(")[2].rstrip(")")) for line in lines[2:]] == list(range(29, 9, -1))


def test_not_seen() -> None:
    unseen = figures.Unseen({"torn": 4096}, {"pipe": (3, 1024), "tty": (1, 0)}, ["a note"])
    assert section("Not seen", weaknesses=weaknesses(unseen)) == [
        "Not seen",
        "  the log is damaged or cut short: 4 KiB of it could not be read",
        "  counted only, by choice: pipe 3 calls, 1 KiB; tty 1 call, 0 B",
        "  a note",
    ]
    assert section("Not seen") is None


def test_the_cost_of_tracing() -> None:
    assert section("Cost", cost=figures.Cost(1_000_000, 0.0005)) == [
        "Cost of tracing",
        "  about 1 ms, <0.1 % of the wall time (estimated)",
    ]


def test_what_a_log_says_does_nothing_to_a_terminal() -> None:
    # GIVEN a path and a command with control characters THEN they are escaped in titles, lines and tables
    files = [figures.File("/d/\x1b[31mred\n", 0, 0, 0, 0, 0, 0)]
    lines = section("Files", files=files, files_count=1)
    assert lines and lines[2].endswith(r"/d/\x1b[31mred\n")
    title = section("pyio_trace", run={"command": ["python", "\x1b]0;x\x07"]})
    assert title and title[0] == r"pyio_trace: python \x1b]0;x\x07"


def test_a_command_is_one_line() -> None:
    assert command(["python", "-c", "import os\nos.stat('/')  "]) == "python -c import os os.stat('/')"
    assert command([]) == command([""]) == "(command not known)"
