"""Slots: which of a library's are patched, whatever its table of symbols looks like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

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
