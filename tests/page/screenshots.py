"""Makes the screenshots of the manual from real runs: docs/assets/report-*.png.

    tox -e pictures        or: python -m tests.page.screenshots

Needs Chromium, h5py and numpy.  Nothing compares the outcome: the figures of a run are those of the machine.  Look at
them, and commit them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.browser import browser

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
CASE = "no_chunking"


def main() -> None:
    """Traces a case, makes its report, and photographs it."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{CASE}.py"
        for name in (script.name, "case.py"):
            (Path(folder) / name).write_text((ROOT / "examples" / "cases" / name).read_text())
        traced = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.parquet", script.name]
        subprocess.run(traced, cwd=folder, check=True)
        subprocess.run([sys.executable, "-m", "pyio_trace", "report", "run.parquet"], cwd=folder, check=True)
        for name, dark in (("light", False), ("dark", True)):
            with browser(Path(folder)) as tab:
                tab.open(Path(folder) / "run.html", width=1280, height=800, dark=dark)
                tab.until("document.querySelector('canvas.lanes') !== null")
                tab.frame()
                tab.screenshot(ASSETS / f"report-{name}.png")


if __name__ == "__main__":
    main()
