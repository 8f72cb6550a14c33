"""Makes the screenshots of the manual from real runs: docs/assets/report-*.png, and docs/assets/case-*.png of cases.

    tox -e pictures [NAME ...]        or: python -m tests.page.screenshots [NAME ...]

NAME: a case, such as stat_storm; default: all of them, and the report.  Needs Chromium and what the cases need (h5py,
numpy, torch, dask, pandas); a case whose libraries are missing is left out, and told.  Nothing compares the outcome:
the figures of a run are those of the machine.  Look at them, and commit them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyio_trace.cli.main import main as command
from tests.support.browser import Browser, browser

ROOT = Path(__file__).resolve().parents[2]
ASSETS, CASES = ROOT / "docs" / "assets", ROOT / "examples" / "cases"
#: The cases that have a picture in docs/cases.
SHOWN = ("stat_storm", "unaligned", "no_chunking", "starved_trainer", "checkpoint_stall", "duplicate_reads")
REPORT = "no_chunking"


def main() -> None:
    """Traces the cases, makes their reports, and photographs them."""
    wanted = sys.argv[1:] or [*SHOWN, "report"]
    for name in SHOWN:
        if name in wanted and not _photograph(name, {f"case-{name.replace('_', '-')}": False}):
            print(f"{name}: it needs a library that is not here", file=sys.stderr)
    if "report" in wanted:
        _photograph(REPORT, {"report-light": False, "report-dark": True})


def _photograph(case: str, pictures: dict[str, bool]) -> bool:
    """pictures: name -> whether it is dark.  Returns whether the case runs here."""
    # In /tmp, the data of a case would be temporary files, which findings leave alone.
    with tempfile.TemporaryDirectory(prefix="pictures-", dir=ROOT) as text:
        folder = Path(text)
        for name in (f"{case}.py", "case.py"):
            (folder / name).write_text((CASES / name).read_text())
        made = [] if "def make(" not in (CASES / f"{case}.py").read_text() else [["--make"]]
        for options in made:
            if subprocess.run([sys.executable, f"{case}.py", *options], cwd=folder, check=False).returncode:
                return False
        traced = [sys.executable, "-m", "pyio_trace", "-q", "-o", "run.parquet", f"{case}.py"]
        if subprocess.run(traced, cwd=folder, check=False).returncode:
            return False
        command(["report", str(folder / "run.parquet")])
        for name, dark in pictures.items():
            with _page(folder, dark) as tab:
                tab.screenshot(ASSETS / f"{name}.png")
                _shrink(ASSETS / f"{name}.png")
    return True


@contextmanager
def _page(folder: Path, dark: bool) -> Iterator[Browser]:
    with browser(folder) as tab:
        tab.open(folder / "run.html", width=1280, height=800, dark=dark)
        tab.until("document.querySelector('canvas.lanes') !== null")
        tab.frame()
        yield tab


def _shrink(file: Path) -> None:
    """The picture with a palette, which halves the file; rare colours stay, as those of a legend."""
    from PIL import Image

    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    data = io.BytesIO()
    small.save(data, "PNG", optimize=True)
    file.write_bytes(data.getvalue())


if __name__ == "__main__":
    main()
