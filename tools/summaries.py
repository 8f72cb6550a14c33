"""Writes the summaries that docs/explanation/summaries.md shows, from runs of the programs in examples/.

    python -m tools.summaries [NAME...]

Below each line "<!-- summary: NAME -->" of the page stands what `pyio-trace
summary` prints of a run of that program, and nothing else is changed.  A program that
knows the argument "make" makes its data first, untraced.  Those whose modules
are missing are left as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "summaries.md"
_SHOWN = re.compile(r"(?<=^<!-- summary: )([\w/]+)( -->\n\n```text\n)(.*?)(?=^```$)", re.M | re.S)
_PATIENCE = 300  # seconds, for one program
_MISSING = re.compile(r"^ModuleNotFoundError: (.*)", re.M)


def shown() -> dict[str, str]:
    """Name of each program of the page -> the summary that the page shows."""
    return {name: text for name, _, text in _SHOWN.findall(PAGE.read_text())}


def produced(name: str, folder: Path) -> str:
    """The summary of examples/NAME.py, run in an empty folder.  Raises ImportError if it needs a module that is
    missing, CalledProcessError, TimeoutExpired or RuntimeError if it fails."""
    program = ROOT / "examples" / f"{name}.py"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYIO_TRACE", "PYTHON"))}
    environment |= {"PYTHONIOENCODING": "utf-8", "TMPDIR": str(folder)}
    outputs = []
    makes = '"make" in sys.argv' in program.read_text()
    log = f"{program.stem}.parquet"
    traced, summed = ["-m", "pyio_trace", "-q", "-o", log, str(program)], ["-m", "pyio_trace", "summary", log]
    for words in (*([[str(program), "make"]] if makes else []), traced, summed):
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False,
            timeout=_PATIENCE,
        )  # fmt: skip
        if missing := _MISSING.search(done.stderr):
            raise ImportError(missing[1])
        done.check_returncode()
        outputs.append(done.stdout)
    _, start, summary = outputs[-1].partition("pyio_trace: ")
    if not start:
        raise RuntimeError(f"{name}: no summary:\n{outputs[-1]}")
    return start + summary.replace(f"{folder}/", "")


def main(names: list[str]) -> None:
    text = PAGE.read_text()
    for name in names or shown():
        with tempfile.TemporaryDirectory(prefix="summary-") as folder:
            try:
                summary = produced(name, Path(folder))
            except ImportError as error:
                print(f"{name}: left as it is: {error}", file=sys.stderr)
                continue
        text = _SHOWN.sub(lambda found: found[1] + found[2] + (summary if found[1] == name else found[3]), text)  # noqa: B023
    PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
