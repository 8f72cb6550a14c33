"""The selection that summary, files, events and stacks share: the same options, the same operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Outcome, Runner
from tests.support.smallrun import small_run

Capture = pytest.CaptureFixture[str]

#: Two processes: 10 writes of 100 bytes to each of 4 files of its own, from two lines; then they read one file.
PROGRAM = """
    import os, subprocess, sys

    def write(name):
        with open(name, "wb", buffering=0) as file:
            for _ in range(10):
                file.write(bytes(100))

    def read(name):
        with open(name, "rb", buffering=0) as file:
            file.read(1000)

    me = "child" if len(sys.argv) > 1 else "first"
    for number in range(4):
        write(f"{me}-{number}.bin")
    read(f"{me}-0.bin")
    if me == "first":
        subprocess.run([sys.executable, "program.py", "again"], check=True)
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("chosen")
    done = Runner(folder).traced(PROGRAM)
    assert done.status == 0, done.stderr
    return done


def asked(capsys: Capture, command: str, log: object, *words: str) -> Any:
    """What a command prints as JSON."""
    assert main([command, str(log), "--format", "json", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def in_all(capsys: Capture, log: object, *words: str) -> tuple[int, int]:
    """(calls, bytes written) of a selection; asserts that events, files, stacks and summary say the same."""
    events = asked(capsys, "events", log, *words, "--layer", "posix")
    found = sum(row["calls"] for row in events), sum(row["bytes_moved"] or 0 for row in events if row["op"] == "write")
    stacks = asked(capsys, "stacks", log, *words, "--layer", "posix")
    assert (sum(row["calls"] for row in stacks), sum(row["written"] for row in stacks)) == found
    files = asked(capsys, "files", log, *words, "--layer", "posix")
    assert (sum(row["calls"] for row in files), sum(row["written"] for row in files)) == found
    summary = asked(capsys, "summary", log, *words, "--layer", "posix")
    assert (summary["run"]["calls"], summary["bytes"]["posix_written"]) == found
    return found


@pytest.mark.parametrize("kind", ["live", "packed"])
def test_every_command_chooses_the_same(kind: str, done: Outcome, tmp_path: Path, capsys: Capture) -> None:
    # GIVEN a run that made 40 writes of 100 bytes in each of two processes
    log = done.path
    if kind == "packed":
        log = tmp_path / "run.parquet"
        pack(done.path, log)
    child, first = done.processes[-1]["pid"], done.processes[0]["pid"]
    assert child != first
    # WHEN writes are chosen by path, process, line and operation THEN each command has exactly those
    writes = ("--op", "write", "--path", "*.bin")
    assert in_all(capsys, log, *writes) == (80, 8_000)
    assert in_all(capsys, log, "--op", "write", "--path", "child-*.bin") == (40, 4_000)
    assert in_all(capsys, log, *writes, "--path", "nothing") == (80, 8_000)
    assert in_all(capsys, log, *writes, "--process", str(child)) == (40, 4_000)
    assert in_all(capsys, log, *writes, "--process", str(first), "--path", "child-1.bin") == (40, 4_000)
    assert in_all(capsys, log, "--op", "write", "--path", "child-1.bin", "--process", str(first)) == (0, 0)
    assert in_all(capsys, log, *writes, "--process", "*program.py again") == (40, 4_000)
    assert in_all(capsys, log, *writes, "--process", "program.py") == (80, 8_000)
    assert in_all(capsys, log, *writes, "--line", "program.py:7") == (80, 8_000)
    assert in_all(capsys, log, *writes, "--line", "program.py:11") == (0, 0)
    assert in_all(capsys, log, "--op", "read", "--path", "*.bin", "--line", "program.py:11") == (2, 0)


def test_time(done: Outcome, capsys: Capture) -> None:
    # GIVEN when each operation began and ended, in ns since the run's start
    start = done.log.info()["start"]
    ends = {row["id"]: done.processes[row["process"]]["end"] for row in done.rows if row["duration"] is None}
    rows = [(row["time"] - start, (ends.get(row["id"]) or row["time"] + row["duration"]) - start) for row in done.rows]
    middle = sorted(rows)[len(rows) // 2][0]
    # WHEN one half is chosen THEN these are the operations under way then, or begun before
    late = asked(capsys, "events", done.path, "--since", f"{middle}ns")
    assert len(late) == sum(end >= middle for _, end in rows)
    early = asked(capsys, "events", done.path, "--until", f"{middle}ns")
    assert len(early) == sum(begin < middle for begin, _ in rows)
    assert 0 < len(late) < len(rows) and 0 < len(early) < len(rows)


def test_the_summary_says_that_it_is_of_a_selection(done: Outcome, capsys: Capture) -> None:
    # WHEN a summary is of the child's writes alone
    child = done.processes[-1]["pid"]
    words = ("--op", "write", "--process", str(child), "--path", "child-0.bin", "--layer", "posix", "--until", "1000s")
    assert main(["summary", str(done.path), *words]) == 0
    lines = capsys.readouterr().out.splitlines()[:4]
    # THEN its first lines say so, and how much of the log that is
    assert f"Selected 10 of {len(done.rows):,} rows: --path child-0.bin --layer posix --op write" in lines[1]
    # and wall time and processes are the child's
    summary = asked(capsys, "summary", done.path, *words)
    assert [one["pid"] for one in summary["processes"]] == [child]
    entry = done.process(child)
    assert 0 < summary["time"]["wall"] <= entry["end"] - done.processes[0]["begin"]


def test_nothing_chosen(done: Outcome, capsys: Capture) -> None:
    assert main(["summary", str(done.path), "--path", "/no/such/file"]) == 0
    assert "No operation matches the selection." in capsys.readouterr().out
    for command in ("files", "stacks", "events"):
        assert asked(capsys, command, done.path, "--path", "/no/such/file") == []


def test_numbers_of_processes(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN two processes, 100 and 200, with the indexes 0 and 1; the second made two POSIX calls
    log = small_run(tmp_path / "run.pyio")
    # WHEN the second is named by its pid, by its index or by what it runs THEN those are found
    for word in ("200", "1", "python -c pass"):
        assert len(asked(capsys, "events", log, "--process", word)) == 2, word
    assert len(asked(capsys, "events", log, "--process", "python")) == open_log(log).rows()


@pytest.mark.parametrize("command", ["summary", "files", "events", "stacks", "counters"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--layer", "posx"], "--layer: there is no layer 'posx'"),
        (["--op", "raed"], "did you mean read?"),
        (["--process", "7"], "--process: no process '7' in this log"),
        (["--process", "train.pz"], "did you mean train.py?"),
        (["--rank", "0"], "--rank: no process of this log has a rank"),
        (["--rank", "first"], "--rank: 'first' is not a rank"),
        (["--rank", "0,,1"], "--rank: '0,,1' is not a rank"),
        (["--since", "soon"], "--since: 'soon' is not a duration"),
        (["--until", "-1s"], "--until: '-1s' is out of range"),
        (["--since", "2s", "--until", "1s"], "--since is not before --until"),
    ],
)
def test_bad_words(command: str, words: list[str], said: str, tmp_path: Path, capsys: Capture) -> None:
    log = small_run(tmp_path / "run.pyio")
    flag, *rest = words
    assert main([command, str(log), f"{flag}={rest[0]}", *rest[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


def test_ranks(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log whose process table has ranks 0 and 1
    from pyio_trace.join.sources.live_source import LiveSource

    table = LiveSource.processes
    monkeypatch.setattr(
        LiveSource, "processes", lambda self: [dict(p, global_rank=n) for n, p in enumerate(table(self))]
    )
    monkeypatch.setattr("pyio_trace.join.sources.facade.table_of", _as_table)
    log = small_run(tmp_path / "run.pyio")
    # WHEN one is chosen THEN these are its operations; WHEN there is no such rank, the error says which there are
    assert {row["pid"] for row in asked(capsys, "events", log, "--rank", "1")} == {200}
    assert {row["pid"] for row in asked(capsys, "events", log, "--rank", "1", "--rank", "0")} == {100, 200}
    assert {row["pid"] for row in asked(capsys, "events", log, "--rank", "1,0")} == {100, 200}
    assert main(["events", str(log), "--rank", "5"]) == 2
    assert "no process of rank 5; they are 0 to 1" in capsys.readouterr().err


def _as_table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("command", ["summary", "files", "events", "stacks", "counters", "diff"])
def test_help_has_the_selection(command: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    for flag in ("--path", "--layer", "--op", "--process", "--rank", "--since", "--until", "--line"):
        assert f"  {flag} " in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_outermost_of_the_selection_count(tmp_path: Path, capsys: Capture) -> None:
    # GIVEN POSIX calls on a file, in requests and by themselves: 1,000 + 6,000 + 5,000 + 9,000 + 1,000 ns
    log = small_run(tmp_path / "run.pyio")
    # WHEN only POSIX is chosen THEN each call is outermost, and has its time
    (row,) = asked(capsys, "files", log, "--path", "/d/in.bin", "--layer", "posix")
    assert row["time"] == 22_000
    stacks = asked(capsys, "stacks", log, "--path", "/d/in.bin", "--layer", "posix")
    assert sum(row["time"] for row in stacks) == 22_000 and sum(row["calls"] for row in stacks) == 5
    # AND with the requests, the calls within them are not
    (row,) = asked(capsys, "files", log, "--path", "/d/in.bin")
    assert row["time"] == 67_000


def test_a_request_whose_request_is_not_chosen(program: Runner, tmp_path: Path, capsys: Capture) -> None:
    # GIVEN numpy.load, which reads through a file object
    pytest.importorskip("numpy")
    done = program.traced("""
        import numpy
        numpy.save("a.npy", numpy.arange(1000))
        for _ in range(3):
            numpy.load("a.npy")
    """)
    assert done.status == 0, done.stderr
    # WHEN only the file object's calls are chosen THEN they are outermost; with numpy's, they are not
    words = ("--op", "BufferedReader.read", "--path", "a.npy")
    events = asked(capsys, "events", done.path, *words)
    assert sum(row["calls"] for row in events) > 3
    stacks = asked(capsys, "stacks", done.path, *words)
    assert sum(row["calls"] for row in stacks) == sum(row["calls"] for row in events)
    assert all(row["request_id"] == row["id"] for row in events)
    stacks = asked(capsys, "stacks", done.path, *words, "--op", "numpy.load")
    assert sum(row["calls"] for row in stacks) == 3
