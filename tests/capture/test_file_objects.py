# ruff: noqa: E501 - in the tables a program stands on one line
"""Python's own file objects: each way of reading and writing is there, with exact counts and bytes."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

SIZE = 160_000
LINES = 10_000  # of 16 bytes


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """10,000 lines of 16 bytes."""
    path = tmp_path / "lines"
    path.write_text("".join(f"line {n:010}\n" for n in range(LINES)))
    assert path.stat().st_size == SIZE
    return path


def totals(outcome: Outcome, path: Path) -> dict[str, tuple[int, int]]:
    """op -> (calls, bytes moved) of the app layer on a file."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in outcome.select(path=path, layer="app"):
        calls, moved = found[row["op"]]
        found[row["op"]] = (calls + row["calls"], moved + (row["bytes_moved"] or 0))
    return dict(found)


#: way -> (code with the file's name in `path`, {op: (calls, bytes)}), opens and closes left out
READS: dict[str, tuple[str, dict[str, tuple[int | None, int | None]]]] = {
    "read(16)": ("f = open(path, 'rb')\nwhile f.read(16): pass", {"BufferedReader.read": (LINES + 1, SIZE)}),
    "read()": ("open(path, 'rb').read()", {"BufferedReader.read": (1, SIZE)}),
    "read(-1)": ("open(path, 'rb').read(-1)", {"BufferedReader.read": (1, SIZE)}),
    "read(None)": ("open(path, 'rb').read(None)", {"BufferedReader.read": (1, SIZE)}),
    "read1": ("f = open(path, 'rb')\nwhile f.read1(1000): pass", {"BufferedReader.read1": (None, SIZE)}),
    "readinto": ("f = open(path, 'rb'); b = bytearray(1600)\nwhile f.readinto(b): pass", {"BufferedReader.readinto": (101, SIZE)}),
    "readinto1": ("f = open(path, 'rb'); b = bytearray(100000)\nwhile f.readinto1(b): pass", {"BufferedReader.readinto": (None, SIZE)}),
    "readline": ("f = open(path, 'rb')\nwhile f.readline(): pass", {"BufferedReader.readline": (LINES + 1, SIZE)}),
    "readline(5)": ("f = open(path, 'rb')\nfor n in range(10): f.readline(5)", {"BufferedReader.readline": (10, 42)}),
    "lines": ("for line in open(path, 'rb'): pass", {"BufferedReader.__next__": (LINES + 1, SIZE)}),
    "next": ("f = open(path, 'rb'); next(f); f.__next__()", {"BufferedReader.__next__": (2, 32)}),
    "peek": ("f = open(path, 'rb'); f.peek(); f.read(16)", {"BufferedReader.peek": (1, None), "BufferedReader.read": (1, 16)}),
    "text read": ("open(path).read()", {"TextIOWrapper.read": (1, SIZE)}),
    "text read(100)": ("f = open(path)\nwhile f.read(100): pass", {"TextIOWrapper.read": (1601, SIZE)}),
    "text lines": ("for line in open(path): pass", {"TextIOWrapper.__next__": (LINES + 1, SIZE)}),
    "text readline": ("f = open(path)\nwhile f.readline(): pass", {"TextIOWrapper.readline": (LINES + 1, SIZE)}),
    "text readlines": ("open(path).readlines()", {"TextIOWrapper.__next__": (LINES + 1, SIZE)}),
    "tell": ("f = open(path)\nwhile f.readline(): f.tell()",
             {"TextIOWrapper.readline": (LINES + 1, SIZE), "TextIOWrapper.tell": (LINES, 0)}),
    "tell while iterating": (
        "f = open(path)\nfor line in f:\n    try: f.tell()\n    except OSError: pass",
        {"TextIOWrapper.__next__": (LINES + 1, SIZE), "TextIOWrapper.tell": (LINES, 0)},
    ),
    "list": ("list(open(path))", {"TextIOWrapper.__next__": (LINES + 1, SIZE)}),
    "raw read(1000)": ("f = open(path, 'rb', buffering=0)\nwhile f.read(1000): pass", {"FileIO.read": (161, SIZE)}),
    "raw read": ("open(path, 'rb', buffering=0).read()", {"FileIO.read": (1, SIZE)}),
    "raw readall": ("io.FileIO(path).readall()", {"FileIO.readall": (1, SIZE)}),
    "raw readinto": ("io.FileIO(path).readinto(bytearray(5000))", {"FileIO.readinto": (1, 5000)}),
    "random": ("f = open(path, 'r+b')\nwhile f.read(16): pass", {"BufferedReader.read": (LINES + 1, SIZE)}),
    "random lines": ("for line in open(path, 'r+b'): pass", {"BufferedReader.__next__": (LINES + 1, SIZE)}),
    "keyword": ("f = open(path); f.read(10); f.read()", {"TextIOWrapper.read": (2, SIZE)}),
    "bound method": ("read = open(path, 'rb').read\nwhile read(16): pass", {"BufferedReader.read": (LINES + 1, SIZE)}),
    "from the type": ("f = open(path, 'rb')\nwhile io.BufferedReader.read(f, 16): pass", {"BufferedReader.read": (LINES + 1, SIZE)}),
    "iter with a sentinel": ("f = open(path, 'rb'); any(iter(lambda: len(f.read(16)) and None, 0))", {"BufferedReader.read": (LINES + 1, SIZE)}),
    "subclass of FileIO": ("class F(io.FileIO): pass\nf = F(path)\nwhile f.read(1000): pass", {"FileIO.read": (161, SIZE)}),
    "subclass that overrides": (
        "class F(io.FileIO):\n    def read(self, n): return super().read(n)\nf = F(path)\nwhile f.read(1000): pass",
        {"FileIO.read": (161, SIZE)},
    ),
    "subclass of TextIOWrapper": ("class T(io.TextIOWrapper): pass\nT(io.FileIO(path)).read()", {"TextIOWrapper.read": (1, SIZE)}),
    "subclass of BufferedReader": ("class B(io.BufferedReader): pass\nB(io.FileIO(path)).read(7)", {"BufferedReader.read": (1, 7)}),
    "BufferedRWPair": ("io.BufferedRWPair(io.FileIO(path), io.FileIO(os.devnull, 'w')).read(10)", {"BufferedReader.read": (1, 10)}),
    "opener": ("open(path, 'rb', opener=lambda p, f: os.open(p, f)).read(9)", {"BufferedReader.read": (1, 9)}),
    "by descriptor": ("open(os.open(path, 0), 'rb').read(9)", {"BufferedReader.read": (1, 9)}),
    "codecs": ("codecs.open(path, encoding='utf-8').read()", {"BufferedReader.read": (None, SIZE)}),
    "fileinput": ("for line in fileinput.input(path): pass", {"TextIOWrapper.readline": (LINES + 1, SIZE)}),
    "two threads": (
        "ts = [threading.Thread(target=lambda: open(path, 'rb').read()) for _ in range(2)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()", {"BufferedReader.read": (2, 2 * SIZE)}),
}  # fmt: skip
WRITES: dict[str, tuple[str, dict[str, tuple[int | None, int | None]]]] = {
    "write": ("f = open(path, 'wb')\nfor n in range(1000): f.write(b'x' * 16)\nf.close()", {"BufferedWriter.write": (1000, 16000)}),
    "text": ("f = open(path, 'w')\nfor n in range(1000): f.write('x' * 16)\nf.close()", {"TextIOWrapper.write": (1000, 16000)}),
    "non-ASCII": ("f = open(path, 'w', encoding='utf-8'); f.write('aé☃😀'); f.close()", {"TextIOWrapper.write": (1, 10)}),
    "print": ("f = open(path, 'w')\nfor n in range(100): print('abc', 'def', file=f)\nf.close()", {"TextIOWrapper.write": (400, 800)}),
    "writelines": ("f = open(path, 'w'); f.writelines(['abc\\n'] * 100); f.close()", {"TextIOWrapper.write": (100, 400)}),
    "bytes writelines": ("f = open(path, 'wb'); f.writelines([b'abc\\n'] * 100); f.close()", {"BufferedWriter.write": (100, 400)}),
    "raw": ("f = open(path, 'wb', buffering=0)\nfor n in range(100): f.write(b'x' * 50)", {"FileIO.write": (100, 5000)}),
    "memoryview": ("open(path, 'wb', buffering=0).write(memoryview(b'x' * 70)[::1])", {"FileIO.write": (1, 70)}),
    "array": ("open(path, 'wb').write(array.array('i', [1, 2, 3]))", {"BufferedWriter.write": (1, 12)}),
    "append": ("f = open(path, 'ab'); f.write(b'12'); f.close()", {"BufferedWriter.write": (1, 2)}),
    "random": ("f = open(path, 'w+b'); f.write(b'x' * 100); f.seek(0); f.read(10); f.write(b'yy'); f.close()",
               {"BufferedWriter.write": (2, 102), "BufferedReader.read": (1, 10), "Buffered.seek": (1, 0)}),
    "big": ("f = open(path, 'wb'); f.write(b'x' * 5_000_000); f.close()", {"BufferedWriter.write": (1, 5_000_000)}),
    "flush": ("f = open(path, 'wb'); f.write(b'x'); f.flush(); f.flush(); f.close()", {"BufferedWriter.write": (1, 1), "Buffered.flush": (2, 0)}),
    "text flush": ("f = open(path, 'w'); f.write('x'); f.flush(); f.close()", {"TextIOWrapper.write": (1, 1), "TextIOWrapper.flush": (1, 0)}),
    "truncate": ("f = open(path, 'wb'); f.write(b'x' * 9); f.truncate(4); f.close()", {"BufferedWriter.write": (1, 9), "Buffered.truncate": (1, 0)}),
    "text seek": ("f = open(path, 'w+'); f.write('abc'); f.seek(0); f.read(); f.close()",
                  {"TextIOWrapper.write": (1, 3), "TextIOWrapper.seek": (1, 0), "TextIOWrapper.read": (1, 3)}),
    "raw seek": ("f = open(path, 'wb', buffering=0); f.seek(10); f.truncate(); f.close()", {"FileIO.seek": (1, 0), "FileIO.truncate": (1, 0)}),
    "line buffered": ("f = open(path, 'w', buffering=1)\nfor n in range(10): f.write('abc\\n')", {"TextIOWrapper.write": (10, 40)}),
    "json": ("f = open(path, 'w'); json.dump([1, 2], f); f.close()", {"TextIOWrapper.write": (None, 6)}),
    "pickle": ("f = open(path, 'wb'); pickle.dump(b'x' * 100000, f, 4); f.close()", {"BufferedWriter.write": (None, 100_009)}),
    "csv": ("f = open(path, 'w', newline=''); csv.writer(f).writerows([[1, 2]] * 10); f.close()", {"TextIOWrapper.write": (10, 50)}),
    "with": ("with open(path, 'w') as f: f.write('x')", {"TextIOWrapper.write": (1, 1)}),
    "left to the collector": ("open(path, 'w').write('xyz')", {"TextIOWrapper.write": (1, 3)}),
}  # fmt: skip
IMPORTS = "import array, codecs, csv, fileinput, io, json, os, pickle, sys, threading\npath = sys.argv[1]\n"
OPENINGS = (
    "open",
    "BufferedReader.close",
    "BufferedWriter.close",
    "Buffered.close",
    "TextIOWrapper.close",
    "FileIO.close",
)


def check(seen: dict[str, tuple[int, int]], wanted: dict[str, tuple[int | None, int | None]]) -> None:
    data = {op: value for op, value in seen.items() if op not in OPENINGS and not op.startswith(("json.", "pickle."))}
    assert data.keys() == wanted.keys()
    for op, (calls, moved) in wanted.items():
        assert calls is None or data[op][0] == calls, (op, data[op])
        assert moved is None or data[op][1] == moved, (op, data[op])


@pytest.mark.parametrize("way", READS)
def test_reading(program: Runner, lines: Path, way: str) -> None:
    # GIVEN a program that reads in this way WHEN it is run traced
    code, wanted = READS[way]
    outcome = succeeded(program.traced(IMPORTS + code, lines))
    # THEN calls and bytes are exact, each request at the layer where it was made and nowhere else
    seen = totals(outcome, lines)
    check(seen, wanted)
    assert seen["open"][0] == (2 if way == "two threads" else 1)
    # THEN what the system calls moved is what was read ahead for it
    posix = outcome.select(path=lines, op="read")
    assert sum(row["bytes_moved"] for row in posix) >= sum(moved or 0 for _, moved in wanted.values()) - 16


@pytest.mark.parametrize("way", WRITES)
def test_writing(program: Runner, tmp_path: Path, way: str) -> None:
    # GIVEN a program that writes in this way WHEN it is run traced
    code, wanted = WRITES[way]
    path = tmp_path / "out"
    outcome = succeeded(program.traced(IMPORTS + code, path))
    # THEN calls and bytes are exact
    check(totals(outcome, path), wanted)
    # THEN every byte of them reached the file
    written = sum(moved or 0 for op, (_, moved) in wanted.items() if op.endswith("write"))
    assert sum(row["bytes_moved"] for row in outcome.select(path=path, op="write")) == written


def test_ten_thousand_small_reads_are_few_rows(program: Runner, lines: Path) -> None:
    # GIVEN 10,000 reads of 16 bytes from two lines of the program
    text = """\
    import sys
    f = open(sys.argv[1], "rb")
    for n in range(5000):
        f.read(16)
    for n in range(5000):
        f.read(16)
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, lines))
    # THEN they are few rows, whose counts, sizes, bytes and times add up; each one is of one line
    rows = outcome.select(op="BufferedReader.read", path=lines)
    assert len(rows) < 100
    assert sum(row["calls"] for row in rows) == 10_000
    assert sum(row["bytes_requested"] for row in rows) == sum(row["bytes_moved"] for row in rows) == SIZE
    by_line: dict[str, int] = defaultdict(int)
    for row in rows:
        by_line[row["site"]] += row["calls"]
        # an untimed call adds at most 1 us to the sum (TIGHT_US in file_call.c), also where it took less
        assert 0 < row["duration"] <= json.loads(row["detail"])["span_ns"] + 1_000 * row["calls"] or row["calls"] == 1
    script = outcome.path.parent / "program.py"
    assert by_line == {f"{script}:4:<module>": 5000, f"{script}:6:<module>": 5000}
    # THEN the system calls beneath are of the run they happened in
    ids = {row["id"] for row in rows}
    assert all(row["parent"] in ids for row in outcome.select(op="read", path=lines))


def test_runs_are_not_mixed_up(program: Runner, lines: Path, tmp_path: Path) -> None:
    # GIVEN small calls on several files in alternation, in spans, with large ones between them
    other = tmp_path / "other"
    other.write_bytes(b"y" * SIZE)
    text = """\
    import sys
    import pyio_trace
    a, b = open(sys.argv[1], "rb"), open(sys.argv[2], "rb")
    for step in range(10):
        with pyio_trace.span(f"step {step}"):
            for n in range(20):
                a.read(3)
                b.read(5)
                a.readline()
        a.read(7000)
    """
    # WHEN it is run traced THEN each file, operation and span has its own sums
    outcome = succeeded(program.traced(text, lines, other))
    spans = {row["id"]: row["op"] for row in outcome.select(layer="user")}
    sums: dict[tuple[str, str | None], int] = defaultdict(int)
    for row in outcome.select(op="BufferedReader.read", path=(str(lines), str(other))):
        sums[Path(row["path"]).name, spans.get(row["parent"])] += row["bytes_moved"]
    wanted: dict[tuple[str, str | None], int] = {
        **{("lines", f"step {n}"): 60 for n in range(10)}, **{("other", f"step {n}"): 100 for n in range(10)},
        ("lines", None): 70_000,
    }  # fmt: skip
    assert sums == wanted
    assert sum(row["calls"] for row in outcome.select(op="BufferedReader.readline", path=lines)) == 200


ERRORS = {
    "closed file": "f = open(path); f.close(); f.read()",
    "closed file, write": "f = open(path, 'a'); f.close(); f.write('x')",
    "closed file, next": "f = open(path); f.close(); next(f)",
    "reading a write-only file": "open(path, 'a').read()",
    "reading a write-only raw file": "io.FileIO(path, 'a').read()",
    "writing a read-only file": "open(path, 'rb').write(b'x')",
    "writing a read-only raw file": "io.FileIO(path).write(b'x')",
    "writing text to a binary file": "open(path, 'ab').write('x')",
    "writing bytes to a text file": "open(path, 'a').write(b'x')",
    "wrong type of size": "open(path).read('x')",
    "too many arguments": "open(path).read(1, 2)",
    "wrong keyword": "open(path, 'rb').read(bytes=1)",
    "missing argument": "open(path, 'ab').write()",
    "wrong self": "io.BufferedReader.read(open(path), 1)",
    "wrong self of a slot": "io.TextIOWrapper.__next__(1)",
    "no such file": "open('/nonexistent')",
    "a folder": "open('/')",
    "wrong mode": "io.FileIO(path, 'q')",
    "negative descriptor": "io.FileIO(-1)",
    "descriptor that is not open": "io.FileIO(999)",
    "detached": "f = open(path); f.detach(); f.read()",
    "not initialised": "io.FileIO.__new__(io.FileIO).read(1)",
    "not initialised buffer": "io.BufferedReader.__new__(io.BufferedReader).read(1)",
    "not initialised text": "io.TextIOWrapper.__new__(io.TextIOWrapper).read(1)",
    "device that is full": "f = open('/dev/full', 'wb', buffering=0); f.write(b'x')",
    "device that is full, buffered": "f = open('/dev/full', 'w'); f.write('x'); f.flush()",
    "seek before the start": "open(path, 'rb').seek(-1)",
    "seek in text": "open(path).seek(1, 1)",
    "truncate of a reader": "open(path, 'rb').truncate(1)",
    "decoding": "open(path, encoding='utf-16').read()",
    "closed mmap": "m = mmap.mmap(os.open(path, os.O_RDWR), 0); m.close(); m.read()",
    "mmap index": "mmap.mmap(os.open(path, os.O_RDWR), 0)[10**9]",
    "mmap of nothing": "mmap.mmap(os.open('empty', os.O_CREAT | os.O_RDWR), 0)",
    "mmap read-only": "mmap.mmap(os.open(path, 0), 0, prot=mmap.PROT_READ)[0] = 1",
    "mmap wrong descriptor": "mmap.mmap(999, 10)",
    "an exception from a raw object": "class R(io.RawIOBase):\n    readable = lambda s: True\n    def readinto(s, b): 1 / 0\nio.BufferedReader(R()).read(1)",
    "an exception from an opener": "open(path, opener=lambda p, f: 1 / 0)",
}  # fmt: skip


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_the_same(program: Runner, tmp_path: Path, what: str) -> None:
    # GIVEN a call that fails
    path = tmp_path / "there"
    path.write_text("some text\n")
    text = f"import io, mmap, os, sys\npath = sys.argv[1]\n{ERRORS[what]}\n"
    # WHEN it is run bare and traced THEN the exception is the same, to the letter
    bare, outcome = program.bare(text, path), program.traced(text, path)
    assert bare.status == 1 and ("Error" in bare.stderr or "UnsupportedOperation" in bare.stderr)
    assert (outcome.status, outcome.stderr) == (bare.status, bare.stderr)


def test_failed_calls_have_their_errno(program: Runner) -> None:
    # GIVEN calls of file objects that fail with an errno
    text = """\
    import io
    for call in (lambda: open("/dev/full", "wb", buffering=0).write(b"x" * 5000), lambda: open("missing"), lambda: io.FileIO(998)):
        try:
            call()
        except OSError:
            pass
    """
    # WHEN it is run traced THEN their rows have it
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "dev"}))
    assert [row["errno"] for row in outcome.select(op="FileIO.write", path="/dev/full")] == [28]
    assert [row["errno"] for row in outcome.select(op="open", layer="app", errno=lambda number: number != 0)] == [2, 9]


IDENTITY = """\
import builtins, inspect, io, mmap, os, pickle, sys
f = open(sys.argv[1])
print(type(f), type(f.buffer), type(f.buffer.raw), open is io.open, builtins.open is io.open)
for owner in (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper, mmap.mmap):
    print(owner, sorted(vars(owner)), owner.__dict__.keys() == vars(owner).keys(), sys.getsizeof(owner))
    for name in sorted(vars(owner)):
        value = getattr(owner, name)
        print(name, type(value), getattr(value, "__doc__", None), getattr(value, "__text_signature__", None),
              value is getattr(owner, name) if not isinstance(value, (int, str)) else "", getattr(value, "__qualname__", None))
        try:
            print(inspect.signature(value))
        except (TypeError, ValueError) as error:
            print(error)
for value in (f, f.buffer, f.read, io.FileIO.read):
    try:
        print(len(pickle.dumps(value)))
    except TypeError as error:
        print(error)
print(pickle.loads(pickle.dumps(io.FileIO)) is io.FileIO, isinstance(f, io.TextIOBase), io.FileIO.__init__, f.read.__self__ is f)
print(io.FileIO.read == io.FileIO.read, hash(io.FileIO.read) == hash(io.FileIO.__dict__["read"]), repr(io.FileIO.read))
print(os.stat in os.supports_dir_fd, os.open in os.supports_fd, f.readline.__name__, f.__next__.__name__)
"""


def test_nothing_can_be_told_from_the_types(program: Runner, lines: Path) -> None:
    # GIVEN a program that looks closely at the types WHEN it is run bare and traced THEN it sees the same
    assert succeeded(program.traced(IDENTITY, lines)).stdout == succeeded(program.bare(IDENTITY, lines)).stdout


def test_mmap_objects(program: Runner, lines: Path) -> None:
    # GIVEN a program that reads and writes through a mapping
    text = """\
    import mmap, os, sys
    fd = os.open(sys.argv[1], os.O_RDWR)
    m = mmap.mmap(fd, 0)
    os.close(fd)
    m.read(100)
    m.read()
    m.seek(0)
    m.readline()
    m[5], m[-1]
    m[10:30], m[0:100:10]
    m[0] = 65
    m[1:4] = b"xyz"
    m.seek(0)
    m.write(b"abcde")
    m.write_byte(3)
    m.read_byte()
    m.find(b"line")
    m.flush()
    m.resize(4096)
    len(m)
    m.close()
    anonymous = mmap.mmap(-1, 100)
    anonymous[5] = 3
    anonymous.close()
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, lines))
    # THEN each is there with its bytes, and anonymous memory is not
    seen = totals(outcome, lines)
    wanted = {
        "mmap.mmap": (1, 0), "mmap.read": (2, SIZE), "mmap.readline": (1, 16), "mmap.__getitem__": (4, 1 + 1 + 20 + 10),
        "mmap.__setitem__": (2, 4), "mmap.write": (1, 5), "mmap.flush": (1, 0), "mmap.resize": (1, 0), "mmap.close": (1, 0),
    }  # fmt: skip
    assert {op: seen.get(op) for op in wanted} == wanted
    posix = [row["op"] for row in outcome.select(path=lines, layer="posix", op=("mmap", "msync", "mremap", "munmap"))]
    assert posix == ["mmap", "msync", "mremap", "munmap"]
    assert not outcome.select(op="mmap.mmap", path=None)
    assert "mapped" in outcome.process(outcome.pid)["blind"]


def test_objects_from_before_and_signals_between(program: Runner, lines: Path) -> None:
    # GIVEN a program whose signal handler reads files, while it reads files itself
    text = """\
    import signal, sys
    path = sys.argv[1]
    seen = 0
    def handler(*args):
        global seen
        with open(path, "rb") as file:
            file.read(100)
        seen += 1
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    total = 0
    while seen < 200:
        with open(path, "rb") as file:
            for line in file:
                total += len(line)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(total, seen)
    """
    # WHEN it is run traced THEN nothing is mixed up (no handler runs within the call of a binary file: docs/explanation/limits.md)
    outcome = succeeded(program.traced(text, lines))
    total, seen = map(int, outcome.stdout.split())
    found = totals(outcome, lines)
    assert found["BufferedReader.__next__"][1] == total
    assert found["BufferedReader.read"] == (seen, seen * 100)
    assert found["open"][0] == seen + total // SIZE


def test_generator_and_context_of_another_thread(program: Runner, lines: Path) -> None:
    # GIVEN an iterator over a file that two threads take turns with
    text = """\
    import sys, threading
    file = open(sys.argv[1], "rb")
    def work():
        for n in range(1000):
            next(file)
    for turn in range(4):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
    """
    # WHEN it is run traced THEN the counts are exact, per thread
    outcome = succeeded(program.traced(text, lines))
    rows = outcome.select(op="BufferedReader.__next__", path=lines)
    assert sum(row["calls"] for row in rows if row["tid"] == outcome.pid) == 4000
    assert sum(row["calls"] for row in rows) == 8000


def test_fork_in_the_middle_of_a_run(program: Runner, lines: Path) -> None:
    # GIVEN a run of small reads that goes on in parent and child after a fork
    text = """\
    import os, sys
    file = open(sys.argv[1], "rb")
    def work(times):
        for n in range(times):
            file.read(16)
    for turn in range(2):
        work(100)
        if turn == 0:
            pid = os.fork()
            if pid == 0:
                for n in range(3):
                    work(50)
                os._exit(0)
            os.waitpid(pid, 0)
    """
    # WHEN it is run traced THEN each process has its own counts
    outcome = succeeded(program.traced(text, lines))
    counts: dict[bool, int] = defaultdict(int)
    for row in outcome.select(op="BufferedReader.read", path=lines):
        counts[row["pid"] == outcome.pid] += row["calls"]
    assert counts == {True: 200, False: 150}
