"""The cost of one operation: loops over one kind of call, bare and traced, in one process.

Each loop runs in a thread of its own, so its Python stack is exactly as deep as
the row says.  The records of a round fill whole chunks of the log: a round pays
for the pages that it uses, and for its share of the kernel's read-ahead.
"""

from __future__ import annotations

import _thread
import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice, repeat
from pathlib import Path
from time import perf_counter_ns

import pyio_trace
from benchmarks.measure import Figure, Pair, alternate
from benchmarks.measure import repeat as repeat_work

ROUNDS = 31
#: Records in a 1 MiB chunk of the log: (1 MiB - header) / 48 bytes.
CHUNK = 21843
#: Records per round.  The kernel reads up to 8 MiB ahead in the log, and the chunks share that cost.
ROUND = 8 * CHUNK
NS = 1e-9
#: Clock readings per round.
CLOCKS = 100_000
#: Bytes of records in a round of the row `floor`: one chunk of the log.
FLOOR = 1 << 20
#: Bytes of memory made ready before each round: more than its log takes.
READY = 32 << 20

#: A function that does its work n times.
Loop = Callable[[int], None]


def loop_os_pread(fd: int, n: int) -> None:
    pread = os.pread
    for _ in repeat(None, n):
        pread(fd, 4096, 0)


def loop_open(path: str, n: int) -> None:
    for _ in repeat(None, n):
        with open(path, "rb") as file:
            file.read()


def loop_stat(path: str, n: int) -> None:
    stat = os.stat
    for _ in repeat(None, n):
        stat(path)


def loop_read_16(path: str, n: int) -> None:
    with open(path, "rb") as file:
        for _ in repeat(None, n):
            file.read(16)


def loop_lines(path: str, n: int) -> None:
    with open(path) as file:
        for _ in islice(file, n):
            pass


def library_call(path: str, number: int, where: slice) -> int:
    """Stands for a function of a library."""
    return number


def loop_library_call(path: str, n: int) -> None:
    where = slice(3, 9)
    for number in range(n):
        library_call(path, number, where)


def watch_path() -> None:
    """Watches it as an instrument does that reports the path only."""
    # Not imported above: with --against, the other installation may have other modules.
    from pyio_trace.capture.instrumentation import watching
    from pyio_trace.capture.instrumentation.instrument import Target

    watching.watch(Target("library_call", path="path"), sys.modules[__name__])


def watch_details() -> None:
    """Watches it as an instrument does that reports bytes, and three details that differ from call to call."""
    from pyio_trace.capture.instrumentation import watching
    from pyio_trace.capture.instrumentation.instrument import Target

    def details(path: str, number: int, where: slice) -> dict[str, object]:
        return {"number": number, "where": where, "dtype": "float64"}

    watching.watch(Target("library_call", path="path", details=details, moved="result"), sys.modules[__name__])


def at_depth(depth: int, loop: Loop, n: int) -> None:
    """Calls the loop in the depth-th frame of the stack; this call is the first."""
    if depth <= 2:
        loop(n)
    else:
        at_depth(depth - 1, loop, n)


def ready_but_waiting() -> int:
    """Nanoseconds that this thread was ready to run but had no processor."""
    with open("/proc/thread-self/schedstat", "rb") as file:
        return int(file.read().split()[1])


def have_memory_ready() -> None:
    """Makes the host of a virtual machine back enough free pages with memory.

    The host takes pages back once they have been free for a while, and giving
    one again costs several us.  A round would then measure the host, not the
    tracer.
    """
    with mmap.mmap(-1, READY) as pages:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, READY, mmap.PAGESIZE):
            pages[at] = 1


def in_thread(depth: int, loop: Loop, n: int) -> int:
    """Nanoseconds that a loop takes in the depth-th frame of a new thread, without the time it waited to run."""
    result: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def first() -> None:
        try:
            waited = ready_but_waiting()
            begin = perf_counter_ns()
            at_depth(depth - 1, loop, n)
            took = perf_counter_ns() - begin
            result.append(took - (ready_but_waiting() - waited))
        finally:
            done.release()

    _thread.start_new_thread(first, ())
    done.acquire()
    return result[0]


def pair(
    work: str,
    where: str,
    loop: Loop,
    log: Path,
    *,
    n: int,
    limit: float | None,
    depth: int = 3,
    arm: Callable[[], None] = lambda: None,
    **options: str,
) -> Pair:
    """Measures a loop of n calls.  log: path of the live log; limit: of the added ns; arm: called once tracing has
    begun; options: those of trace()."""
    warm = max(n // 8, 1)

    def bare() -> float:
        have_memory_ready()
        in_thread(depth, loop, warm)
        return in_thread(depth, loop, n) / n * NS

    def traced() -> float:
        have_memory_ready()
        with pyio_trace.trace(log, **options):
            arm()
            in_thread(depth, loop, warm)
            took = in_thread(depth, loop, n) / n * NS
        log.unlink()
        return took

    limit = None if limit is None else limit * NS
    return Pair(work, where, "ns", alternate(bare, traced, ROUNDS), limit)


def c_library(folder: Path) -> ctypes.PyDLL:
    """Compiles and loads loops.c.  Calls of its functions hold the GIL."""
    library = folder / "loops.so"
    source = Path(__file__).with_name("loops.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.PyDLL(str(library))


def c_loop(folder: Path, fd: int) -> Loop:
    """The loop over pread in C."""
    function = c_library(folder).loop_pread
    function.argtypes, function.restype = (ctypes.c_int, ctypes.c_long), ctypes.c_int

    def loop(n: int) -> None:
        if function(fd, n) != 0:
            raise OSError("a read of the C loop failed")

    return loop


def clock(folder: Path) -> list[Figure]:
    """The cost of the clock in every call that is timed."""
    function = c_library(folder).loop_clock
    function.argtypes, function.restype = (ctypes.c_long,), ctypes.c_uint64

    def work() -> dict[str, float]:
        begin = perf_counter_ns()
        function(CLOCKS)
        return {"ns": 2 * (perf_counter_ns() - begin) / CLOCKS}

    runs, full_speed = repeat_work(work, ROUNDS)
    return [Figure("the processor's clock, two readings", "ns", [run["ns"] for run in runs], None, full_speed)]


def floor(folder: Path, logs: dict[str, Path]) -> list[Figure]:
    """The least that any tracer pays to write a record of 48 bytes with two times of each call to a mapped file.

    What our rows take beyond this is our own cost."""
    function = c_library(folder).loop_floor
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_uint64), ctypes.c_int64
    figures = []
    for where, place in logs.items():
        path = place / "floor.bin"

        def work(path: Path = path) -> dict[str, float]:
            have_memory_ready()
            took = function(os.fsencode(path), FLOOR)
            path.unlink()
            if took < 0:
                raise OSError(f"{path}: cannot be mapped with its blocks reserved")
            return {"ns": took / (FLOOR // 48)}

        runs, full_speed = repeat_work(work, ROUNDS)
        name = f"a record of 48 B, two readings of the clock, nothing else: {where}"
        figures.append(Figure(name, "ns", [run["ns"] for run in runs], None, full_speed))
    return figures


def measure(name: str, folder: Path, logs: dict[str, Path]) -> list[Pair]:
    """Measures the row of that name.  folder: for the data; logs: folders for live logs, by the name of the place."""
    data, lines = folder / "data.bin", folder / "lines.txt"
    if not data.exists():
        data.write_bytes(os.urandom(8 << 20))
        lines.write_text("".join(f"line {number:08d} of a text of plain words\n" for number in range(300_000)))
        (folder / "small.bin").write_bytes(os.urandom(4096))
    fd = os.open(data, os.O_RDONLY)
    small = str(folder / "small.bin")
    try:
        found = []
        for where, place in logs.items():
            log = place / "benchmark.pyio"
            found += _rows(name, folder, fd, where, log, small=small, data=str(data), lines=str(lines))
        return found
    finally:
        os.close(fd)


def _rows(name: str, folder: Path, fd: int, where: str, log: Path, *, small: str, data: str, lines: str) -> list[Pair]:
    if name == "c-pread":
        loop = c_loop(folder, fd)
        return [pair("C, pread 4 KiB, no stacks", where, loop, log, n=ROUND, limit=45, stacks="off")]
    if name == "os-pread":
        return [
            pair(f"Python, os.pread 4 KiB, stack of {depth}", where, lambda n: loop_os_pread(fd, n), log,
                 n=ROUND, limit=75, depth=depth)
            for depth in (3, 12)
        ]  # fmt: skip
    if name == "open":
        return [pair("Python, open/read/close", where, lambda n: loop_open(small, n), log, n=ROUND // 11, limit=500)]
    if name == "stat":
        return [pair("Python, os.stat", where, lambda n: loop_stat(small, n), log, n=ROUND, limit=80)]
    if name == "read-16":
        return [pair("Python, f.read(16)", where, lambda n: loop_read_16(data, n), log, n=400_000, limit=20)]
    if name == "modes":
        variants = {
            "mode profile": {"mode": "profile"},
            "mode ring": {"mode": "ring"},
            "left out by path": {"exclude": "*.bin"},
            "left out by operation": {"exclude": "op:pread"},
            "left out by size": {"min_size": "1M"},
        }
        return [
            pair(f"Python, os.pread, {what}", where, lambda n: loop_os_pread(fd, n), log, n=ROUND, limit=None, **how)
            for what, how in variants.items()
        ]
    if name == "watched":
        variants = {"path": watch_path, "path, three details, bytes": watch_details}
        return [
            pair(f"Python, a library's function watched: {what}", where, lambda n: loop_library_call(small, n), log,
                 n=ROUND, limit=1000, arm=arm)
            for what, arm in variants.items()
        ]  # fmt: skip
    assert name == "lines", name
    return [pair("Python, a text line iterated", where, lambda n: loop_lines(lines, n), log, n=300_000, limit=15)]


ROWS = ("c-pread", "os-pread", "open", "stat", "read-16", "lines", "modes", "watched")
