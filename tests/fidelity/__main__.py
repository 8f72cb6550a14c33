"""`python -m tests.fidelity [NAME...] [--write]`: run programs under strace and under us, and show the table.

--write: into docs/evidence/fidelity.md, with every program; takes some ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fidelity import harness, page
from tests.fidelity.programs import PROGRAMS


def main() -> int:
    """The command; its status is 1 if anything is unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--write", action="store_true", help="write docs/evidence/fidelity.md")
    parser.add_argument("--keep", type=Path, help="keep strace's output and the logs in this folder")
    options = parser.parse_args()
    runs: dict[str, harness.Run] = {}
    skipped: dict[str, list[str]] = {}
    for program in [PROGRAMS[name] for name in options.names or PROGRAMS]:
        if needed := harness.missing_needs(program):
            skipped[program.name] = needed
            continue
        with tempfile.TemporaryDirectory(prefix="pyio-fidelity-") as folder:
            at = options.keep / program.name if options.keep else Path(folder)
            run = runs[program.name] = harness.run(program, at)
        result = run.result
        print(f"{program.name}: status {run.status}, strace {result.strace}, found {result.found}, "
              f"unexplained {len(result.unexplained)}", flush=True)  # fmt: skip
        for line in result.unexplained[:20]:
            print(f"    {line[:400]}", flush=True)
    text = page.text(runs, skipped)
    if options.write:
        page.PATH.write_text(text)
    elif len(options.names) != 1:
        print(text)
    else:
        print(page.reasons(runs))
    return 1 if any(run.result.unexplained for run in runs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
