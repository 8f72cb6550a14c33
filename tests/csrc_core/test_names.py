"""Symbol lookup: the core finds in the tables of loaded objects what the loader finds (tests/csrc/names.c)."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import clean_environment

CSRC = Path(__file__).resolve().parents[1] / "csrc"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-DPT_BUILDING_CORE", f"-I{CSRC.parents[1] / 'csrc' / 'core'}"]
BEFORE_LIBC = """
int open(void) { return 1; }
int __attribute__((weak)) close(void) { return 1; }
long pread(void) { return 1; }
"""


def compile_(folder: Path, source: Path, name: str, *flags: str) -> Path:
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    words = [compiler, *flags, "-o", str(folder / name), str(source), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("kind", ["pie", "no-pie"])
def test_names_lead_where_dlsym_says(tmp_path: Path, kind: str, preloaded: bool) -> None:
    # GIVEN a program with a function of its own under a hooked name, and perhaps a library that stands before libc
    program = compile_(tmp_path, CSRC / "names.c", "names", *FLAGS, f"-f{kind}", f"-{kind}", "-rdynamic")
    environment = clean_environment()
    if preloaded:
        (tmp_path / "before.c").write_text(BEFORE_LIBC)
        library = compile_(tmp_path, tmp_path / "before.c", "before.so", "-shared", "-fPIC", "-w")
        environment["LD_PRELOAD"] = str(library)
    # WHEN it looks for all hooked names
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=240)
    # THEN it finds what dlsym finds, and that libc lacks some names, nearly always without calling it
    assert (done.returncode, done.stderr) == (0, "")
    *different, last = done.stdout.splitlines()
    assert different == []
    without, count = map(int, last.split())
    assert without > count - 10 or platform.libc_ver()[0] != "glibc"
