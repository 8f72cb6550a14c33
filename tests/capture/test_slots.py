"""Slots: which of a library's are patched, whatever its table of symbols looks like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import pyio_trace
from tests.support.programs import Runner, succeeded

#: Reads a file of its name at each SIGUSR1, through its own slots; it has no function that others can call.
READS = """
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
static const char *const path = DATA;
static void read_some(int number)
{
    char bytes[10];
    int fd = open(path, O_RDONLY);
    (void)!pread(fd, bytes, sizeof bytes, number);
    close(fd);
}
__attribute__((constructor)) static void prepare(void)
{
    signal(SIGUSR1, read_some);
}
"""
#: Here the address of a function is in the data too, by its name.
EXPORTS = "\nint (*pyio_trace_test_table[])(int) = {close};\n"


@pytest.mark.parametrize(
    ("more", "flags"),
    [
        ("", []),
        (EXPORTS, []),
        (EXPORTS, ["-Wl,--hash-style=sysv"]),
        (EXPORTS, ["-Wl,-z,now", "-Wl,-O1"]),
        ("", ["-nostartfiles"]),
    ],
    ids=["exports nothing", "exports", "sysv hash", "bound at once", "no start files"],
)
def test_a_librarys_own_calls(program: Runner, data: Path, more: str, flags: list[str]) -> None:
    # GIVEN a library that calls libc when it gets a signal
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    source, library = program.folder / "quiet.c", program.folder / "quiet.so"
    source.write_text(READS + more)
    name = f'-DDATA="{data}"'
    subprocess.run([compiler, "-shared", "-fPIC", name, *flags, "-o", library, source, "-lc"], check=True)
    # WHEN a traced program loads it and sends itself that signal
    outcome = succeeded(
        program.traced("""
            import ctypes, os, signal, sys
            ctypes.CDLL(sys.argv[1])
            ctypes.CDLL(None).getpid  # slots of a new library are patched once a name is looked up
            os.kill(os.getpid(), signal.SIGUSR1)
        """, library)
    )  # fmt: skip
    # THEN each of its calls has a row
    ops = [(row["op"], row["bytes_moved"]) for row in outcome.select(path=data)]
    assert ops == [("open", None), ("pread", 10), ("close", None)]


#: Another tool takes over the slots of the module mmap, as a memory profiler does.
TAKEN = """
import ctypes, mmap, os, sys
import pyio_trace
from pyio_trace import native

library, held = sys.argv[1], sys.argv[2] == "stays"
fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)

def maps(times):
    for _ in range(times):
        mmap.mmap(fd, 4096).close()

def put(slots):
    for slot, value in slots.items():
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(slot & -4096), 4096, 3)
        ctypes.c_void_p.from_address(slot).value = value

maps(1)
ranges = [line.split()[0].split("-") for line in open("/proc/self/maps") if line.rstrip().endswith(mmap.__file__)]
low, high = int(ranges[0][0], 16), int(ranges[-1][1], 16)
before = native.core.got_snapshot()
with pyio_trace.trace("taken.pyio"):
    during = native.core.got_snapshot()
    ours = {at: value for at, value in during.items() if low <= at < high and value != before[at]}
    maps(2)
    put({at: id(maps) if held else before[at] for at in ours})
    ctypes.CDLL(library).pyio_trace_test_function  # a library is loaded, and a name looked up
    if held:
        put(ours)
    maps(3)
    if sys.argv[2] == "outlives":
        put({at: id(put) for at in ours})
after = native.core.got_snapshot()
print(len(ours), all(after[at] == (id(put) if sys.argv[2] == "outlives" else before[at]) for at in ours))
put({at: before[at] for at in ours})
"""


@pytest.mark.parametrize("end", ["left", "stays", "outlives"])
def test_slots_that_another_tool_takes_over(program: Runner, end: str) -> None:
    # GIVEN a tool that puts its own function into slots that lead to us, or libc's back; then a library is loaded
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    source, library = program.folder / "late.c", program.folder / "late.so"
    source.write_text("int pyio_trace_test_function(void) { return 1; }")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    # WHEN a part of the program is traced
    done = succeeded(program.bare(TAKEN, library, end))
    count, as_left = done.stdout.split()
    if count == "0":
        pytest.skip("this Python has no module mmap of its own")
    # THEN the slots lead to us again, or the other tool's are left alone, even at the end, and the log says so
    assert as_left == "True"
    log = pyio_trace.open(program.folder / "taken.pyio")
    ops = [row["op"] for row in log.operations().to_pylist() if row["path"] == str(program.folder / "mapped")]
    assert ops.count("mmap") == 5
    assert log.losses().get("unpatched") == (1 if end == "stays" else None)


PUT_BACK = (
    TAKEN[: TAKEN.index("    ctypes.CDLL(library)")]
    + """
    deadline = time.monotonic() + 60
    while (now := native.core.got_snapshot()) and any(now[at] != value for at, value in ours.items()):
        os.close(os.dup(fd))
        assert time.monotonic() < deadline
    maps(3)
"""
)


def test_slots_that_another_tool_puts_back_in_silence(program: Runner) -> None:
    # GIVEN a tool that puts libc's functions back, and no library that is loaded afterwards
    text = PUT_BACK.replace("import ctypes,", "import time, ctypes,").replace(
        "library, held = sys.argv[1], ", "held = "
    )
    # WHEN the program goes on with other calls THEN the slots lead to us again
    succeeded(program.bare(text.replace('sys.argv[2] == "stays"', "False")))
    log = pyio_trace.open(program.folder / "taken.pyio")
    ops = [row["op"] for row in log.operations().to_pylist() if row["path"] == str(program.folder / "mapped")]
    assert ops.count("mmap") == 5


def test_looking_at_slots_is_not_the_programs_reading(program: Runner) -> None:
    # GIVEN a program that goes on for long enough that its slots are looked at again
    text = """
    import os, time
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        os.close(os.dup(0))
        time.sleep(0.01)
    """
    # WHEN it is traced THEN what was looked at does not count as bytes that passed by: a page is more than its script
    (process,) = succeeded(program.traced(text)).processes
    assert process["unseen_read"] < 4096
