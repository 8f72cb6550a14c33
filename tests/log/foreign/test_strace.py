"""strace's files: what they say is in the operations, and it is what our own tracing of the program says."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace.errors import LogError
from pyio_trace.log.strace_lines import parse, strings, unescaped
from tests.support.programs import Runner, succeeded

PROGRAM = r"""
import os, subprocess, sys, threading
folder = sys.argv[1]
data = os.path.join(folder, 'a "quoted" <file>, 1) = 5 \u00e9.bin')
fd = os.open(data, os.O_RDWR | os.O_CREAT)
os.write(fd, b'x) = 7 <0.000001>\n"' * 50)
os.lseek(fd, 10, 0)
os.read(fd, 7)
os.pread(fd, 100, 5)
os.pwrite(fd, b"abc", 2)
twin = os.dup(fd)
os.write(twin, b"hello")
os.readv(fd, [bytearray(5), bytearray(6)])
os.close(fd)
os.read(twin, 3)
if os.fork() == 0:
    os.read(twin, 4)
    os._exit(3)
os.wait()
os.close(twin)
end = os.open(data, os.O_WRONLY | os.O_APPEND)
os.write(end, b"tail")
os.close(end)
def work():
    for number in range(20):
        with open(os.path.join(folder, "t.txt"), "ab", 0) as file:
            file.write(b"y" * number)
threads = [threading.Thread(target=work) for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
os.rename(data, data + "2")
try:
    os.open(os.path.join(folder, "none"), os.O_RDONLY)
except OSError:
    pass
subprocess.run(["cat", data + "2"], stdout=subprocess.DEVNULL)
"""
HEAD = "1700000000.000000 "


def log_of(folder: Path, *lines: str, name: str = "run.100") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyio_trace.open(path).operations().to_pylist()
    return found


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_program_under_both(program: Runner) -> None:
    # GIVEN a program that ran under strace, and one like it under our own tracing
    for name in ("one", "two", "traced"):
        (program.folder / name).mkdir()
    script = program.write(PROGRAM)
    words = ["strace", "-ff", "-ttt", "-T", "-y", "-o", program.folder / "traced" / "run"]
    told = program.command([*words, sys.executable, script, program.folder / "one"])
    if told.status and "ptrace" in told.stderr:
        pytest.skip("ptrace is not permitted")
    succeeded(told)
    outcome = succeeded(program.traced(PROGRAM, program.folder / "two", env={"PYIO_TRACE_FOLLOW": "all"}))

    # THEN both have the same reads and writes of its files, with the same bytes, and the same places where known
    def transfers(all_rows: list[dict[str, Any]], folder: Path) -> list[tuple[Any, ...]]:
        return sorted(
            (row["op"], row["path"].removeprefix(str(folder)), row["bytes_moved"], row["bytes_requested"])
            for row in all_rows
            if row["layer"] == "posix" and row["op_class"] in ("read", "write") and row["path"].startswith(str(folder))
            and row["op"] != "copy_file_range"
        )  # fmt: skip

    theirs = [row for row in rows(program.folder / "traced") if row["path"]]
    ours = [row for row in outcome.rows if row["path"]]
    expected = transfers(ours, program.folder / "two")
    assert len(expected) > 60
    assert transfers(theirs, program.folder / "one") == expected
    places = {
        (row["op"], row["bytes_moved"]): row["file_offset"]
        for row in ours if row["path"].endswith(".bin") and row["file_offset"] is not None
    }  # fmt: skip
    for row in theirs:
        if row["path"].startswith(str(program.folder / "one")) and row["path"].endswith(".bin"):
            known = places.get((row["op"], row["bytes_moved"]))
            assert row["file_offset"] in (None, known) or known is None
    assert sum(row["errno"] == 2 and row["path"].endswith("/none") for row in theirs) == 1
    ended = {process["ended"] for process in pyio_trace.open(program.folder / "traced").processes().to_pylist()}
    assert ended == {"exit 0", "exit 3"}


def test_positions_follow_descriptors(tmp_path: Path) -> None:
    # GIVEN two descriptors of one open file, one of which a forked process reads
    log_of(
        tmp_path,
        HEAD + 'openat(AT_FDCWD</w>, "f", O_RDWR) = 3</w/f> <0.000010>',
        "1700000000.000100 dup(3</w/f>) = 4</w/f> <0.000010>",
        '1700000000.000200 write(4</w/f>, "ab"..., 10) = 10 <0.000010>',
        "1700000000.000300 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 101 <0.000010>",
        '1700000000.000500 read(3</w/f>, "x", 5) = 1 <0.000010>',
        "1700000000.000600 +++ exited with 0 +++",
    )
    log_of(
        tmp_path,
        '1700000000.000400 read(4</w/f>, "..", 2) = 2 <0.000010>',
        "1700000000.000450 +++ killed by SIGKILL +++",
        name="run.101",
    )
    found = [(row["pid"], row["op"], row["file_offset"], row["bytes_moved"]) for row in rows(tmp_path)]
    assert found[2:] == [(100, "write", 0, 10), (100, "clone", None, None), (101, "read", 10, 2), (100, "read", 12, 1)]
    table = pyio_trace.open(tmp_path).processes().to_pylist()
    assert [(row["pid"], row["parent"], row["ended"]) for row in table] == [
        (100, None, "exit 0"), (101, 0, "signal 9 (SIGKILL)"),
    ]  # fmt: skip


def test_threads_are_of_one_process(tmp_path: Path) -> None:
    log_of(tmp_path, HEAD + "clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88) = 102 <0.1>")
    log_of(tmp_path, '1700000000.000100 write(1</w/f>, "", 0) = 0 <0.1>', name="run.102")
    written = rows(tmp_path)[-1]
    assert (written["pid"], written["tid"], written["process"]) == (100, 102, 0)


def test_calls_that_were_interrupted_in_one_file(tmp_path: Path) -> None:
    # GIVEN a file of several threads, in which calls overlap
    path = log_of(
        tmp_path,
        "100 1700000000.000000 read(3</w/f>,  <unfinished ...>",
        '[pid 101] 1700000000.000100 write(4</w/g>, "abc", 3) = 3 <0.000020>',
        '100 1700000000.000200 <... read resumed>"xyz", 9) = 3 <0.000300>',
        "101 1700000000.000300 fsync(4</w/g> <unfinished ...>",
        name="strace.out",
    )
    found = {row["op"]: row for row in rows(path)}
    assert (found["read"]["bytes_moved"], found["read"]["bytes_requested"], found["read"]["duration"]) == (
        3,
        9,
        300_000,
    )
    assert (found["write"]["pid"], found["write"]["path"]) == (101, "/w/g")


def test_what_is_no_file_is_counted(tmp_path: Path) -> None:
    path = log_of(
        tmp_path, HEAD + 'write(1<pipe:[77]>, "abc", 3) = 3 <0.1>', HEAD + 'read(4<TCP:[9]>, "a", 9) = 1 <0.1>'
    )
    found = pyio_trace.open(path).counters().to_pylist()
    assert sorted((row["kind"], row["calls"], row["bytes"]) for row in found) == [("pipe", 1, 3), ("socket", 1, 1)]
    assert rows(path) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r'write(3</a>, ") = 9 <0.5>\"", 4) = 4 <0.000005>', ("write", 4, "", 5_000)),
        (r'open("/x", O_RDONLY) = -1 ENOENT (No such file (or) folder) <0.000005>', ("open", -1, "ENOENT", 5_000)),
        (r'openat(AT_FDCWD</>, "\303\251>", O_RDONLY) = 3</\303\251\76> <1.5>', ("openat", 3, "", 1_500_000_000)),
        ("close(3</a>) = 0", ("close", 0, "", -1)),
        ("getpid()               = 77 <0.000001>", ("getpid", 77, "", 1_000)),
    ],
)
def test_lines(line: str, expected: tuple[object, ...]) -> None:
    name, at = line.partition("(")[0], line.index("(") + 1
    found = parse(line, at, 0, name)
    assert found is not None
    assert (found.name, found.result, found.error, found.duration) == expected


def test_texts() -> None:
    assert unescaped(r"\303\251\n\x41\\") == "\u00e9\nA\\"
    assert strings(r'"a\"b", "c"..., "no end') == ['a"b', "c"]


@pytest.mark.parametrize(
    "text",
    [
        'write(3</a>, "' + '\\"' * 400_000,
        "write(" + "(" * 400_000,
        "write(3<" + "\\<" * 300_000 + ") = 3 <0.1>",
        "write(3</a>" + ") = x" * 100_000,
        "read(3</a>, {iov_len=" + "9" * 5000 + "}, 1) = 99999999999999999999999 <0.1>",
        "write(99999999999999999999</a>, 1) = 1 <99999999.1>",
        "clone(CLONE_THREAD) = 100 <0.1>",
        "\x00\xff(",
        "x" * (2 << 20),
    ],
    ids=range(9),
)
def test_lines_that_make_no_sense_are_lost_not_errors(tmp_path: Path, text: str) -> None:
    path = log_of(tmp_path, HEAD + "close(3</a>) = 0 <0.1>", HEAD + text, HEAD + "close(4</a>) = 0 <0.1>")
    assert sum(row["op"] == "close" for row in rows(path)) == 2


def test_no_line_at_all(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="not-a-log"):
        rows(log_of(tmp_path, "hello"))
