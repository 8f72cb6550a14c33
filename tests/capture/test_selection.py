"""--include, --exclude and the minima: what is recorded, and that the rest is counted and disturbs nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyio_trace.capture.runtime import tracer
from tests.support.programs import Outcome, Runner, succeeded


def left_out(outcome: Outcome) -> dict[str, tuple[int, int]]:
    """What was not recorded by choice: (operations, bytes) by reason, of all processes."""
    sums: dict[str, tuple[int, int]] = {}
    for row in outcome.log.counters().to_pylist():
        if row["why"] == "excluded":
            count, moved = sums.get(row["kind"], (0, 0))
            sums[row["kind"]] = (count + row["calls"], moved + row["bytes"])
    return sums


CATEGORIES = """\
import os, socket, sys
import colorsys
fd = os.open("/proc/self/status", os.O_RDONLY)
print(len(os.read(fd, 100)))
os.close(fd)
fd = os.open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_RDONLY)
print(len(os.read(fd, 1000)))
os.close(fd)
fd = os.open("/dev/zero", os.O_RDONLY)
os.read(fd, 1234)
os.close(fd)
os.stat("/dev/null")
r, w = os.pipe()
os.write(w, b"x" * 321)
os.read(r, 321)
a, b = socket.socketpair()
os.write(a.fileno(), b"y" * 77)
os.read(b.fileno(), 77)
fd = os.memfd_create("name")
os.pwrite(fd, b"z" * 55, 0)
shared = f"/dev/shm/pyio_trace_test_{os.getpid()}"
fd = os.open(shared, os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"q" * 11, 0)
os.unlink(shared)
"""


def test_what_is_left_out_by_default(program: Runner) -> None:
    # GIVEN a program that imports, and uses /proc, /sys, /dev, pipes, sockets and anonymous files WHEN it is traced
    outcome = succeeded(program.traced(CATEGORIES))
    # THEN only a file in /dev/shm has rows, and the others are counted, with their bytes
    status, huge = (int(line) for line in outcome.stdout.split())
    paths = {row["path"] for row in outcome.select(op=("read", "pread", "write", "pwrite"), layer="posix")}
    assert len(paths) == 1 and paths.pop().startswith("/dev/shm/pyio_trace_test_")
    counted = left_out(outcome)
    assert counted["proc"] == (3, status)
    assert counted["sys"] == (3, huge)
    assert counted["device"] == (4, 1234)
    assert counted["pipe"][1] == 642 + len(outcome.stdout)
    assert counted["socket"][1] == 154
    assert counted["anon"][1] == 55
    assert counted["import"][0] > 10
    assert not outcome.select(path=lambda path: path and path.endswith("colorsys.cpython-311.pyc"))


def test_what_is_left_out_by_default_can_be_had(program: Runner) -> None:
    # GIVEN the same program WHEN it is traced with all of it included
    env = {"PYIO_TRACE_INCLUDE": "imports,proc,sys,dev,pipes,sockets,anonymous"}
    outcome = succeeded(program.traced(CATEGORIES, env=env))
    # THEN all of it has rows, and nothing is left out
    moved = Counter[str]()
    for row in outcome.select(op=("read", "pread", "write", "pwrite"), layer="posix"):
        moved[(row["path"] or "").split(":")[0].split("[")[0]] += row["bytes_moved"]
    assert moved["/dev/zero"] == 1234
    assert moved["pipe"] == 642 + len(outcome.stdout)
    assert moved["socket"] == 154
    assert sum(n for name, n in moved.items() if name.startswith("/memfd")) == 55
    assert moved["/proc/self/status"] == int(outcome.stdout.split()[0])
    assert outcome.select(op="open", path=lambda path: path and "colorsys" in path)
    assert not left_out(outcome)


FILES = ("a.h5", "b.txt", "sub/c.h5", "sub/deep/d.txt")
PATHS = """\
import os, sys
os.makedirs("sub/deep", exist_ok=True)
for n, name in enumerate(sys.argv[1:], 1):
    fd = os.open(name if n % 2 else os.path.abspath(name), os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x" * n)
    os.close(fd)
folder = os.open("sub", os.O_RDONLY | os.O_DIRECTORY)
fd = os.open("deep/d.txt", os.O_RDONLY, dir_fd=folder)
os.read(fd, 100)
"""


@pytest.mark.parametrize(
    ("include", "exclude", "kept"),
    [
        ("", "", "abcd"),
        ("", "*.h5", "bd"),
        ("*.h5", "", "ac"),
        ("", "sub", "ab"),
        ("", "./sub/*", "ab"),
        ("", "{here}/sub/*.h5", "abd"),
        ("", "{here}/**/d.txt", "abc"),
        ("", "**/deep", "abc"),
        ("sub/deep/", "", "d"),
        ("{here}/sub", "*.txt", "c"),
        ("", "[ab].*,?.txt", "c"),
        ("", "[!ab].*", "ab"),
        ("/", "", "abcd"),
        ("/nowhere", "", ""),
        ("", "{here}/su", "abcd"),
        ("", "{here}/su?", "ab"),
        ("", "{here}/*.txt", "acd"),
    ],
)
def test_patterns_of_paths(program: Runner, include: str, exclude: str, kept: str) -> None:
    # GIVEN files that are opened by relative and absolute names, and from a folder's descriptor
    env = {
        "PYIO_TRACE_INCLUDE": include.format(here=program.folder),
        "PYIO_TRACE_EXCLUDE": exclude.format(here=program.folder),
    }
    # WHEN patterns are given THEN what they leave has rows
    outcome = succeeded(program.traced(PATHS, *FILES, env=env))
    wanted = [name for name in FILES if Path(name).name[0] in kept]
    written = {row["path"]: row["bytes_moved"] for row in outcome.select(op="write", layer="posix")}
    assert written == {str(program.folder / name): FILES.index(name) + 1 for name in wanted}
    assert len(outcome.select(op="read", path=program.folder / FILES[3])) == ("d" in kept)
    # AND the bytes of the others are counted
    expected = sum(FILES.index(name) + 1 for name in FILES if name not in wanted) + (0 if "d" in kept else 4)
    counted = left_out(outcome).get("path", (0, 0))[1]
    assert counted >= expected if include else counted == expected


POSITIONS = """\
import os, sys
fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
os.write(fd, b"0" * 1000)
os.lseek(fd, 0, 0)
for n in range(1, 20):
    os.read(fd, n)
    os.write(fd, b"w" * (2 * n))
    os.pread(fd, 3, 0)
copy = os.dup(fd)
os.read(fd, 50)
os.write(copy, b"last")
"""


@pytest.mark.parametrize("rule", ["op:read", "op:write", "op:lseek", "op:dup", "op:re*", "layer:app"])
def test_offsets_beside_operations_that_are_left_out(program: Runner, rule: str) -> None:
    # GIVEN reads and writes at the position WHEN some operations are left out
    whole = succeeded(program.traced(POSITIONS, log="whole.pyio"))
    (program.folder / "data.bin").unlink()
    outcome = succeeded(program.traced(POSITIONS, env={"PYIO_TRACE_EXCLUDE": rule}))

    def rows(of: Outcome, op: str) -> list[tuple[int | None, int]]:
        return [(row["file_offset"], row["bytes_moved"]) for row in of.select(op=op, path=program.folder / "data.bin")]

    # THEN the others are there, and an offset is the right one or unknown, never wrong
    gone = {"op:re*": {"read"}}.get(rule, {rule.removeprefix("op:")})
    for op in ("read", "write", "pread"):
        if op in gone:
            assert rows(outcome, op) == []
            assert left_out(outcome)["operation"][0] >= len(rows(whole, op))
            continue
        found, true = rows(outcome, op), rows(whole, op)
        assert [moved for _, moved in found] == [moved for _, moved in true]
        wrong = [(one, other) for one, other in zip(found, true, strict=True) if one[0] not in (None, other[0])]
        assert not wrong
    if rule == "layer:app":
        assert not outcome.select(layer="app")
        assert rows(outcome, "read") == rows(whole, "read")


def test_position_is_found_again(program: Runner) -> None:
    # GIVEN reads that are left out between writes on one descriptor
    text = """\
    import os
    fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"0" * 100)
    os.lseek(fd, 10, 0)
    os.read(fd, 7)
    os.write(fd, b"abc")
    os.read(fd, 5)
    os.write(fd, b"d")
    """
    # WHEN it is traced THEN the writes have the offsets that the reads led to
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_EXCLUDE": "op:read"}))
    assert [row["file_offset"] for row in outcome.select(op="write", layer="posix")] == [0, 17, 25]


def test_only_some_layers_and_operations(program: Runner) -> None:
    text = """\
    import os
    with open("f.txt", "w") as file:
        file.write("text")
    os.stat("f.txt")
    os.listdir(".")
    """
    only = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "layer:app"}, log="app.pyio"))
    assert {row["layer"] for row in only.rows} == {"app"}
    assert [row["bytes_moved"] for row in only.select(op="TextIOWrapper.write")] == [4]
    only = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "op:stat,op:write"}, log="op.pyio"))
    assert {row["op"] for row in only.rows} == {"stat", "write"}
    assert [row["bytes_moved"] for row in only.select(op="write")] == [4]


def test_small_transfers_are_left_out(program: Runner) -> None:
    # GIVEN small and large transfers in between, at the position and at given places
    text = """\
    import os
    fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 100)
    for n in range(100):
        os.write(fd, b"s" * 10)
        if n % 10 == 9:
            os.write(fd, b"L" * 5000)
        os.pread(fd, 20, 0)
    os.pread(fd, 8000, 0)
    os.stat("data.bin")
    """
    # WHEN small ones are left out
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MIN_SIZE": "4K"}))
    # THEN the large ones are there, and the others are counted to the byte
    assert [row["bytes_moved"] for row in outcome.select(op="write", layer="posix")] == [5000] * 10
    assert [row["bytes_moved"] for row in outcome.select(op="pread")] == [8000]
    assert len(outcome.select(op="stat", path=program.folder / "data.bin")) == 1
    few = succeeded(program.traced("pass", env={"PYIO_TRACE_MIN_SIZE": "4K"}, log="few.pyio"))
    of_python = left_out(few).get("small", (0, 0))
    # Python reads its script in as few calls as it has lines for, or more.
    counted = left_out(outcome)["small"]
    assert counted[1] == 1000 + 2000 + of_python[1]
    assert abs(counted[0] - of_python[0] - 200) <= 3
    # AND their offsets are those that the small ones led to, or not known
    true = [100 * (n + 1) + 5000 * n for n in range(10)]
    assert all(row["file_offset"] in (None, at) for row, at in zip(outcome.select(op="write"), true, strict=True))


def test_a_transfer_of_the_least_size_is_recorded(program: Runner) -> None:
    # GIVEN transfers of exactly the minimum size and of one byte less, both by requested and by transferred size
    text = """\
    import os
    fd = os.open("data.bin", os.O_CREAT | os.O_RDWR)
    for size in (4095, 4096):
        os.pwrite(fd, bytes(size), 0)
        os.pread(fd, size, 0)
        os.pread(fd, 8000, 0)
    """
    # WHEN smaller ones are left out THEN those of the minimum size are kept
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MIN_SIZE": "4096"}))
    rows = outcome.select(op=("pwrite", "pread"), path=program.folder / "data.bin")
    assert [(row["op"], row["bytes_moved"]) for row in rows] == [("pwrite", 4096), ("pread", 4096), ("pread", 4096)]


def test_short_operations_are_left_out(program: Runner) -> None:
    # GIVEN a read that waits 200 ms for its writer, among ones that do not wait
    text = """\
    import os, threading, time
    from waiting import wait_for_reader
    os.mkfifo("fifo")
    with open("data.bin", "wb") as file:
        file.write(bytes(100))
    main = threading.get_native_id()
    def write():
        fd = os.open("fifo", os.O_WRONLY)
        wait_for_reader(main)
        time.sleep(0.2)  # the wait that is traced
        os.write(fd, b"done\\n")
    writer = threading.Thread(target=write)
    writer.start()
    fd = os.open("fifo", os.O_RDONLY)
    print(len(os.read(fd, 100)))
    writer.join()
    fd = os.open("data.bin", os.O_RDONLY)
    for n in range(1000):
        os.pread(fd, 10, n % 90)
    """
    program.write_waiting()
    # WHEN operations under 100 ms are left out THEN the slow one stays, and the others are counted
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MIN_DURATION": "100ms"}))
    assert [row["bytes_moved"] for row in outcome.select(op="read", path=program.folder / "fifo")] == [5]
    kept = outcome.select(op="pread")  # a busy machine may have interrupted one for that long
    assert all(row["duration"] >= 100_000_000 for row in kept)
    assert left_out(outcome)["small"][0] >= 1000 - len(kept)
    assert outcome.select(op="open", path=program.folder / "data.bin")  # what others depend on stays


def test_processes_by_name(program: Runner) -> None:
    # GIVEN a program that starts another Python script
    child = program.write("import os\nos.close(os.open('child.out', os.O_CREAT | os.O_RDWR))\n", "helper_one.py")
    text = f"""\
    import os, subprocess, sys
    os.close(os.open("parent.out", os.O_CREAT | os.O_RDWR))
    subprocess.run([sys.executable, {str(child)!r}], check=True)
    """
    # WHEN that one is left out THEN it is in the process table, and says so, and has no rows
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_EXCLUDE": "process:helper_*"}))
    assert outcome.select(op="open", path=program.folder / "parent.out")
    assert not outcome.select(path=program.folder / "child.out")
    assert left_out(outcome)["paused"][0] >= 2
    notes = [entry["note"] for entry in outcome.processes if str(child) in entry["argv"] and entry["note"]]
    assert notes and "process:" in notes[0]


WORKERS = """\
import multiprocessing, os, sys
def work(n):
    open(f"{sys.argv[1]}-{n}", "w").close()
if __name__ == "__main__":
    open(f"{sys.argv[1]}-0", "w").close()
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        pool.map(work, [1])
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_go_by_the_script_they_work_for(program: Runner, method: str) -> None:
    # GIVEN a script with a pool of workers, run with options of Python, joined and with values
    flags, names = ["-Bu", "-BW", "ignore", "-Xutf8"], [program.folder / f"{method}-{n}" for n in (0, 1)]
    for rule, wanted in (("INCLUDE", [1, 1]), ("EXCLUDE", [0, 0])):
        # WHEN it is named by a rule THEN that goes for its workers too, whatever their command line
        env = {f"PYIO_TRACE_{rule}": "process:tra*.py"}
        outcome = succeeded(program.traced(WORKERS, method, name="train.py", flags=flags, env=env))
        assert [len(outcome.select(op="open", layer="posix", path=name)) for name in names] == wanted


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["train.py", "-m", "x"], "train.py"),
        (["-Bu", "a/train.py"], "a/train.py"),
        (["-BW", "ignore", "train.py"], "train.py"),
        (["-Werror", "-X", "dev", "-Xutf8", "train.py", "-c"], "train.py"),
        (["--check-hash-based-pycs", "always", "train.py"], "train.py"),
        (["--", "-c", "x"], "-c"),
        (["-m", "pkg.train", "x"], "pkg.train"),
        (["-mpkg.train", "x"], "pkg.train"),
        (["-Bm", "pkg.train"], "pkg.train"),
        (["-c", "pass", "x"], "command"),
        (["-Ic", "pass"], "command"),
        (["-cpass"], "command"),
        (["-", "x"], "python"),
        (["-i"], "python"),
        (["-X"], "python"),
        (["-c", "from multiprocessing.spawn import spawn_main; spawn_main(1)", "--multiprocessing-fork"], "of.py"),
        (["-c", "import sys; from multiprocessing.forkserver import main; main(3)"], "of.py"),
    ],
)
def test_names_of_what_is_run(words: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.orig_argv", ["python", *words])
    monkeypatch.setenv("PYIO_TRACE_SCRIPT", "of.py")
    assert tracer.script_name() == name


def test_an_operation_that_is_none(program: Runner) -> None:
    # GIVEN a rule that names no operation WHEN the program is run THEN it runs untraced, after one line
    outcome = program.traced("print(1)", env={"PYIO_TRACE_EXCLUDE": "op:preda"})
    assert (outcome.status, outcome.stdout) == (0, "1\n")
    assert "there is no such operation; did you mean pread?" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_paths_are_judged_as_the_log_shows_them(program: Runner) -> None:
    # GIVEN a folder that is left out, and one file in it by many names, and others by names that look like it
    (program.folder / "data").mkdir()
    (program.folder / "data" / "in").write_text("x")
    (program.folder / "out").write_text("x")
    # WHEN they are looked at
    outcome = succeeded(
        program.traced(
            """\
            import os
            inside = ("data/in", "./data/in", "data//in", "data/./in", "data/../data/in")
            for name in (*inside, os.path.abspath("data/in")):
                os.stat(name)
            for name in ("out", "data/../out", "//proc/self/stat", "/dev/../proc/self/stat"):
                os.stat(name)
            os.chdir("data")
            os.stat("in")
            os.stat("../out")
            """,
            env={"PYIO_TRACE_EXCLUDE": f"{program.folder}/data"},
        )
    )
    # THEN it is where they lead that counts, not how that is written
    seen = [
        row["path"]
        for row in outcome.select(op="stat", errno=0)
        if row["path"].startswith((str(program.folder), "/proc"))
    ]
    assert seen == [str(program.folder / "out")] * 3
    assert left_out(outcome)["path"][0] == 7 + 1  # and the chdir
    assert left_out(outcome)["proc"][0] == 2


def test_copies_note_where_positions_went(program: Runner) -> None:
    # GIVEN copies between descriptors in a pause, and an fstat before the next transfer WHEN that is traced
    outcome = succeeded(
        program.traced(
            """\
            import os
            import pyio_trace
            one = os.open("one", os.O_CREAT | os.O_RDWR)
            two = os.open("two", os.O_CREAT | os.O_RDWR)
            os.write(one, bytes(10_000))
            os.lseek(one, 0, 0)
            with pyio_trace.suppress():
                os.sendfile(two, one, None, 700)
            os.fstat(one)
            os.fstat(two)
            os.read(one, 11)
            os.write(two, b"x" * 12)
            with pyio_trace.suppress():
                os.read(one, 100)
                os.read(two, 100)
            os.sendfile(two, one, None, 1000)
            os.read(one, 13)
            os.write(two, b"x" * 14)
            """
        )
    )
    # THEN their places are the kernel's
    found = {
        row["bytes_requested"]: row["file_offset"]
        for row in outcome.select(op=("read", "write", "sendfile"), layer="posix")
    }
    assert {size: found[size] for size in (11, 12, 1000, 13, 14)} == {11: 700, 12: 700, 1000: 811, 13: 1811, 14: 1712}


@pytest.mark.parametrize("rule", [{"PYIO_TRACE_EXCLUDE": "/usr/bin/**,/bin/**"}, {"PYIO_TRACE_INCLUDE": "/nowhere/**"}])
@pytest.mark.parametrize("way", ["subprocess.run(words)", "os.waitpid(os.posix_spawn(words[0], words, os.environ), 0)"])
def test_rules_about_paths_leave_processes_alone(program: Runner, way: str, rule: dict[str, str]) -> None:
    # GIVEN rules that leave out the folder of a program WHEN the program is started
    outcome = succeeded(program.traced(f"""\
        import os, subprocess
        words = ["/bin/sh", "-c", "exit 3"]
        {way}
    """, env=rule))  # fmt: skip
    # THEN it is in the table as before, with its command and its end
    entries = [entry for entry in outcome.processes if entry["argv"] == ["/bin/sh", "-c", "exit 3"]]
    ours = outcome.process(outcome.pid)["index"]
    assert [(entry["parent"], entry["ended"]) for entry in entries] == [(ours, "exit 3")]
    assert len(outcome.select(op=("execve", "posix_spawn"), path="/bin/sh")) == 1
