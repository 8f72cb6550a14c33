# ruff: noqa: E501 - in the tables a program stands on one line
"""Each operation has the source line that caused it and the higher-level call it happened in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

#: Python 3.14 has its own ways here and there.
NEW = sys.version_info >= (3, 14)

#: way of reading -> (code of the function `read`, operations at the POSIX layer, the app call they happen in)
WAYS = {
    "open().read": ('with open("data", "rb") as f: return f.read()', {"read"}, "BufferedReader.read"),
    "text lines": ('f = open("text"); sum(map(len, f)); f.close()', {"read"}, "TextIOWrapper.__next__"),
    "readlines": ('with open("text") as f: return f.readlines()', {"read"}, None),
    "raw": ('with open("data", "rb", buffering=0) as f: return f.read(100)', {"read"}, "FileIO.read"),
    "os.pread": ('fd = os.open("data", 0); os.pread(fd, 100, 5); os.close(fd)', {"pread"}, None),
    "pathlib": ('return pathlib.Path("data").read_bytes()', {"read"}, "FileIO.read" if NEW else "BufferedReader.read"),
    "numpy.fromfile": ('return numpy.fromfile("data", dtype="u1")', set(), None),
    "numpy.load": ('return numpy.load("array.npy")', set(), None),
    "sqlite3": ('db = sqlite3.connect("base.db"); list(db.execute("select * from t")); db.close()', {"pread"}, None),
    "zipfile": ('with zipfile.ZipFile("pack.zip") as z: return z.read("data")', {"read"}, "BufferedReader.read"),
    "mmap": ('with open("data", "r+b") as f: m = mmap.mmap(f.fileno(), 0); m[:50]; m.close()', {"mmap"}, "mmap.mmap"),
    "pickle": ('with open("pickled", "rb") as f: return pickle.load(f)', {"read"}, None),
    "json": ('with open("some.json") as f: return json.load(f)', {"read"}, "TextIOWrapper.read"),
    "shutil": ('shutil.copyfile("data", "copy")', {"copy_file_range" if NEW else "sendfile"}, None),
    "scandir": ("return list(os.scandir('.'))", {"readdir"}, None),
    "gzip": ('with gzip.open("zipped.gz") as f: return f.read()', {"read"}, "BufferedReader.read"),
    "ctypes": (
        'libc = ctypes.CDLL(None); fd = libc.open(b"data", 0); libc.pread(fd, ctypes.create_string_buffer(9), 9, 0)',
        {"pread"},
        None,
    ),
}
PREPARE = """\
import ctypes, gzip, json, mmap, os, pathlib, pickle, shutil, sqlite3, zipfile
import numpy
pathlib.Path("data").write_bytes(b"x" * 20000)
pathlib.Path("text").write_text("a line\\n" * 3000)
pathlib.Path("some.json").write_text(json.dumps(list(range(1000))))
numpy.save("array.npy", numpy.arange(5000))
db = sqlite3.connect("base.db"); db.execute("create table t (x)"); db.execute("insert into t values (1)"); db.commit(); db.close()
with zipfile.ZipFile("pack.zip", "w") as z: z.write("data")
with gzip.open("zipped.gz", "wb") as f: f.write(b"x" * 5000)
with open("pickled", "wb") as f: pickle.dump(list(range(10000)), f)
import pyio_trace

def read():
    LINE

with pyio_trace.span("outer"):
    read()
"""


@pytest.mark.parametrize("way", WAYS)
def test_each_operation_has_its_line_and_its_caller(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN a program that reads in this way, in a function, in a span
    line, operations, caller = WAYS[way]
    text = PREPARE.replace("LINE", line)
    number = text.split("\n").index(f"    {line}") + 1
    # WHEN it is run traced
    outcome = succeeded(program.traced(text))
    (span,) = outcome.select(layer="user")
    rows = [row for row in outcome.rows if span in outcome.parents(row)]
    mine = [row for row in rows if (row["path"] or "").startswith(str(tmp_path)) and row["layer"] != "user"]
    # THEN every operation on its files is of that line, called from the one that called it
    assert {row["site"] for row in mine} == {f"{tmp_path}/program.py:{number}:read"}
    stack = f"{tmp_path}/program.py:{number + 3}:<module>;{tmp_path}/program.py:{number}:read"
    assert all(row["call_stack"].startswith(stack) for row in mine)
    posix = {row["op"] for row in mine if row["layer"] in ("posix", "stdio")}
    assert posix >= operations
    # THEN what happened in a call of a file object leads to it, and everything leads to the span
    if caller:
        of_library = {f"{way}.load", "_GzipReader.read", "ZipExtFile._read1"}
        for row in [row for row in mine if row["op"] in operations]:
            chain = [parent["op"] for parent in outcome.parents(row) if parent["op"] not in of_library]
            assert chain == [caller, "outer"] or (chain == ["outer"] and way == "mmap")
    # THEN there is no operation on these files outside it but by the preparations
    others = [row for row in outcome.rows if row["path"] in {row["path"] for row in mine} and row not in mine]
    assert all(row["site"] is None or row["site"].endswith(":<module>") for row in others)


def test_stack_goes_through_libraries(program: Runner, tmp_path: Path) -> None:
    # GIVEN a read deep in the standard library, below a lambda, a generator and a method
    text = """\
    import configparser

    class Settings:
        def load(self):
            return [name for name in (configparser.ConfigParser().read([n]) for n in ["set.ini"])]

    open("set.ini", "w").write("[a]\\nb = 1\\n")
    (lambda: Settings().load())()
    """
    # WHEN it is run traced THEN the site is the program's line, and the stack has all of them
    outcome = succeeded(program.traced(text))
    (row,) = outcome.select(op="read", path=tmp_path / "set.ini", bytes_moved=lambda moved: moved > 0)
    script = f"{tmp_path}/program.py"
    assert row["site"] == f"{script}:5:Settings.load.<locals>.<genexpr>"
    sites = row["call_stack"].split(";")
    assert sites[:5] == [
        f"{script}:8:<module>", f"{script}:8:<lambda>", f"{script}:5:Settings.load",
        f"{script}:5:Settings.load.<locals>.<listcomp>", f"{script}:5:Settings.load.<locals>.<genexpr>",
    ] or sites[:3] == [f"{script}:8:<module>", f"{script}:8:<lambda>", f"{script}:5:Settings.load"]  # fmt: skip
    assert sites[-1].rpartition(":")[2].startswith("RawConfigParser._read")  # or _read_inner, from 3.13


@pytest.mark.parametrize("stacks", ["full", "site", "off"])
def test_option_stacks(program: Runner, tmp_path: Path, stacks: str) -> None:
    # GIVEN a read below two functions
    text = """\
    import os
    def inner():
        os.stat("here")
    def outer():
        inner()
    open("here", "w").close()
    outer()
    """
    # WHEN it is run with --stacks
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_STACKS": stacks}))
    (row,) = outcome.select(op="stat", path=tmp_path / "here")
    script = f"{tmp_path}/program.py"
    # THEN there is the whole stack, or the line, or nothing
    assert row["site"] == (None if stacks == "off" else f"{script}:3:inner")
    if stacks == "full":
        assert row["call_stack"] == f"{script}:7:<module>;{script}:5:outer;{script}:3:inner"
    if stacks == "off":
        assert row["call_stack"] is None
    assert outcome.process(outcome.pid)["stack_state"] == stacks


def test_code_that_comes_and_goes(program: Runner, tmp_path: Path) -> None:
    # GIVEN ten thousand functions compiled one after the other, whose code objects take each other's place in memory
    text = """\
    import os
    for n in range(10000):
        names = {}
        exec(compile("\\n" * (n % 977) + f"def f{n}():\\n    os.access('x{n}', 0)\\n", f"/made/{n % 13}.py", "exec"), {"os": os}, names)
        names[f"f{n}"]()
        del names
    """
    # WHEN it is run traced THEN each operation has the line of its own function
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="access", site=lambda site: site is not None and site.startswith("/made/"))
    assert [row["path"] for row in rows] == [f"{tmp_path}/x{n}" for n in range(10000)]
    assert [row["site"] for row in rows] == [f"/made/{n % 13}.py:{n % 977 + 2}:f{n}" for n in range(10000)]


def test_more_lines_in_turn_than_a_thread_remembers(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program in which forty lines take turns opening and reading files, whose names have any letters
    names = [f"{letter}{n}" for n, letter in enumerate("aé☃😀" * 10)]
    lines = [f"    with open({name!r}, 'rb') as f: f.read(5)" for name in names]
    text = "\n".join(
        ["import pathlib", f"for name in {names!r}: pathlib.Path(name).touch()", "for _ in range(3):", *lines]
    )
    # WHEN it is run traced
    outcome = succeeded(program.traced(text))
    # THEN each call has its line, and so has what it did to the file
    wanted = [(f"{tmp_path}/{name}", f"{program.folder}/program.py:{n}:<module>") for n, name in enumerate(names, 4)]
    for op, layer in (("open", "app"), ("BufferedReader.read", "app"), ("read", "posix")):
        rows = outcome.select(op=op, layer=layer, path=[path for path, _ in wanted])
        assert [(row["path"], row["site"]) for row in rows] == wanted * 3, op


def test_deep_recursion(program: Runner, tmp_path: Path) -> None:
    # GIVEN a read below 900 frames WHEN it is run traced
    text = """\
    import os
    def down(n):
        down(n - 1) if n else os.access("deep", 0)
    down(900)
    """
    outcome = succeeded(program.traced(text))
    # THEN its line is there, and the stack as far as it is kept
    (row,) = outcome.select(op="access", path=tmp_path / "deep")
    assert row["site"] == f"{tmp_path}/program.py:3:down"
    assert row["call_stack"].count(";") >= 63


def test_spans(program: Runner, tmp_path: Path) -> None:
    # GIVEN spans nested, as decorators, with details, left by exceptions, and a suppressed stretch
    text = """\
    import os
    import pyio_trace
    @pyio_trace.span("decorated", depth=1)
    def work():
        os.mkdir("in decorated")
    with pyio_trace.span("epoch", number=3, what={"a": [1]}):
        with pyio_trace.span("step"):
            os.mkdir("in step")
        try:
            with pyio_trace.span("failing"):
                raise KeyError
        except KeyError:
            os.mkdir("in epoch")
        work()
        with pyio_trace.suppress():
            os.mkdir("suppressed")
            with pyio_trace.span("unseen"):
                open("unseen", "w").close()
        os.mkdir("seen again")
    os.mkdir("outside")
    """
    # WHEN it is run traced THEN each operation is in its span, with what was said of it
    outcome = succeeded(program.traced(text))
    chains = {
        Path(row["path"]).name: [parent["op"] for parent in outcome.parents(row)] for row in outcome.select(op="mkdir")
    }
    assert chains == {
        "in step": ["step", "epoch"], "in epoch": ["epoch"], "in decorated": ["decorated", "epoch"],
        "seen again": ["epoch"], "outside": [],
    }  # fmt: skip
    details = {row["op"]: row["detail"] for row in outcome.select(layer="user")}
    assert details == {
        "epoch": '{"number": 3, "what": {"a": [1]}}', "step": None, "failing": None, "decorated": '{"depth": 1}',
    }  # fmt: skip
    assert all(row["duration"] is not None for row in outcome.select(layer="user"))


def test_spans_with_any_details(program: Runner) -> None:
    # GIVEN spans with details that JSON does not have, with keys that it does not have, and with a repr that fails
    text = """\
    import pyio_trace
    class Odd:
        def __repr__(self):
            print("asked")
            raise ValueError("no")
    cycle = []
    cycle.append(cycle)
    with pyio_trace.span("step", loss=float("nan"), sizes={(1, 2): 3}, cycle=cycle, odd=Odd(), n=1, kind=set):
        print("inside")
    """
    # WHEN it is run untraced THEN nobody looks at them
    assert program.bare(text).stdout == "inside\n"
    # WHEN it is run traced THEN it goes on, and the details are JSON
    outcome = succeeded(program.traced(text))
    assert outcome.stdout.endswith("inside\n")
    (row,) = outcome.select(layer="user")
    assert json.loads(row["detail"], parse_constant=pytest.fail) == {
        "loss": "nan", "sizes": "{(1, 2): 3}", "cycle": "[[...]]", "odd": "Odd", "n": 1, "kind": "<class 'set'>",
    }  # fmt: skip
