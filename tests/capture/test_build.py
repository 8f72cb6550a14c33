"""The core builds and runs with glibc 2.17 and the kernel headers of 2013, as manylinux2014 has them.

We have no such machine: the tests take later declarations away from the headers here and look at imported symbols.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.platforms import CORE, installed_core

#: Linux 3.10's last system call on x86-64 is finit_module.
LAST_NUMBER = 313
#: Macros of glibc's and the kernel's headers that came later.
LATER = ("O_TMPFILE", "MADV_POPULATE_READ", "MADV_POPULATE_WRITE", "STATX_BASIC_STATS", "F_OFD_SETLK", "F_OFD_SETLKW",
         "F_OFD_GETLK", "F_ADD_SEALS", "MFD_CLOEXEC", "RENAME_NOREPLACE", "RENAME_EXCHANGE",
         "RWF_APPEND", "RWF_NOWAIT", "MAP_SYNC", "MAP_SHARED_VALIDATE", "MAP_FIXED_NOREPLACE",
         "CLONE_PIDFD")  # fmt: skip
HEADERS = ("fcntl.h", "sched.h", "stdio.h", "sys/mman.h", "sys/stat.h", "sys/syscall.h", "sys/uio.h")
#: In glibc 2.17 too: under another version in a library that libc has swallowed since (2.34), as a function that
#: the headers of old bring along (2.33), or under the name before C23's (2.38).
OLD_ALL_THE_SAME = re.compile(r"dl\w+|pthread_\w+|sem_\w+|l?f?stat(at)?(64)?|mknod(at)?|__isoc23_\w+")


@pytest.fixture(scope="session")
def old_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A header that takes away what the headers of 2013 did not have."""
    includes = "".join(f"#include <{name}>\n" for name in HEADERS)
    words = ["cc", "-E", "-dM", "-D_GNU_SOURCE", "-"]
    macros = subprocess.run(words, input=includes, capture_output=True, text=True, check=True).stdout
    numbers = re.findall(r"^#define __NR_(\w+) (\d+)$", macros, re.MULTILINE)
    later = [f"{kind}_{name}" for name, number in numbers if int(number) > LAST_NUMBER for kind in ("SYS", "__NR")]
    assert "SYS_statx" in later
    path = tmp_path_factory.mktemp("headers") / "old.h"
    path.write_text(includes + "".join(f"#undef {name}\n" for name in (*later, *LATER)))
    return path


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("source", sorted(CORE.rglob("*.c")), ids=lambda path: str(path.relative_to(CORE)))
def test_compiles_with_headers_of_2013(source: Path, old_headers: Path) -> None:
    # GIVEN headers without the system calls and flags of later days WHEN the core is compiled with them
    flags = [
        "-fsyntax-only",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-DPT_BUILDING_CORE",
        f"-I{CORE}",
        "-include",
        str(old_headers),
    ]
    told = subprocess.run(["cc", *flags, str(source)], capture_output=True, text=True)
    # THEN it does compile
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump (apt install binutils)")
@pytest.mark.parametrize("library", ["core", "extension"])
def test_needs_nothing_of_libc_that_came_later(library: str) -> None:
    # GIVEN what was built for this Python
    core = installed_core()
    path = core if library == "core" else next(core.parent.glob("_capture.*.so"))
    told = subprocess.run(["objdump", "-T", str(path)], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"\*UND\*\s+\w+\s+\(?GLIBC_([\d.]+)\)?\s+(\w+)", told)
    assert "strcmp" in [name for _, name in wanted]
    # THEN each name it takes from libc was there in glibc 2.17
    later = [name for version, name in wanted if tuple(map(int, version.split("."))) > (2, 17)]
    assert [name for name in later if not OLD_ALL_THE_SAME.fullmatch(name)] == []
