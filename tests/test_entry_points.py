"""Entry points are read from regular files of a bounded size, whatever else is on the path."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace import entry_points
from tests.support.programs import Runner, succeeded

GROUP = "pyio_trace.instruments"
POINTS = f"[other]\nx = y\n[{GROUP}]\nlibrary = package.module [extra]\n# z = z\nodd name = a : b.c\n[more]\nn = m\n"


def distribution(folder: Path, name: str = "x-1.0.dist-info", text: str = POINTS) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "entry_points.txt").write_text(text)
    return folder / name / "entry_points.txt"


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(POINTS.encode())
        file.truncate(10 << 30)


#: What stands where an entry_points.txt should.
WRONG: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo, "endless": make_endless, "10 GiB": make_huge, "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path), "a terminal": lambda path: path.symlink_to("/dev/tty"),
}  # fmt: skip


def test_what_is_read_of_a_folder(tmp_path: Path) -> None:
    # GIVEN two distributions with entries of the group, one of which is in both WHEN they are read
    distribution(tmp_path / "a")
    distribution(tmp_path / "b", "y.egg-info", f"[{GROUP}]\nlibrary = another\nsecond = place:name\n")
    found = entry_points.of_group(GROUP, [str(tmp_path / "a"), str(tmp_path / "missing"), str(tmp_path / "b")])
    # THEN the first on the path counts
    assert found == {"library": "package.module", "odd name": "a:b.c", "second": "place:name"}
    assert entry_points.is_dotted("a:b.c") and not entry_points.is_dotted("a b")


@pytest.mark.parametrize("name", ["EGG-INFO", "x-1.0.dist-info"])
def test_what_is_read_of_an_archive(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.egg", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/entry_points.txt", POINTS)
        archive.writestr("bomb-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nbomb = bomb\n" + " " * (8 << 20))
    assert set(entry_points.of_group(GROUP, [str(tmp_path / "x.egg")])) == {"library", "odd name"}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_read(tmp_path: Path, what: str) -> None:
    # GIVEN something that is no regular file of a bounded size, beside a distribution WHEN both are read
    path = distribution(tmp_path, "bad.dist-info")
    path.unlink()
    WRONG[what](path)
    distribution(tmp_path)
    # THEN the one is
    assert set(entry_points.of_group(GROUP, [str(tmp_path)])) == {"library", "odd name"}
    # AND an archive is no FIFO either
    os.mkfifo(tmp_path / "x.zip")
    assert entry_points.of_group(GROUP, [str(tmp_path / "x.zip")]) == {}


def test_a_traced_program_and_its_summary(program: Runner) -> None:
    # GIVEN a folder on the path with all of these, and one distribution that names both groups
    site = program.folder / "site"
    for number, make in enumerate(WRONG.values()):
        path = distribution(site, f"bad{number}.dist-info")
        path.unlink()
        make(path)
    distribution(site, text=f"[{GROUP}]\nlibrary = for_library\n[pyio_trace.insights]\nmine = theirs:RULE\n")
    (site / "theirs.py").write_text(
        "from pyio_trace.insights.rule import Rule\ndef find(run, limits): return iter(())\nRULE = Rule('x', find)\n"
    )
    env: dict[str, str | None] = {"PYTHONPATH": str(site)}
    # WHEN a program is traced THEN it ends, and its instruments are found
    text = """
    from pyio_trace.capture.instrumentation import instrument_registry
    print("library" in instrument_registry.names())
    """
    outcome = succeeded(program.traced(text, env=env))
    assert outcome.stdout == "True\n"
    # AND so does a command, with its rule
    words = [sys.executable, "-P", "-m", "pyio_trace", "insights", outcome.path, "--rule", "mine"]
    assert succeeded(program.command(words, env)).stdout == "No findings.\n"
