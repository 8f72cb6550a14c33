"""Case 1, stat storm: processes that ask for files' times at every step, to learn whether somebody changed them.

Each process of a simulation computes a step, then looks at every control file,
in case it was edited, and reads those that were.  Nobody edits them.  With
--fixed a process looks once in 100 steps.  --processes N makes a scaling series.
"""

import os
import sys
from multiprocessing import get_context
from pathlib import Path

import case

PROCESSES, STEPS, FILES = 2, 600, 150
RARELY = 100  # steps between two looks, with --fixed


def make(folder: Path) -> None:
    for number in range(FILES):
        (folder / f"control{number:03}.txt").write_text(f"relaxation {number}\n" * 20)


def compute(step: int) -> int:
    return sum(range(step, step + 20_000))


def solve(folder: Path, every: int) -> tuple[int, int]:
    """Returns how many stats and how many readings it made."""
    changed: dict[Path, int] = {}
    paths = sorted(folder.glob("control*.txt"))
    stats = readings = 0
    for step in range(STEPS):
        compute(step)
        if step % every:
            continue
        for path in paths:
            modified = os.stat(path).st_mtime_ns
            stats += 1
            if changed.get(path) != modified:
                changed[path] = modified
                path.read_text()
                readings += 1
    return stats, readings


def simulate(folder: Path, every: int) -> case.Did:
    with get_context("fork").Pool(PROCESSES) as pool:
        done = pool.starmap(solve, [(folder, every)] * PROCESSES)
    return {"processes": PROCESSES, "stats": sum(one for one, _ in done), "readings": sum(one for _, one in done)}


if __name__ == "__main__":
    from argparse import ArgumentParser

    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    options, sys.argv[1:] = parser.parse_known_args()
    PROCESSES = options.processes
    case.run("stat_storm", lambda folder: simulate(folder, 1), lambda folder: simulate(folder, RARELY), make)
