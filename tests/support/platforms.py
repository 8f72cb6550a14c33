"""Platforms other than this machine: how C code is built for them and run without their Python.

The core is built by the platform's compiler from the sources here, and started by tests/csrc/caller.c.  The log that
the program leaves is read by the Python of the tests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.programs import clean_environment

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "tests" / "csrc"
CORE = ROOT / "csrc" / "core"
#: As CMakeLists.txt has them.
CORE_FLAGS = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-D_GNU_SOURCE",
              "-DPT_BUILDING_CORE", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Wl,-z,defs",
              "-Wl,-z,nodelete"]  # fmt: skip


@dataclass(frozen=True)
class Platform:
    """A kind of machine, libc or program.

    runner: the words before a program; packages: Debian's, where these come from; installed: the core is that of the
    Python of the tests.
    """

    compiler: str
    runner: tuple[str, ...] = ()
    packages: str = ""
    program_flags: tuple[str, ...] = ()
    installed: bool = False

    def missing(self) -> str:
        """Why nothing can be built or run for it here; empty: it can."""
        needed = (self.compiler, *self.runner[:1])
        absent = [command for command in needed if not shutil.which(command)]
        return f"{' and '.join(absent)} not found (apt install {self.packages})" if absent else ""

    def compile(self, flags: Sequence[str], sources: Sequence[Path], out: Path) -> Path:
        """Builds a program or a library; a warning is a failure."""
        words = [self.compiler, *flags, f"-I{CORE}", "-o", str(out), *map(str, sources), "-ldl", "-lpthread"]
        told = subprocess.run(words, capture_output=True, text=True)
        assert (told.returncode, told.stderr) == (0, ""), told.stderr
        return out


PLATFORMS = {
    "aarch64": Platform(
        "aarch64-linux-gnu-gcc",
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user",
    ),
    "musl": Platform("musl-gcc", packages="musl-tools"),
    # of this machine, but in a program at a fixed address, as Debian's python3.14 is one
    "no PIE": Platform("cc", packages="gcc", program_flags=("-fno-pie", "-no-pie"), installed=True),
}


@dataclass(frozen=True)
class Caller:
    """The core and the program that calls C functions with it at work, built for a platform."""

    platform: Platform
    program: Path
    core: Path

    def words(self, library: Path, function: str, arguments: Sequence[object], log: Path) -> list[str]:
        """The command that calls the function, traced into the log."""
        spelt = [f"={argument}" if isinstance(argument, int) else str(argument) for argument in arguments]
        return [*self.platform.runner, str(self.program), str(self.core), str(log), str(library), function, *spelt]


def caller(name: str, folder: Path) -> Caller:
    """Builds the core for a platform, in a folder; skips the test where its tools are missing."""
    platform = PLATFORMS[name]
    if reason := platform.missing():
        pytest.skip(reason)
    flags = ["-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", *platform.program_flags]
    program = platform.compile(flags, [CSRC / "caller.c"], folder / "caller")
    if platform.installed:
        return Caller(platform, program, installed_core())
    sources = sorted(CORE.rglob("*.c"))
    return Caller(platform, program, platform.compile(CORE_FLAGS, sources, folder / "libpyio_trace.so"))


def installed_core() -> Path:
    """The core in the Python of the tests; the source tree has none."""
    words = [sys.executable, "-c", "from pyio_trace import native; print(native.__file__)"]
    told = subprocess.run(words, cwd="/", env=clean_environment(), capture_output=True, text=True, check=True)
    return Path(told.stdout.strip()).with_name("libpyio_trace.so")
