"""`python -m benchmarks --against PYTHON`: compares this installation with another one in one run.

PYTHON is an interpreter that has another build of pyio_trace installed, such as
the last release.  Both measure each row, lap after lap, and take turns at going
first: a machine that slows down then slows both.

Where the pages of a library lie in memory changes the cost of a call: two
copies of one build added 11 and 45 ns to f.read(16).  So each lap first copies
the libraries of its installation, which places them anew.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measure import SCALES, Results
from benchmarks.page import table

_ROOT = Path(__file__).resolve().parents[1]
HEAD = ("work", "log on", "other adds", "middle half", "this adds", "middle half", "this - other", "verdict")

#: (work, log on, unit) -> seconds added, of each round of each lap.
Added = dict[tuple[str, str, str], list[float]]


def as_json(results: Results) -> str:
    """The output of one lap, which compare() reads."""
    pairs = [[pair.work, pair.where, pair.unit, pair.added] for pair in results.pairs]
    return json.dumps({"pairs": pairs, "problems": results.problems})


def compare(rows: Iterable[str], other: str, laps: int, folder: Path | None) -> tuple[list[str], list[str]]:
    """Measures rows with both interpreters; returns the lines of a table, and problems."""
    found: dict[str, Added] = {other: defaultdict(list), sys.executable: defaultdict(list)}
    problems: list[str] = []
    for lap in range(laps):
        for row in rows:
            turn = [other, sys.executable] if lap % 2 == 0 else [sys.executable, other]
            for python in turn:
                print(f"lap {lap + 1} of {laps}, {row}: {python}", file=sys.stderr, flush=True)
                problems += _lap(python, row, folder, found[python])
    lines = [_line(key, found[other].get(key, []), added) for key, added in found[sys.executable].items()]
    return table(HEAD, lines), problems


def _place_anew(python: str) -> None:
    """Replaces each library of an installation by a copy of itself."""
    code = "import os, pyio_trace; print(os.path.dirname(pyio_trace.__file__))"
    folder = subprocess.run([python, "-I", "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for library in Path(folder).rglob("*.so"):
        copy = library.with_suffix(".copy")
        shutil.copy2(library, copy)
        os.replace(copy, library)


def _lap(python: str, row: str, folder: Path | None, into: Added) -> list[str]:
    _place_anew(python)
    words = [python, "-m", "benchmarks", "--json", row, *(["--folder", str(folder)] if folder else [])]
    done = subprocess.run(words, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return [f"{row}: {python} ended with status {done.returncode}"]
    for work, where, unit, added in answer["pairs"]:
        into[work, where, unit] += added
    return [f"{problem} ({python})" for problem in answer["problems"]]


def _line(key: tuple[str, str, str], other: list[float], this: list[float]) -> tuple[str, ...]:
    work, where, unit = key
    if len(other) < 2 or len(this) < 2:
        return work, where, "", "", "", "", "", "not measured by both"

    def text(seconds: float) -> str:
        return f"{seconds / SCALES[unit]:+.1f}"

    (other_low, _, other_high), (low, _, high) = statistics.quantiles(other, n=4), statistics.quantiles(this, n=4)
    difference = statistics.median(this) - statistics.median(other)
    # Where the middle halves overlap, rounds of a single build differ by as much.
    verdict = "dearer" if low > other_high else "cheaper" if high < other_low else "the same"
    return (
        work,
        where,
        f"{text(statistics.median(other))} {unit}",
        f"{text(other_low)} to {text(other_high)}",
        f"{text(statistics.median(this))} {unit}",
        f"{text(low)} to {text(high)}",
        f"{text(difference)} {unit}",
        verdict,
    )
