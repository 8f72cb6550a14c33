"""python -m benchmarks.predictions [CASE...] [--times N]: what `insights --verify` predicts, and what --fixed saves.

Each repetition traces the case, runs it as it was and with --fixed by turns, and verifies the log.  The table has the
medians (docs/how-to/try-the-remedies.md).  Names of the cases: those of FINDINGS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).parents[1] / "examples" / "cases"
#: Case -> the finding whose remedy can be tried without the program.
FINDINGS = {
    "stat_storm": "stat-storm",
    "small_accesses": "small-accesses",
    "unaligned": "unaligned-accesses",
    "no_chunking": "hdf5-contiguous",
    "hdf5_metadata": "hdf5-flush-per-item",
    "whole_array": "whole-file-again",
    "starved_trainer": "hdf5-reopen-per-item",
}
#: Seconds, and a share of the time: less than this cannot be told from noise.
NOISE = 0.02, 0.05
#: Pairs of untraced runs, as it was and with --fixed, after each trace.
PAIRS = 3


def run(folder: Path, *words: str) -> str:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def once(folder: Path, case: str) -> tuple[float, float, float]:
    """(seconds predicted, saved, and as it was); nothing predicted where the trial saw no difference."""
    program = str(CASES / f"{case}.py")
    if "--make" in run(folder, program, "--help"):
        run(folder, program, "--make")
    run(folder, "-m", "pyio_trace", "-q", "-o", "bad.parquet", program)
    pairs = [[_timed(folder, program, *options) for options in ([], ["--fixed"])] for _ in range(PAIRS)]
    findings = json.loads(run(folder, "-m", "pyio_trace", "insights", "--verify", "--format", "json", "bad.parquet"))
    finding = next(one for one in findings if one["slug"] == FINDINGS[case])
    predicted = finding["recoverable_ns"] / 1e9 if finding["verified"]["outcome"] == "gain" else 0.0
    return predicted, statistics.median(one - other for one, other in pairs), statistics.median(one for one, _ in pairs)


def _timed(folder: Path, *words: str) -> float:
    """Seconds that a program says it took.  Earlier writes are on the disk first, so that they do not slow it."""
    os.sync()
    return float(json.loads(run(folder, *words).splitlines()[-1])["seconds"])


def row(case: str, times: int) -> str:
    with tempfile.TemporaryDirectory(prefix="pyio-predictions-") as folder:
        found = [once(Path(folder), case) for _ in range(times)]
    predicted, saved, before = (statistics.median(values) for values in zip(*found, strict=True))
    if saved < max(NOISE[0], NOISE[1] * before):
        said, right = f"less than the noise ({saved * 1e3:.0f} ms)", "right" if predicted == 0 else "wrong"
    else:
        off = predicted / saved - 1
        said, right = f"{saved * 1e3:,.0f} ms", f"{abs(off):.0%} too {'high' if off > 0 else 'low'}"
    guess = f"{predicted * 1e3:,.0f} ms" if predicted else "no difference"
    return f"| {case} | `{FINDINGS[case]}` | {guess} | {said} of {before * 1e3:,.0f} ms | {right} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predictions")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {' '.join(FINDINGS)}")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    if unknown := set(options.cases) - set(FINDINGS):
        parser.error(f"no such case: {' '.join(sorted(unknown))}")
    print("| case | finding | predicted | saved by --fixed | prediction is |\n| --- | --- | --- | --- | --- |")
    for case in options.cases or FINDINGS:
        print(row(case, options.times), flush=True)


if __name__ == "__main__":
    main()
