"""pyio_trace.trace() around a part of a program records exactly that part and then restores everything."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

import pyio_trace
from tests.support.programs import Outcome, Runner, succeeded

#: Lazy binding changes slots by itself: it is done before the comparison.
BOUND = {"LD_BIND_NOW": "1"}

#: What a program can see of itself that tracing changes while it is on.
STATE = """\
import concurrent.futures.thread, io, mmap, os, sys
from pyio_trace import native

native.core.files_install_mmap(mmap.mmap)  # so that a snapshot has mmap's entries from the first on
native.core.files_uninstall()

def state():
    return {
        "got": native.core.got_snapshot(),
        "types": native.core.files_snapshot(),
        "environ": dict(os.environ),
        "meta_path": list(sys.meta_path),
        "path_hooks": list(sys.path_hooks),
        "submit": concurrent.futures.thread.ThreadPoolExecutor.submit,
        "methods": [io.FileIO.read, io.BufferedReader.read, io.TextIOWrapper.write, open, os.stat, mmap.mmap.read],
        "descriptors": os.listdir("/proc/self/fd"),
    }
"""


def with_log(outcome: Outcome, path: Path) -> Outcome:
    """The same outcome, with another of its logs."""
    return Outcome(outcome.status, outcome.stdout, outcome.stderr, path, outcome.pid)


def test_rules_and_names_as_lists(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that traces the same thrice, with lists of rules
    text = """\
    import os
    from pathlib import Path
    import pyio_trace
    for name in ("a.h5", "b.txt"):
        Path(name).write_text(name)

    def traced(name, **options):
        with pyio_trace.trace(name, **options):
            open("a.h5").close()
            open("b.txt").close()
            os.stat("b.txt")

    traced("paths.pyio", include=["*.h5"])
    traced("ops.pyio", include=("op:open", "op:cl*"))
    traced("layers.pyio", include=["layer:app", Path("b.txt")], instruments=["h5py", "numpy"])
    traced("none.pyio", exclude=["*.h5", "*.txt"])
    for options in ({"mode": "x"}, {"mode": 3}, {"include": [1]}, {"min_size": 1e290}, {"max_log_size": "9" * 5000}):
        try:
            pyio_trace.trace("wrong.pyio", **options)
        except pyio_trace.PyioTraceError as problem:
            print(str(problem).partition(":")[0], problem.slug)
    """
    # WHEN it is run
    outcome = succeeded(program.command([sys.executable, program.write(text)]))
    # THEN each log has what its rules name
    seen = {}
    for name in ("paths", "ops", "layers", "none"):
        log = with_log(outcome, tmp_path / f"{name}.pyio")
        rows = log.select(path=lambda path: path and path.startswith(str(tmp_path)))
        seen[name] = {(row["layer"], row["op"], Path(row["path"]).name) for row in rows}
    assert {("app", "open", "a.h5"), ("posix", "open", "a.h5")} <= seen["paths"]
    assert {path for _, _, path in seen["paths"]} == {"a.h5"}
    assert ("posix", "close", "b.txt") in seen["ops"] and {op for _, op, _ in seen["ops"]} == {"open", "close"}
    assert ("app", "open", "b.txt") in seen["layers"]
    assert {(layer, path) for layer, _, path in seen["layers"]} == {("app", "b.txt")}
    assert not seen["none"]
    # AND what is wrong is blamed on the argument
    wanted = ["mode bad-value", "mode bad-value", "include bad-value", "min_size bad-size", "max_log_size bad-size"]
    assert outcome.stdout.splitlines() == wanted


def test_captures_exactly_the_part(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that loaded its libraries and opened its files before
    text = """\
    import os, sqlite3, sys, zipfile
    import numpy
    import pyio_trace
    numpy.arange(1000).tofile("numbers")
    database = sqlite3.connect("base.db")
    database.execute("create table t (x)")
    database.commit()
    file = open("text", "w+")
    fd = os.open("raw", os.O_CREAT | os.O_RDWR)

    def everything(part):
        os.write(fd, b"x" * part)
        file.write("y" * part)
        file.flush()
        database.execute("insert into t values (?)", [part])
        database.commit()
        numpy.fromfile("numbers", dtype="int64", count=part)

    everything(1)
    with pyio_trace.trace("part.pyio") as run:
        everything(2)
        assert run.path.endswith("part.pyio")
    everything(3)
    """
    # WHEN it is run, traced only by its own context manager
    outcome = with_log(succeeded(program.bare(text)), tmp_path / "part.pyio")
    # THEN the operations of the part are there, and none from before or after
    assert [(row["file_offset"], row["bytes_moved"]) for row in outcome.select(op="write", path=tmp_path / "raw")] == [
        (1, 2)
    ]
    assert [(row["file_offset"], row["bytes_moved"]) for row in outcome.select(op="write", path=tmp_path / "text")] == [
        (1, 2)
    ]
    assert [row["bytes_moved"] for row in outcome.select(op="TextIOWrapper.write", path=tmp_path / "text")] == [2]
    of_sqlite = outcome.select(path=tmp_path / "base.db", op=("pwrite", "pread", "fdatasync", "fsync"))
    sites = {row["site"] for row in of_sqlite}
    assert sites == {f"{tmp_path}/program.py:{line}:everything" for line in (15, 16)} & sites and sites
    assert outcome.select(path=tmp_path / "numbers", op="open")
    assert outcome.process(outcome.pid)["ended"] == "stopped tracing"
    assert outcome.log.losses() == {}


CASES = {
    "nothing": "pass",
    "files": "open('a', 'w').write('x'); list(open('a')); m = open('b', 'w+b'); m.write(b'x' * 9); m.flush(); "
             "mm = mmap.mmap(m.fileno(), 0); mm[0]; mm.close(); m.close()",
    "an exception": "open('/nonexistent')",
    "imports": "import sqlite3, zipfile, bz2, csv, json, decimal",
    "threads": "list(concurrent.futures.ThreadPoolExecutor(2).map(os.stat, ['.'] * 10))",
    "a fork": "pid = os.fork()\n    if pid == 0: os.stat('.'); os._exit(0)\n    os.waitpid(pid, 0)",
    "a subprocess": "import subprocess; subprocess.run([sys.executable, '-c', 'pass'])",
    "a span left open": "pyio_trace.span('open').__enter__()",
    "suppression": "pyio_trace.suppress().__enter__()",
    "a subclass": "type('Mine', (io.FileIO,), {})(os.devnull).read(1)",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_everything_is_as_it_was(program: Runner, case: str) -> None:
    # GIVEN a program that looks at what tracing may change, before, inside and after
    text = (
        STATE
        + f"""
import pyio_trace, pyio_trace.session, sqlite3, zipfile, bz2, csv, json, decimal, subprocess, numpy
before = state()
try:
    with pyio_trace.trace("one.pyio"):
        inside = state()
        {CASES[case].replace(chr(10), chr(10) + "    ")}
except FileNotFoundError as error:
    assert error.filename == "/nonexistent"
after = state()
for name in before:
    assert after[name] == before[name], name
assert inside["got"] != before["got"] and inside["types"] != before["types"]
assert inside["descriptors"] == before["descriptors"]
assert [a is b for a, b in zip(inside["methods"], before["methods"])] == [True] * len(before["methods"])
assert list(inside["got"]) == list(before["got"])
print(sum(inside["got"][slot] != before["got"][slot] for slot in before["got"]))
"""
    )
    # WHEN it is run THEN each slot, entry, variable and hook is what it was
    outcome = succeeded(program.bare(text, env=BOUND))
    assert int(outcome.stdout) > 50
    assert outcome.stderr == ""


def test_short_stacks_then_whole_ones(program: Runner) -> None:
    # GIVEN a call twenty frames deep, traced first with its line only and then with whole stacks
    text = """\
    import os, pyio_trace
    def below(depth):
        os.stat("/") if depth == 0 else below(depth - 1)
    for name, stacks in (("one.pyio", "site"), ("two.pyio", "full")):
        with pyio_trace.trace(name, stacks=stacks):
            below(20)
    """
    # WHEN it is run THEN each log has what was asked for
    outcome = succeeded(program.bare(text))
    frames = []
    for name in ("one.pyio", "two.pyio"):
        rows = pyio_trace.open(program.folder / name).operations().to_pylist()
        [stack] = [row["call_stack"] for row in rows if row["op"] == "stat"]
        frames.append(stack.count(";") + 1)
    assert frames[0] < 10 and frames[1] == 22, outcome.stderr


def test_twice_into_two_logs(program: Runner, tmp_path: Path) -> None:
    # GIVEN two stretches, with objects and threads that live through both
    text = """\
    import os, sys, threading
    import pyio_trace
    file = open(sys.argv[1], "rb", buffering=50)
    bound_before = file.read
    turn = [threading.Event() for _ in range(2)]
    done = [threading.Event() for _ in range(2)]
    def other():
        for n in range(2):
            turn[n].wait()
            os.pread(file.fileno(), 50 + n, 0)
            done[n].set()
    thread = threading.Thread(target=other)
    thread.start()
    for n, name in enumerate(["one.pyio", "two.pyio"]):
        with pyio_trace.trace(name):
            file.read(10 + n)
            bound_before(200)
            turn[n].set()
            done[n].wait()
        file.read(5)
    thread.join()
    """
    data = tmp_path / "data"
    data.write_bytes(b"x" * 1000)
    # WHEN it is run THEN each log has its own stretch; a method bound before is seen one layer further down
    # (docs/explanation/limits.md)
    outcome = succeeded(program.bare(text, data))
    for n, name in enumerate(["one.pyio", "two.pyio"]):
        part = with_log(outcome, tmp_path / name)
        assert [row["bytes_moved"] for row in part.select(op="BufferedReader.read", path=data)] == [10 + n]
        assert sum(row["bytes_moved"] for row in part.select(op=("FileIO.read", "FileIO.readinto"), path=data)) >= 150
        assert [row["bytes_requested"] for row in part.select(op="pread", path=data)] == [50 + n]


def test_fifty_stretches_in_a_row(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that starts and stops tracing fifty times, other threads being at work
    text = """\
    import os, sys, threading
    import pyio_trace
    done = threading.Event()
    def work():
        while not done.is_set():
            with open(__file__, "rb") as file:
                file.read(10)
                for line in file: pass
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for n in range(50):
        with pyio_trace.trace(f"{n}.pyio"):
            os.stat(f"/{n}")  if n < 0 else os.access(f"/{n}", 0)
    done.set()
    for thread in threads: thread.join()
    """
    # WHEN it is run THEN each log is whole
    outcome = succeeded(program.bare(text))
    for n in range(50):
        part = with_log(outcome, tmp_path / f"{n}.pyio")
        assert len(part.select(op="access", path=f"/{n}")) == 1
        assert part.log.losses() == {}


def test_exception_passes(program: Runner, tmp_path: Path) -> None:
    # GIVEN an exception inside WHEN it is run THEN it passes, and the log is whole
    text = """\
    import os
    import pyio_trace
    try:
        with pyio_trace.trace("run.pyio"):
            os.mkdir("made")
            raise KeyError("mine")
    except KeyError as error:
        print(error.args)
    """
    outcome = succeeded(program.bare(text))
    assert outcome.stdout == "('mine',)\n"
    assert len(with_log(outcome, tmp_path / "run.pyio").select(op="mkdir", path=tmp_path / "made")) == 1


def test_fork_inside_and_across(program: Runner, tmp_path: Path) -> None:
    # GIVEN children forked inside the traced block, one of which leaves the block
    text = """\
    import os
    import pyio_trace
    left, leaves = os.pipe()
    with pyio_trace.trace("run.pyio"):
        pid = os.fork()
        if pid == 0:
            os.mkdir("child")
            os._exit(0)
        os.waitpid(pid, 0)
        pid = os.fork()
        if pid:
            os.read(left, 1)
        os.mkdir("leaver" if pid == 0 else "parent")
    if pid == 0:
        os.mkdir("later child")
        os.write(leaves, b"x")
        os._exit(0)
    os.waitpid(pid, 0)
    os.mkdir("later parent")
    pid = os.fork()
    if pid == 0:
        os.mkdir("much later")
        os._exit(0)
    os.waitpid(pid, 0)
    """
    # WHEN it is run THEN what its processes did inside is there, and nothing that they did after leaving it
    outcome = with_log(succeeded(program.bare(text)), tmp_path / "run.pyio")
    made = Counter(Path(row["path"]).name for row in outcome.select(op="mkdir"))
    assert made.keys() >= {"child", "leaver", "parent"}
    assert not made.keys() & {"later child", "later parent", "much later"}
    assert outcome.log.losses() == {}


def test_packs_at_the_end(program: Runner, tmp_path: Path) -> None:
    # GIVEN a stretch whose log is to be Parquet
    text = """\
    import os
    import pyio_trace
    with pyio_trace.trace("run.parquet") as run:
        os.mkdir("made")
    os.mkdir("after")
    print(run.path, *pyio_trace.open(run.path).operations(["op"]).column("op").unique().to_pylist())
    """
    # WHEN it is run THEN the packed log is there, and only that one
    outcome = succeeded(program.bare(text))
    assert outcome.stdout.split()[0] == str(tmp_path / "run.parquet")
    assert "mkdir" in outcome.stdout.split()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["program.py", "run.parquet"]
    assert pyio_trace.open(tmp_path / "run.parquet").rows() > 0


def test_started_where_it_is_already_on(program: Runner) -> None:
    # GIVEN a traced program that starts tracing itself
    text = """\
    import pyio_trace
    try:
        with pyio_trace.trace("other.pyio"):
            pass
    except pyio_trace.PyioTraceError as error:
        print(error.slug)
    """
    # WHEN it is run THEN it gets an error
    assert succeeded(program.traced(text)).stdout == "already-tracing\n"


def test_bound_methods_and_objects_outlive_it(program: Runner, tmp_path: Path) -> None:
    # GIVEN methods, iterators and classes that are taken inside and used afterwards, and the other way round
    text = """\
    import io, mmap, os
    import pyio_trace
    open("data", "w").write("line\\n" * 100)
    early = open("data")
    early_next, early_read = early.__next__, early.buffer.read
    early_map = mmap.mmap(os.open("data", os.O_RDWR), 0)
    with pyio_trace.trace("run.pyio"):
        assert early_next() == "line\\n"
        late = open("data", "rb")
        late_read, late_next, late_init = late.read, late.__next__, io.FileIO.__init__
        class Mine(io.FileIO):
            pass
        class Iterated(io.TextIOWrapper):
            pass
        late_map = mmap.mmap(os.open("data", os.O_RDWR), 0)
        getitem = late_map.__getitem__
        assert early_map[0] == late_map[0] == ord("l")
        late_read(3)
    for _ in range(3):
        assert late_read(5) and late_next() and getitem(0) == ord("l") and early_map[0] == ord("l")
        raw = Mine("data"); assert raw.read(4) == b"line"; late_init(raw, "data"); raw.readall()
        assert len(list(Iterated(io.FileIO("data")))) == 100
        late_map[1:3] = b"in"; late_map[0] = 108; late_map.flush()
        with pyio_trace.trace("again.pyio"):
            late_read(1)
    """
    # WHEN it is run THEN all of them work, whether or not anything is traced
    outcome = succeeded(program.bare(text))
    part = with_log(outcome, tmp_path / "run.pyio")
    assert [row["bytes_moved"] for row in part.select(op="BufferedReader.read", path=tmp_path / "data")] == [3]
    assert len(part.select(op="TextIOWrapper.__next__", path=tmp_path / "data")) == 1


def test_log_that_cannot_be_leaves_nothing_changed(program: Runner) -> None:
    # GIVEN a block whose log cannot be written WHEN it is run THEN it gets an error, and nothing has changed
    text = (
        STATE
        + """
import pyio_trace
before = state()
for bad in ("/proc/nonexistent/x.pyio", "/proc/x.pyio", __file__):
    try:
        with pyio_trace.trace(bad):
            print("traced")
    except pyio_trace.PyioTraceError as error:
        print(error.slug)
assert state() == before
"""
    )
    assert succeeded(program.bare(text, env=BOUND)).stdout.split() == ["no-such-folder", "unwritable-log", "log-exists"]
