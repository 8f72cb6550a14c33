"""python -m benchmarks.sampled_lines [PROGRAM...]: the time of a line, by samples and by the program itself.

Each program of benchmarks/sampled_programs measures its main line and prints the seconds, so both figures are of the
same run.  Where the line is short, it takes the time that reading its clock takes off again.  Data is made anew.  A
program whose libraries are missing is not run, and its row says so.

--busy N: beside N processes that compute.  --python PYTHON: an interpreter, with a pyio_trace of its own, that runs the
programs; several may be given.  --times N: runs of each; a row has the one with the median error, and says how many are
off by at most 10 % or 20 ms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyio_trace
from benchmarks.lives import clean_environment
from benchmarks.sampled_data import make
from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_line_time import ByLineTime

PROGRAMS = Path(__file__).resolve().with_name("sampled_programs")
MARK = "# the main line"
#: The error that is allowed: a share of the truth, or seconds.
SHARE, SECONDS = 0.10, 0.020
BUSY = "while True: pass"


class Found(NamedTuple):
    """Seconds at the main line: as the program measured them, and as the log says."""

    truth: float
    logged: float

    @property
    def error(self) -> float:
        return self.logged - self.truth

    @property
    def right(self) -> bool:
        return abs(self.error) <= max(SHARE * self.truth, SECONDS)


def programs() -> dict[str, Path]:
    return {path.stem: path for path in sorted(PROGRAMS.glob("*.py"))}


def measure(python: str, program: Path, folder: Path) -> Found | str:
    """What one run finds; or, if it did not run, why."""
    log = folder / "run.parquet"
    words = [python, "-m", "pyio_trace", "-q", "-o", str(log), str(program)]
    done = subprocess.run(words, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    (found,) = scan(pyio_trace.open(log), [ByLineTime(top=1 << 20)])
    line = f"{program}:{_marked(program)}:"
    logged = sum(row.time_ns - row.aside_ns for row in found.rows if row.line.startswith(line))
    return Found(float(done.stdout.splitlines()[-1]), logged / 1e9)


def _marked(program: Path) -> int:
    return next(number for number, text in enumerate(program.read_text().splitlines(), 1) if MARK in text)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that compute meanwhile."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", BUSY], env={}) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def row(name: str, version: str, found: Sequence[Found | str]) -> str:
    measured = sorted((one for one in found if isinstance(one, Found)), key=lambda one: one.error)
    if not measured:
        return f"| {name} | {version} | - | - | - | not run: {found[0]} |"
    one = measured[len(measured) // 2]
    right = sum(other.right for other in measured)
    said = f"{right} of {len(measured)}"
    error = f"{one.error:+.3f} ({one.error / one.truth:+.0%})"
    return f"| {name} | {version} | {one.truth:.3f} | {one.logged:.3f} | {error} | {said} |"


def main() -> int:
    known = programs()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampled_lines")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of: {' '.join(known)}")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="processes that compute meanwhile")
    parser.add_argument("--python", action="append", metavar="PYTHON", help="runs the programs")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.programs) - set(known):
        parser.error(f"no such program: {' '.join(sorted(unknown))}")
    print("| program | Python | truth s | log s | error | runs within 10 % or 20 ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="pyio-sampled-") as name, busy(options.busy):
        make(Path(name))
        for python in options.python or [sys.executable]:
            show = "import platform; print(platform.python_version())"
            version = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
            for program in options.programs or known:
                found = [measure(python, known[program], Path(name)) for _ in range(options.times)]
                print(row(program, version, found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
