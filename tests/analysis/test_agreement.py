"""One log, one truth: every command, view and table of the rules has the same calls, bytes and times.

What they are compared with is worked out here from the rows of the log, one by one.
"""

from __future__ import annotations

import errno
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.compare.io_counts import Counts, counts_by
from pyio_trace.analysis.reducer import found, scan
from pyio_trace.analysis.reducers.line_calls import LineCalls
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.run_sums import run_sums
from pyio_trace.analysis.tables.sums_tables import by_file, by_stack
from pyio_trace.cli.main import main
from pyio_trace.insights.finding import Finding, Query, Recoverable, Site
from pyio_trace.insights.trials.recorded import rows_of
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once

KILLED = """\
import os, signal, sys
from waiting import wait_until
os.mkfifo("fifo")
child = os.fork()
if not child:
    os.open("fifo", os.O_RDONLY)
def blocked(): return open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()[0] == "S"
wait_until(blocked, "an open of a FIFO")
for n in range(200): os.stat(".")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
COPIES = """\
import os, shutil, socket
os.mkdir("from"), os.mkdir("to")
for n in range(3):
    with open(f"from/{n}", "wb") as file: file.write(bytes(60_000 + n))
    shutil.copyfile(f"from/{n}", f"to/{n}")
    os.rename(f"to/{n}", f"to/last{n}")
source, target = os.open("from/0", os.O_RDONLY), os.open("to/part", os.O_WRONLY | os.O_CREAT)
os.sendfile(target, source, 100, 5_000)
os.copy_file_range(source, target, 7_000, 0, 0)
one, other = socket.socketpair()
os.sendfile(one.fileno(), source, 0, 3_000)
os.close(source), os.close(target)
"""
MIXED = """\
import os, pickle, sqlite3, threading
def work(name):
    with open(name, "w") as file:
        for n in range(300): file.write("line %d\\n" % n)
    with open(name) as file:
        for line in file: pass
    with open(name + ".pickle", "wb") as file: pickle.dump(list(range(5_000)), file)
    descriptor = os.open(name, os.O_RDWR)
    for n in range(50): os.pread(descriptor, 100, 10 * n)
    os.fsync(descriptor), os.close(descriptor)
    try: os.stat(name + ".none")
    except OSError: pass
threads = [threading.Thread(target=work, args=[f"file{n}"]) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with sqlite3.connect("data.db") as base:
    base.execute("create table t(a)"), base.executemany("insert into t values (?)", [[n] for n in range(500)])
base.close()
read, write = os.pipe()
os.mkfifo("fifo")
if not os.fork():
    with open("fifo", "wb") as file: file.write(bytes(70_000))
    os._exit(0)
with open("fifo", "rb") as file: file.read()
os.wait()
"""
"""A program of several threads and processes, with file objects, a library, a FIFO, and calls that fail."""


def forged(path: Path) -> Path:
    """A log that claims times and sizes which no sum can hold."""
    packed = path.with_suffix(".parquet")
    pack(ranks(path), packed)
    table = pq.read_table(packed)
    for name, largest in (("duration", 1 << 62), ("bytes_moved", (1 << 63) - 1), ("time", (1 << 63) - 1)):
        claimed = [None if one is None else largest for one in table[name].to_pylist()]
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), [claimed])
    pq.write_table(table, packed)
    return packed


def ranks(path: Path) -> Path:
    """Two processes, of which the second is blocked in a write when it is killed."""
    writer = LogWriter()
    file = writer.desc(3, "/d/shared", kind=1, dev=1, ino=5)
    line = writer.stack((writer.code("/d/p.py", "main"), 5))
    for rank, end in ((0, 9_000_000), (1, 5_000_000)):
        process = writer.process(100 + rank, begin=1_000, end=end, end_kind=layout.END_SIGNAL, end_status=9)
        thread = writer.thread(process, 100 + rank)
        for n in range(5):
            thread.record("PWRITE", begin=10_000 * n + 5_000, duration=1_000 + rank, desc=file, aux=3, offset=100 * n,
                          size=100, result=100, stack=line)  # fmt: skip
        thread.record("PWRITE", begin=2_000_000, state=layout.BEGUN, desc=file, aux=3, offset=900, size=7, stack=line)
        thread.record("STAT", begin=100_000, duration=50, desc=writer.string("/d/none"), errno=errno.ENOENT, stack=line)
    return writer.save(path)


def traced(text: str, **environment: str) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        runner = Runner(path.parent)
        runner.write_waiting()
        return succeeded(runner.traced(text, env=environment)).path

    return make


LOGS: dict[str, Callable[[Path], Path]] = {
    "killed call": traced(KILLED), "copies": traced(COPIES), "many kinds": traced(MIXED),
    "profile": traced(MIXED + COPIES, PYIO_TRACE_MODE="profile"),
    "ring": traced(MIXED + COPIES, PYIO_TRACE_MODE="ring", PYIO_TRACE_RING_SIZE="1M"),
    "by hand": small_run, "ranks": ranks, "forged": forged,
}  # fmt: skip


@pytest.fixture(scope="module", params=LOGS)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_log(LOGS[request.param](tmp_path_factory.mktemp("agreement") / "run.pyio"))


#: Time (ns) of outermost calls; calls, opens, reads and writes of POSIX and C streams; bytes read and written by these.
Figures = tuple[int, ...]
Row = dict[str, Any]
_COLUMNS = (
    "id", "time", "duration", "layer", "op", "op_class", "op_role", "process", "path", "file", "to_file",
    "bytes_moved", "site", "calls", "request_id", "imported", "in_import",
)  # fmt: skip


class Truth:
    """The figures of a log, from its rows, without those of imports."""

    def __init__(self, log: Log) -> None:
        processes = log.processes().to_pylist()
        seen = [one["end"] for one in processes if one["end"]]
        last = max([*seen, log.info()["end"] or 0, log.info()["start"]])
        self._ends = [one["end"] or last for one in processes]
        self.every = log.operations(_COLUMNS).to_pylist()
        own = [row for row in self.every if not row["imported"]]
        self.rows = [row for row in own if row["op_class"] != "process" and row["layer"] != "user"]

    def time(self, row: Row) -> int:
        if row["duration"] is not None:
            return int(row["duration"])
        return max(self._ends[row["process"]] - row["time"], 0)

    def outer_time(self, row: Row) -> int:
        if row["op_role"] == "request":
            outer = row["request_id"] == row["id"]
        else:
            outer = row["op_role"] in ("io", "sync", "lock", "map") and row["request_id"] is None
        return self.time(row) if outer else 0

    def figures(self, row: Row, read: bool = True, written: bool = True) -> Figures:
        """read, written: whether that side of a copy counts."""
        calls, moved, kind = row["calls"], row["bytes_moved"] or 0, row["op_class"]
        called = row["layer"] in ("posix", "stdio")
        reads = called and (kind == "read" or (kind == "copy" and read))
        writes = called and (kind == "write" or (kind == "copy" and written))
        return (
            self.outer_time(row), calls * called, calls * (called and kind == "open"), calls * reads, calls * writes,
            moved * reads, moved * writes,
        )  # fmt: skip

    def by(self, *keys: str) -> dict[Any, Figures]:
        found: dict[Any, list[Figures]] = defaultdict(list)
        for row in self.rows:
            found[tuple(row[key] for key in keys) if keys[1:] else row[keys[0]]].append(self.figures(row))
        return {one: _added(figures) for one, figures in found.items()}

    def by_file(self) -> dict[int, Figures]:
        """A copy counts for the file that it reads and for the one that it writes."""
        found: dict[int, list[Figures]] = defaultdict(list)
        for row in self.rows:
            if row["file"] is not None:
                found[row["file"]].append(self.figures(row, written=row["op_class"] != "copy"))
            if row["to_file"] is not None:
                found[row["to_file"]].append(self.figures(row, read=False))
        return {one: _added(figures) for one, figures in found.items()}

    def times(self, key: str, time: Callable[[Row], int], importing: bool = True) -> dict[Any, Figures]:
        """importing: also what modules of libraries do while they are imported."""
        found: Counter[Any] = Counter()
        for row in self.rows:
            if importing or not row["in_import"]:
                found[row[key]] += time(row)
        return nonzero(found)


def _added(figures: Iterable[Figures]) -> Figures:
    return tuple(map(sum, zip(*figures, strict=True)))


def capped(figures: Iterable[int]) -> Figures:
    """Sums of a forged log, which are cut: each comes to far more than a run can have."""
    return tuple(min(int(value), 1 << 54) for value in figures)


def nonzero(times: Mapping[Any, int]) -> dict[Any, Figures]:
    return {key: capped([time]) for key, time in times.items() if time}


def some(figures: Iterable[Iterable[int]]) -> list[Figures]:
    """Those that are not all zero, whatever they are called."""
    return sorted(one for one in map(capped, figures) if any(one))


def view(log: Log, name: str) -> dict[str, Figures]:
    (table,) = scan(log, [found()[name]()])
    names = ("time_ns", "calls", "opens", "reads", "writes", "read_bytes", "written_bytes")
    return {one.key: tuple(getattr(one, name) for name in names) for one in table.rows}


def of_counts(one: Counts) -> Figures:
    return one.time, one.calls, one.opens, one.reads, one.writes, one.bytes_read, one.bytes_written


def test_by_file(log: Log) -> None:
    right = some(Truth(log).by_file().values())
    groups = run_sums(log).groups
    counts = counts_by(groups, groups.file - 1, int(groups.file.max(initial=0)), of_files=True)
    assert some(map(of_counts, counts)) == right
    names = ("time", "opens", "reads", "writes", "read", "written")
    files = by_file(log).to_pylist()
    without_calls = some((one[0], *one[2:]) for one in right)
    assert some([row[name] for name in names] for row in files) == without_calls
    summary = summarize(log, top=1_000)
    assert some([getattr(row, name) for name in names] for row in summary.files) == without_calls
    # ... and the view adds up files that had one name
    named: dict[str, list[Figures]] = defaultdict(list)
    for row in files:
        named[row["path"]].append(tuple(row[name] for name in names))
    of_view = {key: (one[0], *one[2:]) for key, one in view(log, "by_file").items()}
    assert some(of_view.values()) == some(map(_added, named.values()))


def test_by_line(log: Log) -> None:
    truth = Truth(log)
    right = truth.by("site")
    assert some(view(log, "by_line").values()) == some(right.values())
    sums = run_sums(log)
    counts = counts_by(sums.groups, sums.groups.site, len(sums.sites))
    assert some(map(of_counts, counts)) == some(one for site, one in right.items() if site is not None)
    times = truth.times("site", truth.outer_time)
    times.pop(None, None)
    assert nonzero({one.site: one.time for one in summarize(log, top=1_000).sites}) == times
    stacks: dict[str, list[Figures]] = defaultdict(list)
    for row in by_stack(log).to_pylist():
        if row["site"] is not None:
            stacks[row["site"]].append(tuple(row[name] for name in ("calls", "time", "read", "written")))
    lines = {one.site: (one.count, one.time, one.read, one.written) for one in summarize(log, top=1_000).sites}
    added = {site: capped(_added(figures)) for site, figures in stacks.items()}
    assert added == {site: capped(figures) for site, figures in lines.items()}


def test_by_line_in_rules_and_trials(log: Log) -> None:
    truth = Truth(log)
    times = truth.times("site", truth.outer_time, importing=False)
    times.pop(None, None)
    (table,) = scan(log, [LineCalls()])
    assert (
        nonzero({table.site(one["site"]): one.outer for one in table.where().by("site") if one["site"] >= 0}) == times
    )
    imports = [row["id"] for row in truth.every if row["imported"] or row["in_import"]]
    for rows, site in zip(rows_of(log, [(_finding(site), "line") for site in times]), times, strict=True):
        outermost = rows.outermost().columns
        assert capped([outermost["duration"][~np.isin(outermost["id"], imports)].sum()]) == times[site]


def _finding(site: str) -> Finding:
    file, line, function = site.rsplit(":", 2)
    return Finding("", 0, Recoverable(""), [], Query(""), sites=[Site(file, int(line), function)])


def test_by_operation(log: Log) -> None:
    truth = Truth(log)
    assert some(view(log, "by_op").values()) == some(truth.by("layer", "op").values())
    times = truth.times("op", truth.time)
    summary: Counter[str] = Counter()
    for one in summarize(log, top=1_000).operations:
        summary[one.op] += one.time
    assert nonzero(summary) == times
    (table,) = scan(log, [LineCalls()])
    every = table.where()
    assert nonzero({table.op(one["op"]): one.time for one in every.by("op")}) == truth.times("op", truth.time, False)


def test_by_process(log: Log) -> None:
    right = Truth(log).by("process")
    assert some(view(log, "by_process").values()) == some(right.values())
    moved = {index: capped(one[-2:]) for index, one in right.items() if any(one[-2:])}
    summary = {one.index: capped((one.read, one.written)) for one in summarize(log, top=1_000).processes}
    assert {index: one for index, one in summary.items() if any(one)} == moved
    assert some(view(log, "totals").values()) == some([_added(right.values())])


def test_a_killed_call_lasts_until_its_process_ended(tmp_path: Path) -> None:
    # GIVEN two calls that never returned WHEN all commands agree THEN it is on the time from their begin to the end
    times = view(open_log(ranks(tmp_path / "run.pyio")), "by_process")
    assert [one[0] for one in times.values()] == [7_000_000 + 5 * 1_000 + 50, 3_000_000 + 5 * 1_001 + 50]


@pytest.mark.parametrize("asked", ["from", "to"])
def test_files_of_copies_by_path(tmp_path: Path, asked: str) -> None:
    # GIVEN copies of files, some renamed since WHEN only the files of one of the folders are asked for
    log = open_log(LOGS["copies"](tmp_path / "run.pyio"))
    whole = {row["path"]: row for row in by_file(log).to_pylist()}
    chosen = restrict(log, Filter(paths=[f"{tmp_path}/{asked}"]))
    # THEN the copies are among the operations, and every table has the figures that the whole log has for these files
    assert {"sendfile", "copy_file_range"} <= set(chosen.operations(["op"])["op"].to_pylist())
    found = {row["path"]: row for row in by_file(chosen).to_pylist()}
    names = {name for name in whole if name.startswith(f"{tmp_path}/{asked}")}
    assert set(found) == names and len(names) == (4 if asked == "from" else 5)  # with the folder
    amounts = ("opens", "reads", "writes", "read", "written")
    assert all(found[name][one] == whole[name][one] for name in names for one in amounts)
    right = some([whole[name][one] for one in amounts] for name in names)
    assert some(one[2:] for one in view(chosen, "by_file").values()) == right
    assert some([getattr(row, one) for one in amounts] for row in summarize(chosen).files) == right
    groups = run_sums(chosen).groups
    counts = counts_by(groups, groups.path, int(groups.path.max()) + 1, of_files=True)
    assert some(of_counts(one)[2:] for one in counts if one.files) == right


@pytest.mark.parametrize("log", ["killed call", "copies", "ranks"], indirect=True)
def test_commands(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN the commands that print sums, as a user runs them
    def printed(*words: str) -> Any:
        assert main([words[0], *words[1:], str(log.path)]) == 0
        return json.loads(capsys.readouterr().out)

    def named(rows: list[Row], key: str, *names: str) -> dict[str, Figures]:
        """Figures by name; those of equal names are added up."""
        sums: dict[str, list[Figures]] = defaultdict(list)
        for row in rows:
            sums[row[key]].append(tuple(row[name] or 0 for name in names))
        added = {name: _added(figures) for name, figures in sums.items() if name is not None}
        return {name: figures for name, figures in added.items() if any(figures) and name[0] != "("}

    summary, files = printed("summary", "--json", "--top", "1000"), printed("files", "--format", "json")
    stacks, counters = printed("stacks", "--format", "json"), printed("counters", "--format", "json")
    views = {name: printed("view", name, "--json")["rows"] for name in ("by_file", "by_line", "by_process", "by_op")}
    # THEN they say the same by file
    names = ("time", "opens", "reads", "writes", "read", "written")
    of_view = ("time_ns", "opens", "reads", "writes", "read_bytes", "written_bytes")
    right = named(files, "path", *names)
    assert right and named(summary["files"], "path", *names) == right == named(views["by_file"], "key", *of_view)
    moved = [f"{module}_BYTES_{how}" for how in ("READ", "WRITTEN") for module in ("POSIX", "STDIO")]
    of_counters = {name: (one[0] + one[1], one[2] + one[3]) for name, one in named(counters, "path", *moved).items()}
    if "copy" not in log.operations(["op_class"])["op_class"].to_pylist():  # Darshan does not count these
        assert of_counters == named(files, "path", "read", "written")
    # AND by line
    times = named(summary["sites"], "site", "time")
    assert times and times == named(stacks, "site", "time") == named(views["by_line"], "key", "time_ns")
    # AND of the whole run
    assert main(["diff", "--json", str(log.path), str(log.path)]) == 0
    diff = json.loads(capsys.readouterr().out)["before"]
    of_diff = ("time", "opens", "reads", "writes", "bytes_read", "bytes_written")
    for rows in (views["by_line"], views["by_process"], views["by_op"]):
        assert _added([row[name] for name in of_view] for row in rows) == tuple(diff[name] for name in of_diff)
    assert sum(row["time"] for row in stacks) == diff["time"]
