"""A program defines functions with libc's names: its own are called as before, and calls of libc's are recorded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.skipif(not Path("/usr/bin/cc").exists(), reason="needs a C compiler")

#: a library's own function, and the one of libc's that it goes on to
SPELLINGS = [("lseek64", "lseek"), ("lseek", "lseek64")]


def _library(place: Path, text: str) -> Path:
    source = place.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", place, source], check=True)
    return place


@pytest.mark.parametrize(("own", "libcs"), SPELLINGS)
def test_a_function_under_one_of_its_spellings(program: Runner, tmp_path: Path, own: str, libcs: str) -> None:
    # GIVEN a library before libc with a function of its own under one spelling of the name
    mine = _library(tmp_path / "own.so", f"""
        long {libcs}(int fd, long at, int whence);
        long {own}(int fd, long at, int whence) {{ return at == 77 ? 4242 : {libcs}(fd, at, whence); }}
    """)  # fmt: skip
    user = _library(tmp_path / "user.so", f"""
        long lseek(int fd, long at, int whence), lseek64(int fd, long at, int whence);
        long by_own(int fd, long at) {{ return {own}(fd, at, 0); }}
        long by_libc(int fd, long at) {{ return {libcs}(fd, at, 0); }}
    """)  # fmt: skip
    text = f"""\
    import ctypes, os
    user = ctypes.CDLL({str(user)!r})
    fd = os.open("file", os.O_CREAT | os.O_RDWR)
    print([user.by_own(fd, 77), user.by_libc(fd, 77), user.by_own(fd, 5), user.by_libc(fd, 6)])
    """
    # WHEN a program that has it is traced THEN each spelling leads where it did
    bare = succeeded(program.bare(text, env={"LD_PRELOAD": str(mine)})).stdout
    outcome = succeeded(program.traced(text, env={"LD_PRELOAD": str(mine)}))
    assert bare == outcome.stdout == "[4242, 77, 5, 6]\n"
    # THEN what came to libc's has its rows
    seeks = outcome.select(op="lseek", path=f"{tmp_path}/file")
    assert [row["file_offset"] for row in seeks] == [77, 5, 6]


def test_a_program_with_another_function_of_that_name(program: Runner, tmp_path: Path) -> None:
    # GIVEN a C program that has a function of quite another kind under a name of libc's, and a library that calls it
    _library(tmp_path / "user.so", """
        const char *splice(const char *a, const char *b);
        const char *user(const char *a, const char *b) { return splice(a, b); }
    """)  # fmt: skip
    source = tmp_path / "main.c"
    source.write_text("""\
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <fcntl.h>
        #include <unistd.h>
        const char *user(const char *a, const char *b);
        const char *splice(const char *a, const char *b)
        {
            char *both = malloc(strlen(a) + strlen(b) + 1);
            return strcat(strcpy(both, a), b);
        }
        int main(void)
        {
            int fd = open("file", O_CREAT | O_RDWR, 0666);
            puts(user("spliced", " rope"));
            return write(fd, "12345", 5) != 5;
        }
    """)
    words = ["cc", "-rdynamic", "-fno-builtin", "-o", "main", "main.c", str(tmp_path / "user.so"), "-Wl,-rpath,."]
    subprocess.run(words, check=True, cwd=tmp_path)
    # WHEN it is traced THEN its function is its own, and the rest is recorded
    text = "import subprocess; print(subprocess.run(['./main'], capture_output=True, text=True, check=True).stdout)"
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_FOLLOW": "all"}))
    assert outcome.stdout.strip() == "spliced rope"
    assert [row["bytes_moved"] for row in outcome.select(op="write", path=f"{tmp_path}/file")] == [5]


def test_a_preloaded_library_that_stands_in_for_libc(program: Runner, tmp_path: Path) -> None:
    # GIVEN a preloaded library that takes the place of a function altogether
    mine = _library(tmp_path / "mine.so", "int fsync(int fd) { (void)fd; return 0; }\n")
    text = "import os; fd = os.open('file', os.O_CREAT | os.O_RDWR); os.fsync(fd)"
    # WHEN the function is called THEN the call is recorded, whichever library does the work
    outcome = succeeded(program.traced(text, env={"LD_PRELOAD": str(mine)}))
    assert len(outcome.select(op="fsync", path=f"{tmp_path}/file")) == 1
