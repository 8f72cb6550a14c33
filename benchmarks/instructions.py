"""`tox -e hot`: how many instructions tracing adds to an operation, against the table in hot.toml.

Times need a quiet machine; instruction counts do not. Valgrind's callgrind runs one process, which does each kind of
work bare, traced and profiled. It does the work n times, then 2n times: the difference is what n operations take,
without set-up. Instructions inside the kernel are not counted.

Another compiler or Python makes other code. The table names the ones that it was made with. With others, the figures
are printed, but not compared.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pyio_trace
from benchmarks.hot import c_library, loop_lines, loop_open, loop_os_pread, loop_read_16, loop_stat

TABLE = Path(__file__).with_name("hot.toml")
#: Shares by which a figure may differ from the table.
TOLERANCE = 0.03
#: Always the same path: names are hashed, and longer ones take longer.
FOLDER = Path("/tmp/pyio-trace-hot")
SMALL = tuple(f"small{number}.bin" for number in range(20))
MODES = ("bare", "trace", "profile")
#: Operations of a round, rounds, and those before the first.
COUNT, ROUNDS, WARM = 500, 3, 200

Work = Callable[[int], object]


def works(library: ctypes.PyDLL, fd: int) -> dict[str, Work]:
    """By name: functions that do something n times."""
    return {
        "os.pread": lambda n: loop_os_pread(fd, n),
        "C pread": lambda n: library.loop_pread(fd, n),
        "open/read/close": lambda n: for_each(loop_open, n),
        "os.stat": lambda n: for_each(loop_stat, n),
        "f.read(16)": lambda n: loop_read_16("data.bin", n),
        "text line": lambda n: loop_lines("lines.txt", n),
    }


def for_each(loop: Callable[[str, int], None], n: int) -> None:
    """Uses several files, as the cost of finding one in a hash table depends on its inode."""
    for name in SMALL:
        loop(name, n // len(SMALL))


def work() -> None:
    """What is counted.  For a process under callgrind, in FOLDER."""
    gc.disable()
    library = ctypes.PyDLL("./loops.so")
    library.loop_pread.argtypes = (ctypes.c_int, ctypes.c_long)
    fd = os.open("data.bin", os.O_RDONLY)
    loops = works(library, fd).values()
    for mode in MODES:
        with nullcontext() if mode == "bare" else pyio_trace.trace(f"{mode}.pyio", mode=mode):
            for loop in loops:
                loop(WARM)
                for _ in range(ROUNDS):
                    for times in (1, 2):
                        library.mark()
                        loop(times * COUNT)
                library.mark()


def counted() -> dict[str, dict[str, int]]:
    """Instructions that tracing adds to an operation, by kind of work and mode."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o700)
    try:
        c_library(FOLDER)
        (FOLDER / "data.bin").write_bytes(bytes(1 << 16))
        for name in SMALL:
            (FOLDER / name).write_bytes(bytes(4096))
        (FOLDER / "lines.txt").write_text("a line of a text of plain words\n" * 4096)
        code = "import sys; sys.path.append(sys.argv[1]); from benchmarks.instructions import work; work()"
        callgrind = ["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=counts"]
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        words = [*callgrind, sys.executable, "-P", "-c", code, str(Path(__file__).parents[1])]
        subprocess.run(words, cwd=FOLDER, env=environment, check=True)
        totals = _totals()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    names = list(works(ctypes.pythonapi, 0))
    each: dict[str, dict[str, int]] = {}
    for mode in MODES:
        for name in names:
            # The first dump has what came before the first mark of this work.
            mine, totals = totals[: 2 * ROUNDS + 1], totals[2 * ROUNDS + 1 :]
            once, twice = min(mine[1::2]), min(mine[2::2])
            each.setdefault(name, {})[mode] = round((twice - once) / COUNT)
    return {name: {mode: one[mode] - one["bare"] for mode in MODES[1:]} for name, one in each.items()}


def _totals() -> list[int]:
    """The instructions in each dump but the last, which is of the process's end, in order."""
    dumps = sorted(FOLDER.glob("counts.[0-9]*"), key=lambda path: int(path.suffix[1:]))
    return [int(re.search(r"^(?:totals|summary): (\d+)", one.read_text(), re.M)[1]) for one in dumps]  # type: ignore[index]


def made_with() -> str:
    """What the counts depend on besides the code."""
    compiler = subprocess.run(
        [os.environ.get("CC", "cc"), "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return f"{platform.machine()}, CPython {platform.python_version()}, cc {compiler}, {' '.join(platform.libc_ver())}"


def compare(found: dict[str, dict[str, int]], table: dict[str, dict[str, int]]) -> list[str]:
    """One line for each figure that differs from the table by more than the tolerance, or that one of them lacks."""
    different = []
    for name in {**table, **found}:
        for mode in MODES[1:]:
            was, now = table.get(name, {}).get(mode), found.get(name, {}).get(mode)
            if was is None or now is None:
                different.append(f"{name}, {mode}: {was} in the table, {now} found")
            elif abs(now - was) > TOLERANCE * was:
                different.append(f"{name}, {mode}: {was} -> {now}, {(now - was) / was:+.1%}")
    return different


def text_of(found: dict[str, dict[str, int]]) -> str:
    """The table."""
    lines = [
        "# Instructions that tracing adds to an operation: `tox -e hot`, benchmarks/instructions.py.",
        f'made_with = "{made_with()}"',
        "",
        "[added]",
        *(f'"{name}" = {{ trace = {one["trace"]}, profile = {one["profile"]} }}' for name, one in found.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Returns the exit status: 1 if a figure differs from the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists():
        print("valgrind is missing: apt install valgrind", file=sys.stderr)
        return 2
    found = counted()
    print(text_of(found), end="")
    if arguments.write:
        TABLE.write_text(text_of(found))
        return 0
    table = tomllib.loads(TABLE.read_text())
    if table["made_with"] != made_with():
        print(f"not compared: the table is of {table['made_with']}")
        return 0
    different = compare(found, table["added"])
    for line in different:
        print(f"hot: {line}", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
