"""docs/how-to/add-a-library.md shows the code of examples/third_party, and that code works."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from tests.support.programs import Runner, alike, succeeded

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third_party"
PAGE = (ROOT / "docs" / "how-to" / "add-a-library.md").read_text()


def test_the_page_shows_the_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert code == (EXAMPLE / "pyio_trace_zipfile.py").read_text()
    (table,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert table in (EXAMPLE / "pyproject.toml").read_text()


def test_the_example_works(program: Runner) -> None:
    # GIVEN the example as an installer would leave it
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    distribution = program.folder / "site" / "pyio_trace_zipfile-1.0.dist-info"
    distribution.mkdir(parents=True)
    points = [f"{name} = {where}" for name, where in project["entry-points"]["pyio_trace.instruments"].items()]
    (distribution / "entry_points.txt").write_text("[pyio_trace.instruments]\n" + "\n".join(points) + "\n")
    (program.folder / "site" / "pyio_trace_zipfile.py").write_text((EXAMPLE / "pyio_trace_zipfile.py").read_text())
    # WHEN an archive is made and read
    text = """
    import zipfile
    with zipfile.ZipFile("made.zip", "w") as archive:
        archive.writestr("one", b"1" * 1000)
        archive.write(__file__, "two")
    with zipfile.ZipFile("made.zip") as archive:
        print(len(archive.read("one")), len(archive.read(archive.getinfo("two"))))
        try:
            archive.read("three")
        except KeyError as problem:
            print(problem)
    """
    env: dict[str, str | None] = {"PYTHONPATH": str(program.folder / "site")}
    outcome = succeeded(alike(program.traced(text, env=env), program.bare(text, env=env)))
    # THEN each call on it is a row, with the member and its bytes, and every operation on the file is below one
    made = outcome.path.parent / "made.zip"
    size = len((program.folder / "program.py").read_bytes())
    calls = [row for row in outcome.select(layer="app", path=made) if row["op"].startswith("ZipFile")]
    calls = [row for row in calls if row["op"] != "ZipFile.close"]  # its __del__ closes once more
    told = [(row["op"], json.loads(row["detail"] or "{}").get("member"), row["bytes_moved"]) for row in calls]
    assert told == [
        ("ZipFile", None, None), ("ZipFile.writestr", "one", None), ("ZipFile.write", "two", None),
        ("ZipFile", None, None), ("ZipFile.read", "one", 1000), ("ZipFile.read", "two", size),
        ("ZipFile.read", "three", None),
    ]  # fmt: skip
    beneath = outcome.select(layer="posix", path=made)
    assert {row["op"] for row in beneath} >= {"open", "read", "write", "close"}
    assert all(any(parent["op"].startswith("ZipFile") for parent in outcome.parents(row)) for row in beneath)
    assert json.loads(calls[-1]["detail"]) == {"member": "three", "raised": "KeyError"}
