"""python -m benchmarks [ROW...] [--write | --against PYTHON] [--folder DIR]: measures rows, prints the table.

Rows: c-pread os-pread open stat read-16 lines modes watched start-up fork clock floor
size load; all of them by default.  --write measures all rows and rewrites docs/evidence/benchmarks.md.
--against PYTHON also measures that interpreter's pyio_trace, by turns with this one: costs only, not figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import against, hot, lives, logs, page
from benchmarks.gauge import WATCH, gauge
from benchmarks.measure import Figure, Results

LIVES = {"start-up": lives.start_up, "fork": lives.fork}
FIGURES: dict[str, Callable[[Path, dict[str, Path]], list[Figure]]] = {
    "clock": lambda folder, _: hot.clock(folder),
    "floor": hot.floor,
    "size": lambda folder, _: logs.size(folder),
    "load": lambda folder, _: logs.load(folder),
}
ROWS = (*hot.ROWS, *LIVES, *FIGURES)
MEMORY = Path("/dev/shm")


def measure(rows: list[str], folder: Path, memory: Path | None) -> Results:
    """Measures the named rows.  A row that fails becomes a problem in the results, and the others go on."""
    places = {"disk": folder} | ({"/dev/shm": memory} if memory else {})
    results = Results()

    def attempt(row: str, work: Callable[[], None]) -> None:
        print(f"{row} ...", file=sys.stderr, flush=True)
        try:
            work()
        except Exception as problem:
            results.problems.append(f"{row}: {type(problem).__name__}: {problem}")

    for row in rows:
        if row in hot.ROWS:
            attempt(row, lambda: results.pairs.extend(hot.measure(row, folder, places)))  # noqa: B023
        elif row in LIVES:
            attempt(row, lambda: results.pairs.extend(LIVES[row](folder)))  # noqa: B023
        else:
            attempt(row, lambda: results.figures.extend(FIGURES[row](folder, places)))  # noqa: B023
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of: {' '.join(ROWS)}")
    parser.add_argument("--write", action="store_true", help="rewrite docs/evidence/benchmarks.md")
    parser.add_argument("--folder", type=Path, help="where data and logs go: the disk to measure")
    parser.add_argument("--against", metavar="PYTHON", help="an interpreter with another build to compare with")
    parser.add_argument("--laps", type=int, default=3, help="how often --against measures each row; default 3")
    parser.add_argument("--json", action="store_true", help="print the rounds as JSON; --against reads it")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {' '.join(sorted(unknown))}; there are {' '.join(ROWS)}")
    if options.write and options.rows:
        parser.error("--write needs all rows: name none")
    folder = options.folder and options.folder.resolve()
    if options.against:
        rows = [row for row in options.rows or ROWS if row not in FIGURES]
        lines, problems = against.compare(rows, options.against, options.laps, folder)
        print("\n".join([*lines, *problems]))
        return 1 if problems else 0
    described = page.machine()
    gauge.choose(WATCH)
    os.chdir("/")  # no pyproject.toml there configures the run
    with tempfile.TemporaryDirectory(dir=folder, prefix="pyio-benchmark-") as name:
        if MEMORY.is_dir():
            with tempfile.TemporaryDirectory(dir=MEMORY, prefix="pyio-benchmark-") as memory:
                results = measure(options.rows or list(ROWS), Path(name), Path(memory))
        else:
            results = measure(options.rows or list(ROWS), Path(name), None)
    if options.json:
        print(against.as_json(results))
        return 1 if results.problems else 0
    described.append(f"- {gauge.describe()}")
    print("\n".join([*described, "", *page.tables(results)]))
    if options.write:
        page.write(results, described, hot.ROUNDS, lives.ROUNDS)
    return 1 if results.problems else 0


if __name__ == "__main__":
    sys.exit(main())
