"""No room for the log: the program goes on as it would untraced, and what was not recorded is counted exactly."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pyio_trace
from tests.support.programs import Outcome, Runner, accounted, alike, succeeded

WORK = """\
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # 3.12 warns of a fork beside threads, if one of them is still going
fd = os.open(sys.argv[1], os.O_RDONLY)
out = os.open("out", os.O_CREAT | os.O_WRONLY)
def work(times):
    for n in range(times):
        os.pread(fd, 4096, n % 1000 * 4096)
        os.pwrite(out, b"x" * 100, n % 50)
        if n % 10 == 0:
            os.access("missing", 0)
threads = [threading.Thread(target=work, args=[3000]) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
pid = os.fork()
if pid == 0:
    work(1000)
    os._exit(3)
print(os.waitpid(pid, 0)[1] >> 8)
work(500)
print("done", file=sys.stderr)
sys.exit(4)
"""
#: What WORK does: op -> (how often, bytes).
DONE = {"pread": (10500, 10500 * 4096), "pwrite": (10500, 10500 * 100), "access": (1050, 0)}


@contextmanager
def mounted(where: Path, room: str) -> Iterator[Path]:
    """A file system of so many bytes, as mount has them.  Nothing may hold a file of it at the end."""
    where.mkdir()
    told = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "none", where], capture_output=True, text=True)
    if told.returncode:
        pytest.skip(f"no file system can be mounted here: {told.stderr.strip()}")
    yield where
    subprocess.run(["umount", where], check=True)


@pytest.fixture
def small(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 512 KiB, or what the test says."""
    with mounted(tmp_path / "small", getattr(request, "param", "512k")) as where:
        yield where


@contextmanager
def mounted_btrfs(folder: Path) -> Iterator[Path]:
    """A btrfs of 160 MiB: the least that it keeps all its promises with."""
    if os.geteuid() != 0 or not shutil.which("mkfs.btrfs"):
        pytest.skip("only root can mount, and mkfs.btrfs is needed (apt install btrfs-progs)")
    image, where = folder / "image", folder / "btrfs"
    with image.open("wb") as file:
        file.truncate(160 << 20)
    where.mkdir()
    subprocess.run(["mkfs.btrfs", "-q", "-f", image], check=True, capture_output=True)
    told = subprocess.run(["mount", "-o", "loop", image, where], capture_output=True, text=True)
    if told.returncode:
        pytest.skip(f"no btrfs can be mounted here: {told.stderr.strip()}")
    try:
        yield where
    finally:
        gc.collect()  # maps of the log
        subprocess.run(["umount", "-l", where], check=True)


def check_counted(outcome: Outcome, reason: str) -> None:
    """Records and counters together are what was done; the log says since when and why there are only counters."""
    losses = outcome.log.losses()
    assert losses["reason"] == reason
    info = outcome.log.info()
    assert info["start"] < losses["since"] <= (info["end"] or losses["since"])
    assert "torn" not in losses
    counts, moved = Counter[str](), Counter[str]()
    for row in outcome.select(op=list(DONE), layer="posix"):
        counts[row["op"]] += row["calls"]
        moved[row["op"]] += row["bytes_moved"] or 0
    for row in outcome.log.counters().to_pylist():
        if row["why"] == "counted":
            counts[row["op"]] += row["calls"]
            moved[row["op"]] += row["bytes"]
    expected = {op: (counts[op], moved[op]) for op in DONE}
    assert {**expected, "access": (counts["access"] - counts["access"] % 1050, 0)} == DONE
    kept = outcome.log.rows()
    assert kept > 0
    counted = sum(row["calls"] for row in outcome.log.counters().to_pylist() if row["why"] == "counted")
    assert counted == losses["operations_counted_only"]
    summed = sum(json.loads(row["detail"] or "{}").get("calls", 0) for row in outcome.select())
    assert counted + summed > 0


def test_log_on_a_full_disk(program: Runner, data: Path, small: Path) -> None:
    # GIVEN a log on a file system that is too small for it
    # WHEN a program is run traced THEN it ends as untraced, and everything is counted
    outcome = program.traced(WORK, data, log=small / "run.pyio")
    alike(outcome, program.bare(WORK, data))
    check_counted(outcome, "disk full")


def test_disk_that_fills_up_by_others(program: Runner, data: Path, small: Path) -> None:
    # GIVEN a program that fills the log's disk itself, and then goes on
    text = """\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    filler = os.open(os.path.join(sys.argv[2], "filler"), os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(filler, b"x" * 4096)
    except OSError as error:
        print(error.errno)
    for n in range(5000):
        os.pread(fd, 4096, n % 1000 * 4096)
    """
    # WHEN it is run traced THEN it goes on to its end, and its reads are counted
    outcome = succeeded(program.traced(text, data, small, log=small / "run.pyio"))
    assert outcome.stdout == "28\n"
    counted = {row["op"]: row for row in outcome.log.counters().to_pylist() if row["why"] == "counted"}
    assert counted["pread"]["calls"] + len(outcome.select(op="pread", path=data)) == 5000
    assert outcome.log.losses()["reason"] == "disk full"


FILLS = """\
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # from 3.12 on fork() warns if a joined thread has not left the kernel yet
fd = os.open(sys.argv[1], os.O_RDONLY)
def reads(times):
    for n in range(times):
        os.pread(fd, 10, n)
def work(times):
    threads = [threading.Thread(target=reads, args=[times]) for _ in range(2)]
    for thread in threads: thread.start()
    reads(times)
    for thread in threads: thread.join()
work(1000)
told, tell = os.pipe()
early = os.fork()  # has the log as it was, and an entry in it
if early == 0:
    reads(100)
    os.close(tell)
    os.read(told, 1)
    reads(5000)
    os._exit(0)
filler = os.open(os.path.join(sys.argv[2], "filler"), os.O_CREAT | os.O_WRONLY)
for size in (1 << 20, 4096):
    try:
        while os.write(filler, bytes(size)): pass
    except OSError as error:
        print(error.errno)
os.sync()
os.close(tell)
work(5000)
if (late := os.fork()) == 0:
    reads(3000)
    os._exit(0)
for child in (early, late): os.waitpid(child, 0)
print("done")
"""


def test_a_full_disk_that_copies_on_write(program: Runner, data: Path, tmp_path: Path) -> None:
    # GIVEN a log on btrfs, which needs a new block to store into a page of the log that it has written back
    with mounted_btrfs(tmp_path) as disk:
        # WHEN the disk is full, and threads and children go on THEN the program ends as untraced, and all is counted
        outcome = succeeded(program.traced(FILLS, data, disk, log=disk / "run.pyio"))
        assert (outcome.stdout, outcome.stderr) == ("28\n28\ndone\n", "")
        assert accounted(outcome, "pread", data) == 3 * 1000 + 100 + 5000 + 3 * 5000 + 3000
        losses, counters = outcome.log.losses(), outcome.log.counters().to_pylist()
        assert losses["reason"] == "disk full"
        assert losses["operations_counted_only"] == sum(row["calls"] for row in counters if row["why"] == "counted")
        moved = sum(row["bytes"] for row in counters if row["op"] == "pread")
        moved += sum(row["bytes_moved"] for row in outcome.select(op="pread", path=data))
        assert moved == 26_100 * 10
        assert [row["ended"] for row in outcome.processes] == ["exit 0"] * len(outcome.processes)
        del outcome


#: Writes 100 bytes each to so many files.
MANY = """\
import os, sys
for n in range(int(sys.argv[1])):
    fd = os.open(f"file-{n:05}", os.O_CREAT | os.O_WRONLY)
    os.pwrite(fd, b"x" * 100, 0)
    os.close(fd)
print("done")
"""


def test_profile_on_a_full_disk(program: Runner, small: Path) -> None:
    # GIVEN a profile of more files than the disk has room for the sums of
    outcome = program.traced(MANY, 3000, log=small / "run.pyio", env={"PYIO_TRACE_MODE": "profile"})
    # WHEN the program ends THEN it does as untraced, sums and counters together are what it did, and the log says why
    alike(outcome, program.bare(MANY, 3000))
    losses, counters = outcome.log.losses(), outcome.log.counters().to_pylist()
    assert losses["reason"] == "disk full"
    assert losses["operations_counted_only"] == sum(row["calls"] for row in counters if row["why"] == "counted")
    summed = sum(row["calls"] for row in outcome.select(op="pwrite"))
    counted = [row for row in counters if row["op"] == "pwrite" and row["why"] == "counted"]
    assert 0 < summed < 3000
    assert summed + sum(row["calls"] for row in counted) == 3000
    assert sum(row["bytes"] for row in counted) == 100 * (3000 - summed)


def test_ring_on_a_disk_without_room_for_it(program: Runner, data: Path, small: Path) -> None:
    # GIVEN a ring that is larger than the disk
    text = """\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(40_000):
        os.pread(fd, 10, n)
    print("done")
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    outcome = program.traced(text, data, log=small / "run.pyio", env=env)
    # WHEN the program ends THEN it does as untraced, and the ring is as large as there was room for
    alike(outcome, program.bare(text, data))
    places = sorted(row["file_offset"] for row in outcome.select(op="pread", path=data))
    assert len(places) > 2000
    assert places == list(range(40_000 - len(places), 40_000))
    assert outcome.log.losses() == {}


def test_ring_without_room_for_names(program: Runner, small: Path) -> None:
    # GIVEN a ring on a disk without room for the names of so many files
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M"}
    outcome = program.traced(MANY, 20_000, log=small / "run.pyio", env=env)
    # WHEN the program ends THEN it does as untraced, and the log has the latest, and why they have no names
    alike(outcome, program.bare(MANY, 20_000))
    rows = outcome.select(op="pwrite")
    assert len(rows) > 1000
    assert {(row["path"], row["bytes_moved"]) for row in rows} == {(None, 100)}
    losses = outcome.log.losses()
    assert (losses["operations_counted_only"], losses["reason"]) == (0, "disk full")
    told = program.command([sys.executable, "-m", "pyio_trace", "summary", "--all", outcome.path]).stdout
    assert "disk full; files and lines first met after that may have no name" in told


def test_no_room_for_a_dump(program: Runner, small: Path) -> None:
    # GIVEN a ring, and a disk without room for a copy of it WHEN the program asks for one, by a call and by a signal
    text = """\
    import os, signal, sys, pyio_trace
    for n in range(20_000):
        os.stat(__file__)
    try:
        pyio_trace.current_run().dump(os.path.join(sys.argv[1], "dump.pyio"))
    except pyio_trace.PyioTraceError as error:
        print("No space left on device" in str(error))
    os.kill(os.getpid(), signal.SIGUSR2)
    print(sorted(os.listdir(sys.argv[1])))
    """
    env = {"PYIO_TRACE_MODE": "ring", "PYIO_TRACE_RING_SIZE": "1M", "PYIO_TRACE_DUMP_SIGNAL": "USR2"}
    outcome = succeeded(program.traced(text, small, log=small / "run.pyio", env=env))
    # THEN that is reported, nothing stays on the disk, and the program goes on
    assert outcome.stdout == "True\n['run.pyio']\n"
    assert outcome.stderr == f"pyio-trace: no dump: {small}/run-dump-1.pyio cannot be written\n"


#: The sampler's own pages are counted elsewhere.
UNSAMPLED = {"PYIO_TRACE_SAMPLE": "off"}


def test_the_last_pages_of_a_disk(program: Runner, data: Path, tmp_path: Path) -> None:
    # GIVEN a disk with fewer free pages than the log's next part needs
    text = """\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(3000):
        os.pread(fd, 10, n)
    with open(os.path.join(sys.argv[2], "filler"), "wb", 0) as filler:
        while os.statvfs(sys.argv[2]).f_bavail > int(sys.argv[3]):
            filler.write(bytes(4096))
    for n in range(20_000):
        os.pread(fd, 11, n)
    """

    def recorded(pages: int) -> int:
        with mounted(tmp_path / f"disk-{pages}", "512k") as disk:
            return count(program.traced(text, data, disk, pages, log=disk / "run.pyio", env=UNSAMPLED))

    def count(outcome: Outcome) -> int:
        reads = succeeded(outcome).select(op="pread")
        return sum(json.loads(row["detail"] or "{}").get("calls", 0) == 0 for row in reads)

    # WHEN the program goes on THEN each of them holds operations: 84 of 48 bytes, less the page's own head
    assert recorded(16) - recorded(0) > 16 * 80


@pytest.mark.parametrize("small", ["2m"], indirect=True)
@pytest.mark.parametrize("mode", ["trace", "profile", "ring"])
def test_no_room_to_pack(program: Runner, small: Path, mode: str) -> None:
    # GIVEN a disk on which there is room for the live log, until the program fills the rest of it
    text = """\
    import os, sys
    for n in range(500):
        os.stat(__file__)
    try:
        with open(os.path.join(sys.argv[1], "filler"), "wb", 0) as filler:
            while filler.write(bytes(4096)):
                pass
    except OSError as error:
        sys.exit(error.errno)
    """
    script = program.write(text)
    # WHEN it has ended THEN its status is its own, a line says what could not be written, and the live log is there
    words = [sys.executable, "-m", "pyio_trace", "--mode", mode, "--ring-size", "1M", "-o", small / "run.parquet"]
    outcome = program.command([*words, script, small], log=small / "run.pyio")
    assert outcome.status == 28, outcome.stderr
    assert "run.parquet: cannot be written: No space left on device" in outcome.stderr
    assert sorted(path.name for path in small.iterdir()) == ["filler", "run.pyio"]
    assert sum(row["calls"] for row in outcome.select(op="stat", path=script)) == 500
    # ... from which it can be packed elsewhere
    packed = program.command([sys.executable, "-m", "pyio_trace", "pack", outcome.path, "kept.parquet"])
    assert packed.status == 0, packed.stderr
    kept = pyio_trace.open(program.folder / "kept.parquet").operations().to_pylist()
    assert sum(row["calls"] for row in kept if row["op"] == "stat" and row["path"] == str(script)) == 500


@pytest.mark.parametrize("limit", [200_000, 600_000, 1 << 20])
def test_file_size_limit(program: Runner, data: Path, limit: int) -> None:
    # GIVEN a process under RLIMIT_FSIZE
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    # WHEN a program is run traced THEN it ends as untraced, without a signal, and everything is counted
    outcome = program.traced(WORK, data, before=limited)
    alike(outcome, program.bare(WORK, data, before=limited))
    check_counted(outcome, "file-size limit of the process")


def test_file_size_limit_that_leaves_no_room(program: Runner, data: Path) -> None:
    # GIVEN a limit that is too small for any log WHEN a program is run traced
    outcome = program.traced(WORK, data, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    # THEN one line says so, and the program runs
    assert (outcome.status, outcome.stdout) == (4, "3\n")
    first, *rest = outcome.stderr.splitlines()
    assert first.startswith("pyio-trace: not tracing: ") and "limit" in first
    assert rest == ["done"]


@pytest.mark.parametrize("size", ["64K", "128K", "300K", "900K"])
def test_max_log_size(program: Runner, data: Path, size: str) -> None:
    # GIVEN a budget that is soon used up
    # WHEN a program is run traced THEN it ends as untraced, everything is counted, and the log is no larger
    outcome = program.traced(WORK, data, env={"PYIO_TRACE_MAX_LOG_SIZE": size})
    alike(outcome, program.bare(WORK, data))
    check_counted(outcome, "the log reached its size limit")
    assert outcome.path.stat().st_size <= int(size[:-1]) << 10


def test_a_file_first_met_when_the_log_is_full(program: Runner, data: Path, tmp_path: Path) -> None:
    # GIVEN a program that moves on to a second file once its log has no room for records
    (tmp_path / "later").write_bytes(data.read_bytes())
    text = """\
    import os, sys
    first, later = (os.open(name, os.O_RDONLY) for name in (sys.argv[1], "later"))
    for n in range(40_000):
        os.pread(first, 10, n)
    for n in range(1000):
        os.pread(later, 10, n)
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data, env={"PYIO_TRACE_MAX_LOG_SIZE": "1M"}))
    # THEN room was kept for sums: each call counts for the right file
    assert outcome.log.rows() < 40_000 and outcome.log.losses()["reason"]
    for path, calls in ((data, 40_000), (tmp_path / "later", 1000)):
        assert sum(row["calls"] for row in outcome.select(op="pread", path=path)) == calls


def test_children_of_a_full_log(program: Runner, data: Path) -> None:
    # GIVEN a log that is full before the children are started: forked, spawned, and other Pythons
    lines = "import os, sys\nfd = os.open(sys.argv[1], 0)\nfor n in range(100):\n    os.pread(fd, 10, n)\n"
    child = program.write(lines, "child.py")
    text = f"""\
    import os, subprocess, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(5000):
        os.pread(fd, 10, n)
    for way in range(3):
        if os.fork() == 0:
            for n in range(100):
                os.pread(fd, 10, n)
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, {str(child)!r}, sys.argv[1]], check=True)
    """
    # WHEN it is run traced THEN what they did is in the counters
    outcome = succeeded(program.traced(text, data, env={"PYIO_TRACE_MAX_LOG_SIZE": "150K"}))
    counted = sum(row["calls"] for row in outcome.log.counters().to_pylist() if row["op"] == "pread")
    assert counted + sum(row["calls"] for row in outcome.select(op="pread", path=data)) == 5600
    assert outcome.stderr == ""


def test_what_children_without_room_leave_out(program: Runner, data: Path) -> None:
    # GIVEN children that use pipes, started when the log has no room even for their entries
    text = """\
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(5000):
        os.pread(fd, 10, n)
    for child in range(20):
        if os.fork() == 0:
            one, other = os.pipe()
            os.write(other, b"12345")
            os.read(one, 5)
            os._exit(0)
        os.wait()
    """

    def left_out(size: str) -> tuple[int, int, int]:
        outcome = succeeded(program.traced(text, data, env={"PYIO_TRACE_MAX_LOG_SIZE": size}))
        rows = [row for row in outcome.log.counters().to_pylist() if row["kind"] == "pipe" and row["process"] != 0]
        return sum(row["calls"] for row in rows), sum(row["bytes"] for row in rows), len(outcome.processes)

    # WHEN it is run traced THEN what was left out by choice is counted as it is where there is room
    *small, few = left_out("64K")
    *large, all_of_them = left_out("64M")
    assert small == large == [40, 200]
    assert few < all_of_them == 21


def test_limited_address_space(program: Runner, data: Path) -> None:
    # GIVEN a process whose address space is limited to 1 GiB WHEN a program is run traced
    limit = (1 << 30, 1 << 30)
    outcome = succeeded(program.traced(
        "import os, sys\nfd = os.open(sys.argv[1], 0)\nfor n in range(1000): os.pread(fd, 10, n)\n"
        "memory = bytearray(500 << 20)",
        data, before=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    ))  # fmt: skip
    # THEN it has its memory, and its reads are there
    assert len(outcome.select(op="pread", path=data)) == 1000


BAD_LOGS = {
    "folder is not there": "/proc/nonexistent/run.pyio",
    "folder is a file": "{file}/run.pyio",
    "kernel's file system": "/proc/run.pyio",
    "somebody's data": "{file}",
    "a device": "/dev/full",
}


@pytest.mark.parametrize("what", BAD_LOGS)
def test_log_that_cannot_be_written_is_one_line_and_status_2(program: Runner, what: str) -> None:
    # GIVEN a log that cannot be
    script = program.write("print('ran')")
    (program.folder / "file").write_text("precious")
    path = BAD_LOGS[what].format(file=program.folder / "file")
    # WHEN a program is launched THEN it is not run: one line, status 2
    outcome = program.command([sys.executable, "-m", "pyio_trace", "-o", path, script])
    assert (outcome.status, outcome.stdout) == (2, "")
    (line,) = outcome.stderr.splitlines()
    assert path in line or str(Path(path).parent) in line
    # WHEN it is started by the environment THEN one line, and it runs untraced
    outcome = program.command([sys.executable, script], {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": path})
    assert (outcome.status, outcome.stdout) == (0, "ran\n")
    assert len(outcome.stderr.splitlines()) == 1
    assert (program.folder / "file").read_text() == "precious"


def test_log_removed_while_it_is_written(program: Runner, data: Path) -> None:
    # GIVEN a program that removes every file of its folder, its log among them, and starts children afterwards
    text = """\
    import os, subprocess, sys
    os.remove("run.pyio")
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(100000):
        os.pread(fd, 10, n)
    if os.fork() == 0:
        os.pread(fd, 10, 0)
        os._exit(0)
    os.wait()
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    """
    # WHEN it is run traced THEN it runs to its end
    outcome = program.traced(text, data)
    assert (outcome.status, outcome.stdout) == (0, "child\n")


def test_memory_file_log_is_whole_without_any_descriptor(program: Runner, data: Path) -> None:
    # GIVEN a program that closes every descriptor and may open no other one
    text = """\
    import os, resource, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.closerange(fd + 1, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, fd + 1))
    for n in range(50000):
        os.pread(fd, 10, n)
    """
    # WHEN it is run traced THEN the log grew all the same
    outcome = succeeded(program.traced(text, data))
    assert len(outcome.select(op="pread", path=data)) == 50000
    assert outcome.log.losses() == {}
