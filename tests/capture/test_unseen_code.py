"""Code that reaches no hook and is found among what a process has loaded: liburing, and what dlmopen() loads."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.capture.test_blind_spots import only
from tests.support.programs import Runner, succeeded

#: A library that has liburing's name of the call that makes a ring, and makes none.
LIBURING = "int io_uring_queue_init(unsigned n, void *ring, unsigned flags) { return 0; }\n"
#: One that reads a file; as the program calls it, and with a libc of its own.
READER = """
#include <fcntl.h>
#include <unistd.h>
int read_it(const char *path) { char b[4096]; int f = open(path, O_RDONLY), n = read(f, b, 4096); close(f); return n; }
"""


def built(folder: Path, name: str, source: str) -> str:
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    (folder / f"{name}.c").write_text(source)
    library = folder / f"{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(folder / f"{name}.c"), "-o", str(library)], check=True)
    return str(library)


def test_a_process_that_has_loaded_liburing_is_marked(program: Runner) -> None:
    # GIVEN a program that loads liburing, a child that it forks then, and one that loads another library
    library = built(program.folder, "liburing", LIBURING)
    other = built(program.folder, "other", READER)
    text = """
    import ctypes, os, subprocess, sys
    if len(sys.argv) == 3:
        ctypes.CDLL(sys.argv[2]).read_it
        sys.exit()
    subprocess.run([sys.executable, __file__, "x", sys.argv[1]], check=True)
    ctypes.CDLL(LIBRARY).io_uring_queue_init(4, None, 0)
    if not os.fork():
        os._exit(0)
    os.wait()
    """.replace("LIBRARY", repr(library))
    # WHEN it is traced THEN the two processes that have it are marked, and the third is not
    outcome = succeeded(program.traced(text, other))
    marked = {row["start"]: "io_uring" in row["blind"] for row in outcome.processes if len(row["argv"]) < 4}
    assert marked["fork"] and marked["top"]
    assert [row["blind"] for row in outcome.processes if len(row["argv"]) == 4] == [[]] * (len(outcome.processes) - 2)


def test_code_in_a_name_space_of_the_loaders_is_said(program: Runner) -> None:
    # GIVEN a program that reads by a library, loaded as usual, or beside another libc
    library = built(program.folder, "reader", READER)
    text = """
    import ctypes, os, sys
    libc = ctypes.CDLL(None)
    libc.dlmopen.restype = libc.dlsym.restype = ctypes.c_void_p
    libc.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
    libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    place = libc.dlmopen(int(sys.argv[1]), sys.argv[2].encode(), os.RTLD_NOW)
    assert place
    read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(libc.dlsym(place, b"read_it"))
    assert read(__file__.encode()) > 100
    """
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split("."))) < (2, 35):
        pytest.skip("this libc does not say so")
    # WHEN it is traced THEN a process with a name space of its own is marked, and its note says why
    seen = only(succeeded(program.traced(text, 0, library)))
    unseen = only(succeeded(program.traced(text, -1, library)))
    assert ("unpatched" in seen["blind"], "dlmopen" in seen["note"]) == (False, False)
    assert ("unpatched" in unseen["blind"], "dlmopen" in unseen["note"]) == (True, True)
