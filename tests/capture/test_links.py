"""I/O of threads that never had a span open: its parent is found through the descriptor or the file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import LEAVE, Runner, clean_environment, succeeded

#: Spans of the application layer as an instrument opens them, and threads that nobody hands anything to.
PRELUDE = """\
import _thread, os, sys
from contextlib import contextmanager
from pyio_trace import native

@contextmanager
def span(name, path=None):
    if native.core is None:
        yield
        return
    opened = native.core.Span()
    opened.begin(name, 0, path, None)
    try:
        yield
    finally:
        opened.end()

def elsewhere(work):
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (work(), done.release()), ())
    done.acquire()
"""


def test_a_thread_nobody_hands_anything_to(program: Runner, tmp_path: Path) -> None:
    # GIVEN threads that read: in a span what was opened in it, and after it; in a span a file it has declared, by its
    # own descriptor; a file that two threads' spans have declared; and files of nobody's
    for name in ("one", "two", "three", "four"):
        (tmp_path / name).write_bytes(bytes(100_000))
    text = PRELUDE + (
        "def read_all(name):\n"
        "    fd = os.open(name, os.O_RDONLY)\n"
        "    while os.read(fd, 10_000): pass\n"
        "    os.close(fd)\n"
        "with span('opens'):\n"
        "    file = open('one', 'rb')\n"
        "    elsewhere(lambda: [os.pread(file.fileno(), 1_000, n) for n in range(50)])\n"
        "elsewhere(lambda: [os.pread(file.fileno(), 2_000, n) for n in range(7)])\n"
        "with span('declares', os.path.abspath('two')):\n"
        "    elsewhere(lambda: read_all('two'))\n"
        "    elsewhere(lambda: read_all('four'))\n"
        "def second():\n"
        "    with span('B', os.path.abspath('three')):\n"
        "        elsewhere(lambda: read_all('three'))\n"
        "with span('A', os.path.abspath('three')):\n"
        "    elsewhere(second)\n"
    )
    # WHEN it is run traced, and its log packed
    outcome = succeeded(program.traced(text))
    pack(outcome.path, tmp_path / "run.parquet")
    table = open_log(tmp_path / "run.parquet").operations()
    assert table.equals(outcome.table)
    # THEN each has the span it is of, as surely as that is known
    spans = {row["op"]: row["id"] for row in outcome.select(layer="app", op=("opens", "declares", "A", "B"))}

    def seen(**wanted: object) -> set[tuple[object, object]]:
        return {(row["link"], row["parent"]) for row in outcome.select(**wanted)}

    through = outcome.select(op="pread", bytes_requested=1_000)
    assert {(row["link"], row["parent"]) for row in through} == {("descriptor", spans["opens"])}
    assert (len(through), sum(row["bytes_moved"] for row in through)) == (50, 50_000)
    assert seen(op="pread", bytes_requested=2_000) == {("none", None)}
    declared = outcome.select(path=tmp_path / "two", op=("open", "read", "close"))
    assert {(row["link"], row["parent"]) for row in declared} == {("inferred", spans["declares"])}
    assert sum(row["bytes_moved"] or 0 for row in declared) == 100_000 and len(declared) == 13
    assert seen(path=tmp_path / "four") == {("none", None)}
    unsure = outcome.select(path=tmp_path / "three", op=("open", "read", "close"))
    assert len(unsure) == 13 and {(row["link"], row["parent"]) for row in unsure} == {("none", None)}
    assert {row["detail"] for row in unsure} == {json.dumps({"candidate_parents": [spans["A"], spans["B"]]})}
    # THEN the table of links has their sums
    links = {row.link: row for row in summarize(outcome.log).links}
    assert (links["descriptor"].count, links["descriptor"].bytes) == (50, 50_000)
    assert (links["inferred"].count, links["inferred"].bytes) == (13, 100_000)
    assert links["none"].bytes == 200_000 and links["outside"].bytes >= 14_000


@pytest.mark.parametrize("how", ["path", "file object", "folder"])
def test_arrow_reads_on_threads_of_its_own(program: Runner, tmp_path: Path, how: str) -> None:
    # GIVEN a Parquet file of many column chunks, read in a span, by name, as a Python file, or as one of a folder
    pa = pytest.importorskip("pyarrow", reason="pyarrow's own threads are what is tried here")
    import pyarrow.parquet as pq

    (tmp_path / "set").mkdir()
    path = tmp_path / "set" / "data.parquet"
    table = pa.table({f"c{n}": list(range(n, 20_000 + n)) for n in range(6)})
    pq.write_table(table, path, row_group_size=2_000, compression="none", use_dictionary=False)
    source = {"path": str(path), "file object": "open(path, 'rb')", "folder": str(path.parent)}[how]
    text = PRELUDE + (
        "import pyarrow.parquet as pq\n"
        f"path = {str(path)!r}\n"
        f"source = {source if how == 'file object' else repr(source)}\n"
        f"with span('read_table'{'' if how == 'folder' else ', path'}):\n"
        "    table = pq.read_table(source, pre_buffer=False)\n"
        "print(table.num_rows, table.nbytes)\n"
        f"{LEAVE if how == 'file object' else ''}"
    )
    # WHEN it is run traced THEN all that it read of the file is the span's; most of it by other threads than its own
    outcome = succeeded(program.traced(text))
    (span,) = outcome.select(op="read_table", layer="app")
    moved = outcome.select(path=path, layer="posix", op=("read", "pread"))
    owners = [outcome.parents(row)[-1]["id"] if row["parent"] is not None else None for row in moved]
    assert set(owners) == {span["id"]}
    assert sum(row["bytes_moved"] for row in moved) >= table.nbytes
    others = [row for row in moved if row["tid"] != span["tid"]]
    # a Python file is read by whichever thread has the GIL
    assert len(others) >= (60 if how != "file object" else 1)
    if how == "file object":  # opened before: its own calls are found by the file, and what they call is theirs
        calls = [outcome.parents(row)[0] for row in others]
        assert {(call["layer"], call["link"]) for call in calls} == {("app", "inferred")}
    else:
        assert {row["link"] for row in others} == {"descriptor"}
    # THEN as many calls as the kernel saw
    if how == "path":
        assert len(outcome.select(path=path, op="pread")) == preads(program, path)


def preads(program: Runner, path: Path) -> int:
    """How many pread64 of the file strace sees when the program runs untraced by us."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    output = program.folder / "strace.txt"
    words = ["strace", "-f", "-qq", "-e", "trace=pread64", "-P", str(path), "-o", str(output), sys.executable]
    done = subprocess.run([*words, program.folder / "program.py"], cwd=program.folder, env=clean_environment(),
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        pytest.skip(f"strace cannot trace here: {done.stderr[-300:]}")
    return len(re.findall(r"\bpread64\(", output.read_text()))


def test_sums_are_left_as_they_are(program: Runner, tmp_path: Path) -> None:
    # GIVEN the same threads in mode profile, where rows stand for any number of calls WHEN traced
    (tmp_path / "one").write_bytes(bytes(1_000))
    text = PRELUDE + (
        "with span('declares', os.path.abspath('one')):\n"
        "    fd = os.open('one', os.O_RDONLY)\n"
        "    elsewhere(lambda: os.pread(fd, 100, 0))\n"
    )
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN nothing is found for them, and nothing is lost
    (row,) = outcome.select(op="pread", path=tmp_path / "one")
    assert (row["link"], row["parent"], row["bytes_moved"]) == ("none", None, 100)
