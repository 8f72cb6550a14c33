"""The first screen, from figures made by hand: golden text, its bounds, and nothing that a terminal interprets."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from pyio_trace.analysis.results import figures
from pyio_trace.analysis.results.overview_figures import (
    FileGroup,
    Folder,
    KindTime,
    Line,
    LoaderEpoch,
    Overview,
    PackageTime,
    ProcessTime,
    SlowReads,
    Split,
    Storage,
    Tracing,
)
from pyio_trace.analysis.summary.weaknesses import weaknesses
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import HEIGHT, WIDTH, overview_lines
from pyio_trace.report.wording import fitting, relative, short_line, waits
from tests.support.summaries import NO_BYTES, summary

MS = 1_000_000
TRAINER = Split(
    io_ns=35 * MS, hand_over_ns=415 * MS, waiting_ns=56 * MS, starting_ns=1900 * MS, other_ns=1774 * MS,
    wall_ns=4180 * MS,
)  # fmt: skip
WORKERS = Split(
    io_ns=212 * MS, library_ns=453 * MS, hand_over_ns=252 * MS, task_ns=933 * MS, idle_ns=1150 * MS, wall_ns=3000 * MS
)
LOADERS = [
    LoaderEpoch("1.0", n, 2, 63, 62, 208 * MS, 14 * MS, 194 * MS, 4 * MS, 300 * MS, 19 * MS, 13 * MS) for n in range(2)
]
LINES = [
    Line("/w/train.py:9:__getitem__", True, "request", "numpy.load", 4000, 667 * MS, 210 * MS, "/w/d/img*.npy", 2000),
    Line("/w/train.py:25:main", True, "wait", "DataLoader.__next__", 128, 442 * MS, 0, None, 0),
    Line("/w/train.py:22:main", True, "starting", "DataLoader.__iter__", 2, 38 * MS, 0, None, 0),
]
FILES = [
    FileGroup("/w/d/img*.npy", "data", 2000, None, 4000, 121 << 20, 0, 8000, 10 * MS, 210 * MS),
    FileGroup("/w/ckpt/tmp.pt", "data", 12, "/w/ckpt/step*.pt", 12, 0, 289 << 20, 36, MS, 100 * MS),
    FileGroup("/dev/shm/torch_*", "shared-memory", 126, None, 126, 0, 126, 0, 0, 90 * MS),
    FileGroup("/v/lib/python3.11/x.py", "library", 1, None, 1, 10, 0, 1, 0, 500 * MS),
]


def overview(**parts: Any) -> Overview:
    kinds = [KindTime("train.py", 1, TRAINER), KindTime("DataLoader workers", 4, WORKERS)]
    processes = [ProcessTime(n, 100 + n, "k", "k", TRAINER, 0, 0) for n in range(5)]
    return replace(
        Overview(2, kinds, processes, Storage(5_990_000, 0, 0), LINES, FILES, [], LOADERS, Tracing(133_111, 9 * MS)),
        **parts,
    )


def screen(letters: Letters | None = None, given: Overview | None = None, **parts: Any) -> list[str]:
    run = {"command": ["/usr/bin/python3", "/w/train.py", "fork"], "wall": 4180 * MS, "calls": 199_025, "folder": "/w",
           "records": 133_111, **parts.pop("run", {})}  # fmt: skip
    return overview_lines(summary(overview=given or overview(), run=run, **parts), letters or Letters())


def test_a_training_loop() -> None:
    moved = replace(NO_BYTES, posix_read=123 << 20, distinct_read=54 << 20, read_amplification=1.0)
    unseen = figures.Unseen(
        {"mappings_unmeasured": 468}, {"pipe": (7_000, 1), "socket": (612, 1), "import": (9, 4096)}, []
    )
    assert screen(bytes=moved, unseen=unseen, weaknesses=weaknesses(unseen), cost=figures.Cost(9 * MS, None)) == [
        "pyio_trace: train.py fork  4.18 s, 5 processes, 2 cores            199,025 calls",
        "Taking over batches that were ready took the trainer 388 ms.",
        "124 of 126 batches were ready when asked for: fetching is not the bottleneck.",
        "",
        "TIME  █ I/O ▒ library ▚ hand-over ░ waiting ▄ task · other ┄ starting _ idle",
        "  train.py                 4.18 s  ▚▚▚▚▚░···················┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄",
        "    starting 1.90 s, other 1.77 s, hand-over 415 ms, waiting 56 ms, I/O 35 ms",
        "  4 DataLoader workers        3 s  ███▒▒▒▒▒▒▒▚▚▚▚▄▄▄▄▄▄▄▄▄▄▄▄▄▄_________________",
        "    idle 1.15 s, task 933 ms, library 453 ms, hand-over 252 ms, I/O 212 ms",
        "",
        "DATA",
        "  read       123 MiB  5.71 MiB fetched from storage (imports included)",
        "              54 MiB  different bytes: each read 2.28 times",
        "  imports      4 KiB  by Python's imports; not in the figures above",
        "",
        "LINES      time  of it I/O  what",
        "         667 ms     210 ms  train.py:9: 4,000 numpy.load of d/img*.npy",
        "         416 ms          -  train.py:25: 126 waits for a batch",
        "          38 ms          -  train.py:22: 2 starts of its workers",
        "          26 ms          -  train.py:25: 2 ends of an epoch (workers stop)",
        "",
        "FILES    time   files   opens      read   written  name",
        "       210 ms   2,000   4,000   121 MiB       0 B  d/img*.npy",
        "       100 ms      12      12       0 B   289 MiB  ckpt/tmp.pt → step*.pt",
        "        90 ms     126     126       0 B     126 B  shared memory (/dev/shm)",
        "",
        "NOT SEEN",
        "  468 file mappings were not measured",
        "  7,612 calls on pipes and sockets (counted only)",
        "TRACING  133,111 records; about 9 ms in the calls",
        "LOG  /l/run.pyio, 2 KiB",
    ]


def test_bytes_read_again_at_least() -> None:
    moved = replace(NO_BYTES, posix_read=123 << 20, distinct_read=54 << 20, distinct_filled=1 << 20)
    assert "              54 MiB  different bytes at most: each read at least 2.28 times" in screen(bytes=moved)


def test_without_block_characters() -> None:
    lines = screen(Letters(False))
    assert all(line.isascii() for line in lines)
    assert "  train.py                 4.18 s  %%%%%-...................::::::::::::::::::::" in lines
    assert any(line.endswith("ckpt/tmp.pt -> step*.pt") for line in lines)


def test_metadata_by_folder() -> None:
    # GIVEN files of which nothing but metadata took time
    files = [FileGroup("/w/d/*.txt", "data", 700, None, 0, 0, 0, 20_000, 24 * MS, 24 * MS)]
    lines = screen(given=overview(files=files, folders=[Folder("/w/d/", 700, 20_000, 24 * MS)], loaders=[]))
    at = lines.index("METADATA time      calls  folder")
    assert lines[at + 1] == "        24 ms     20,000  d/"


def test_what_is_unusual_comes_first() -> None:
    killed = figures.Process(0, 100, "n", ["python"], 1, 0, None, 0, 0, 0, "signal 9 (SIGKILL)")
    lines = screen(processes=[killed], in_flight_count=3, run={"ring_since": 1_001_000})
    assert lines[1:5] == [
        "The ring has overwritten what began in the first 1 ms.",
        "All figures are of the rest.",
        "1 process ended by signal 9 (SIGKILL).",
        "3 calls had not returned: pyio-trace summary --section in-flight",
    ]
    # A single process is named, if it has a name.
    lines = screen(processes=[replace(killed, name="monitor.py")])
    assert lines[1] == "monitor.py ended by signal 9 (SIGKILL)."


def test_nothing_recorded() -> None:
    lines = overview_lines(summary(run={"calls": 0, "records": 0}), Letters())
    assert lines[1] == "No operation was recorded." and lines[-1] == "LOG  /l/run.pyio, 2 KiB"


def anything(seed: int) -> tuple[Overview, list[figures.Weakness]]:
    """Many kinds, lines, files and losses, with long names, figures of any size and control characters."""
    dice = random.Random(seed)

    def number() -> int:
        return dice.choice((0, 1, dice.randrange(10**6), dice.randrange(1 << 61)))

    def text() -> str:
        return "/" + dice.choice(("x", "ü\x1b[31m", "\n", "a b/")) * dice.choice((1, 3, 200)) + ":1:f"

    def split() -> Split:
        parts = {name: number() for name in ("io_ns", "sync_ns", "task_ns", "other_ns", "idle_ns")}
        beside = {"beside_ns": number(), "beside_sync_ns": number()}
        return Split(**parts, **beside, wall_ns=sum(parts.values()), cpu_ns=number())

    given = Overview(
        dice.choice((None, 64)),
        [KindTime(text(), dice.randrange(1, 9), split()) for _ in range(dice.randrange(1, 9))],
        [], Storage(number(), number(), 3),
        [Line(text(), True, "request", text(), *(number() for _ in range(3)), text(), number(), 5) for _ in range(20)],
        [FileGroup(text(), "data", *(number(), text(), *(number() for _ in range(6)))) for _ in range(20)],
        [Folder(text(), number(), number(), number()) for _ in range(20)],
        [LoaderEpoch("l", n, 2, 9, 9, *(number() for _ in range(7))) for n in range(3)],
        Tracing(number(), number(), number()),
    )  # fmt: skip
    losses = {"unfollowed": 3, "io_uring": 2, "torn": 9, "tracer_faults": 1, "unseen_read": 1 << 30}
    return given, weaknesses(figures.Unseen(losses, {"pipe": (1, 1)}, ["note " * 40] * 5))


@pytest.mark.parametrize("seed", range(20))
def test_any_figures_fit_the_screen(seed: int) -> None:
    # GIVEN any figures WHEN they are shown
    given, missing = anything(seed)
    lines = screen(given=given, weaknesses=missing)
    # THEN it is a screen
    assert len(lines) <= HEIGHT
    assert all(len(line) <= WIDTH for line in lines[:-1])
    assert all(line.isprintable() for line in lines)


def test_names_are_short() -> None:
    assert short_line("/w/train.py:9:Images.__getitem__") == "train.py:9"
    assert [short_line(one) for one in ("task write_csv", "x:y", "")] == ["task write_csv", "x:y", ""]
    assert [relative(path, "/w") for path in ("/w/d/x", "/wx/d", "/w")] == ["d/x", "/wx/d", "/w"]
    assert relative("/d/x", "") == "/d/x"
    assert relative("/w/", "/w") == "./"


def test_names_that_fit() -> None:
    path = "out/field.zarr/c/0/*"
    assert [fitting(path, width) for width in (20, 19, 10, 8)] == [path, ".../c/0/*", ".../c/0/*", ".../0/*"]
    assert [fitting("pq/*.parquet", width) for width in (12, 11, 8)] == ["pq/*.parquet", "*.parquet", "...rquet"]


def test_a_short_name_has_room() -> None:
    # GIVEN a line whose call leaves room for seven characters WHEN it is shown THEN its name of six is there
    line = Line("/w/h5append.py:26:main", True, "request", "Dataset.__setitem__", 3000, 133 * MS, 0, "/w/log.h5", 1)
    lines = screen(given=overview(lines=[line], loaders=[]))
    assert "         133 ms          -  h5append.py:26: 3,000 Dataset.__setitem__ of log.h5" in lines


def test_other_files_of_a_line() -> None:
    # GIVEN a line that opened five files, of which no pattern has most of the time WHEN it is shown THEN it says so
    line = Line("/w/run.py:2:main", True, "request", "open", 5, 133 * MS, 0, "/w/conf/one.json", 1, 4)
    lines = screen(given=overview(lines=[line], loaders=[]))
    assert "         133 ms          -  run.py:2: 5 open of conf/one.json and 4 more" in lines


@pytest.mark.parametrize(
    ("site", "own", "place"),
    [
        ("/v/lib/python3.12/site-packages/numpy/lib/npyio.py:488:load", False, "npyio.py:488 in numpy"),
        ("/v/lib/python3.12/site-packages/single.py:5:load", False, "single.py:5 in single"),
        ("/usr/lib/python3.12/shutil.py:280:copy", False, "shutil.py:280 in Python"),
        ("/v/lib/python3.12/site-packages/black/files.py:9:f", True, "files.py:9"),
        ("/w/lib.py:9:f", True, "lib.py:9"),
        ("/v/bin/black:8:<module>", False, "black:8"),
    ],
)  # fmt: skip
def test_a_librarys_line_says_so(site: str, own: bool, place: str) -> None:
    # GIVEN a line of a library, of a package that was started, or of the user's own WHEN shown THEN a library is named
    shown = screen(given=overview(lines=[Line(site, own, "request", "open", 5, 133 * MS, 0, None, 0)]))
    assert f"         133 ms          -  {place}: 5 open" in shown


def test_each_loop_has_its_own_ends_of_epochs() -> None:
    # GIVEN a loop for training, whose workers take 13 ms to stop, and one for validation, whose workers take 5 ms
    loops = (("/w/train.py:25:main", 442, 13), ("/w/train.py:40:main", 99, 5))
    lines = [replace(LINES[1], line=line, time_ns=time * MS) for line, time, _ in loops]
    loaders = [replace(LOADERS[0], line=line, stop_ns=stop * MS) for line, _, stop in loops]
    # WHEN they are shown THEN each end is taken off the waits of its own line
    shown = screen(given=overview(lines=lines, loaders=loaders))
    at = next(number for number, line in enumerate(shown) if line.startswith("LINES"))
    assert shown[at + 1 : at + 5] == [
        "         429 ms          -  train.py:25: 127 waits for a batch",
        "          94 ms          -  train.py:40: 127 waits for a batch",
        "          13 ms          -  train.py:25: 1 end of an epoch (workers stop)",
        "           5 ms          -  train.py:40: 1 end of an epoch (workers stop)",
    ]


def test_workers_of_two_loops_are_not_started_anew() -> None:
    # GIVEN two loops of one epoch each, whose workers take 500 ms to start WHEN they are summed up
    loops = [replace(LOADERS[0], line=f"/w/train.py:{line}:main", start_ns=500 * MS) for line in (25, 40)]
    lines = screen(given=overview(loaders=loops))
    # THEN they were started once for each loop
    assert "Starting the workers took 1.01 s." in lines
    # BUT if both epochs are of one loop, for each epoch
    anew = screen(given=overview(loaders=[loops[0]] * 2))
    assert "Workers start anew for each epoch: 1.01 s, and 26 ms to end." in anew


def test_a_loader_without_workers_starts_none() -> None:
    loaders = [replace(one, workers=0) for one in LOADERS]
    lines = screen(given=overview(loaders=loaders))
    assert any(line.endswith("train.py:22: 2 DataLoader.__iter__") for line in lines)
    assert any(line.endswith("train.py:25: 2 ends of an epoch") for line in lines)


def test_a_part_from_storage_is_said() -> None:
    # GIVEN 100 GiB that were read, 900 MiB of them from storage, by no read that was slow
    moved = replace(NO_BYTES, posix_read=100 << 30)
    storage = Storage(900 << 20, 0, 0, SlowReads(0, 0, 0, 3000))
    lines = screen(bytes=moved, given=overview(storage=storage, loaders=[]))
    # WHEN it is shown THEN it is not called nothing, which 5 MiB are
    assert "  read       100 GiB  900 MiB fetched from storage (imports included)" in lines
    lines = screen(bytes=moved, given=overview(storage=replace(storage, read=5 << 20), loaders=[]))
    assert "  read       100 GiB  none of it from storage: cached" in lines


def test_a_single_process_has_its_name() -> None:
    # GIVEN one rank of a parallel job, and one worker WHEN they are shown THEN not as several
    kinds = [KindTime("ranks", 1, TRAINER), KindTime("DataLoader workers", 1, WORKERS)]
    processes = [
        ProcessTime(0, 100, "ranks", "rank 0", TRAINER, 0, 0),
        ProcessTime(1, 101, "DataLoader workers", "DataLoader 0, worker 1", WORKERS, 0, 0),
    ]
    lines = screen(given=overview(kinds=kinds, processes=processes))
    assert [line[:25].rstrip() for line in lines if "▚▚" in line] == ["  rank 0", "  DataLoader 0, worker 1"]


def test_io_of_threads_is_in_the_sentence() -> None:
    # GIVEN a program that waits for its threads to read WHEN it is summed up THEN their time is said
    split = Split(io_ns=2 * MS, other_ns=4178 * MS, wall_ns=4180 * MS, beside_ns=109 * MS)
    lines = screen(given=overview(kinds=[KindTime("train.py", 1, split)], loaders=[], lines=[]))
    assert "Reading and writing took 109 ms in other threads, 2 ms in the main one." in lines


@pytest.mark.parametrize(("main", "text"), [(0, "."), (3, ", 3 ms in the main one.")])
def test_syncs_of_threads_come_first(main: int, text: str) -> None:
    # GIVEN a server whose threads commit to a database while the main one waits for them THEN the first line says so
    split = Split(
        sync_ns=main * MS, other_ns=3200 * MS, wall_ns=3200 * MS, beside_ns=600 * MS, beside_sync_ns=2480 * MS
    )
    lines = screen(given=overview(kinds=[KindTime("serve.py", 1, split)], loaders=[], lines=[]))
    assert lines[1] == f"Syncs took 2.48 s in other threads{text}"
    assert any("sync in other threads 2.48 s, I/O in other threads 600 ms" in line for line in lines)


def test_temporary_files_are_apart() -> None:
    # GIVEN temporary files beside others, and nothing else
    temporary = [FileGroup(f"/tmp/tmpabcd123{n}/x", "temporary", 1, None, 1, 5, 7, 2, MS, 30 * MS) for n in range(2)]
    lines = screen(given=overview(files=[FILES[0], *temporary], loaders=[]))
    assert lines[lines.index(next(one for one in lines if one.startswith("FILES"))) + 1 :][:2] == [
        "       210 ms   2,000   4,000   121 MiB       0 B  d/img*.npy",
        "        60 ms       2       2      10 B      14 B  temporary files",
    ]
    lines = screen(given=overview(files=temporary, loaders=[]))
    assert "        30 ms       1       1       5 B       7 B  /tmp/tmpabcd1230/x" in lines


def test_waits_say_what_for() -> None:
    assert waits("waitpid", 3) == "3 waits for a child process"
    assert waits("DataLoader.__next__", 1) == "1 wait for a batch"
    assert waits("dask.dataframe.to_csv", 1) == "1 to_csv waits for Dask"
    assert waits("Thing.get", 2) == "2 get wait for others"
    line = Line("/w/run.py:7:main", True, "wait", "waitpid", 2, 900 * MS, 0, None, 0)
    split = Split(waiting_ns=900 * MS, other_ns=3280 * MS, wall_ns=4180 * MS)
    lines = screen(given=overview(kinds=[KindTime("run.py", 1, split)], lines=[line], loaders=[]))
    assert lines[1] == "Waiting for a child process took 900 ms, at run.py:7."
    assert "         900 ms          -  run.py:7: 2 waits for a child process" in lines


def test_threads_that_wait_hold_nothing_up() -> None:
    # GIVEN eight threads, each of which waits nearly all the time, while the main thread computes WHEN it is summed up
    line = Line("/w/run.py:7:work", True, "wait", "Queue.get", 80, 32_000 * MS, 0, None, 0)
    split = Split(other_ns=4180 * MS, wall_ns=4180 * MS)
    lines = screen(given=overview(kinds=[KindTime("run.py", 1, split)], lines=[line], loaders=[]))
    # THEN the waits are at their line, and no conclusion
    assert any(line.endswith("run.py:7: 80 waits for a queue") for line in lines)
    assert not any(line.startswith("Waiting") for line in lines)


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ([], "Importing took 2.33 s, 56 % of the run."),
        ([("torch", 1_900), ("numpy", 300)], "Importing took 2.33 s, 56 % of the run: torch 1.90 s, numpy 300 ms."),
        ([("torch", 2_200), ("numpy", 90)], "Importing took 2.33 s, 56 % of the run: torch 2.20 s."),
        ([("a" * 50, 2_000), ("b", 300)], "Importing took 2.33 s, 56 % of the run."),  # more than a line
        ([("a\x1b[2J\n", 2_000)], "Importing took 2.33 s, 56 % of the run: a\\x1b[2J\\n 2 s."),
    ],
)
def test_packages_that_took_most_of_the_imports(packages: list[tuple[str, int]], said: str) -> None:
    times = [PackageTime(name, time * MS) for name, time in packages]
    lines = screen(given=overview(processes=[ProcessTime(0, 100, "k", "k", TRAINER, 0, 0, 2_330 * MS, times)]))
    assert said in lines


@pytest.mark.parametrize(("spent", "said"), [(2_330 * MS, True), (40 * MS, False), (None, False)])
def test_imports_that_take_long(spent: int | None, said: bool) -> None:
    processes = [ProcessTime(0, 100, "k", "k", TRAINER, 0, 0, spent)]
    lines = screen(given=overview(processes=processes))
    assert ("Importing took 2.33 s, 56 % of the run." in lines) == said


def test_slow_reads_and_their_rule() -> None:
    moved = replace(NO_BYTES, posix_read=123 << 20)
    slow = Storage(8 << 20, 0, 0, SlowReads(84, 8 << 20, 610 * MS, 3000))
    lines = screen(bytes=moved, given=overview(storage=slow, loaders=[]))
    assert "84 reads went to storage: 610 ms." in lines
    at = lines.index("DATA")
    assert lines[at + 1 : at + 3] == [
        "  read       123 MiB  8 MiB fetched from storage (imports included)",
        "  slow         8 MiB  in 84 reads, 610 ms: over 20 us + 1 ns a byte",
    ]
    # THEN what the kernel fetched is not put down to reads that were fast
    fast = Storage(8 << 20, 0, 0, SlowReads(0, 0, 0, 3000))
    lines = screen(bytes=moved, given=overview(storage=fast, loaders=[]))
    assert "  slow           0 B  none of 3,000 reads took over 20 us + 1 ns a byte: cached" in lines
    assert not any("went to storage" in line for line in lines)
