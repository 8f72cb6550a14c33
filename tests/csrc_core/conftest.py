"""The core with the C programs of tests/csrc around it, built plainly and under the sanitizers."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "csrc" / "core"
SUPPRESSED = Path(__file__).parent / "tsan.txt"

#: how it is built -> flags; the options of its run
BUILDS = {
    "plain": (["-O2"], {}),
    "address and undefined": (
        ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        {"ASAN_OPTIONS": "detect_leaks=0:exitcode=66", "UBSAN_OPTIONS": "print_stacktrace=1"},
    ),
    # -Wno-tsan: two fences, which it does not understand, stand beside atomics that it does
    "thread": (
        ["-O1", "-g", "-fsanitize=thread", "-Wno-tsan"],
        {"TSAN_OPTIONS": f"suppressions={SUPPRESSED}:exitcode=66"},
    ),
}
COMMON = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Wno-cast-function-type",
    "-fno-strict-aliasing",
    f"-I{CORE}",
]

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the core, and the programs around it, in one of the ways, once; returns the folder."""
    # shared by the workers of pytest-xdist: the first that needs a build makes it
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "core-builds"
    folder.mkdir(exist_ok=True)
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("needs gcc")

    def build(way: str) -> Path:
        flags = [*COMMON, *BUILDS[way][0]]
        place = folder / way.replace(" ", "-")
        place.mkdir(exist_ok=True)
        with (place / "built").open("a+") as built:
            fcntl.flock(built, fcntl.LOCK_EX)
            if not built.tell():
                core = [*flags, "-shared", "-fPIC", "-fvisibility=hidden", "-DPT_BUILDING_CORE"]
                compile_([compiler, *core, *map(str, sorted(CORE.rglob("*.c")))], place / "libpyio_trace.so")
                rest = [f"-L{place}", f"-Wl,-rpath,{place}", "-lpyio_trace"]
                for program in ("driver", "forger"):
                    compile_([compiler, *flags, "-fPIC", str(ROOT / f"tests/csrc/{program}.c"), *rest], place / program)
                built.write("whole")
        return place

    return build


def compile_(words: list[str], out: Path) -> None:
    told = subprocess.run([*words, "-o", str(out), "-ldl", "-lpthread"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
