"""What the import machinery does for a program that calls it is the program's I/O; what an import does is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.analysis.tables.sums_tables import by_file
from tests.support.programs import Outcome, Row, Runner, succeeded

#: A package with data, a distribution, and modules to compile.
MADE = """
import os, sys
sys.path.insert(0, os.getcwd())
def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file: file.write(text)
"""
FILES = """
write("pack/__init__.py", "A = 1\\n" * 10)
write("pack/data.txt", "d" * 1000)
write("dist-1.0.dist-info/METADATA", "Name: dist\\nVersion: 1.0\\n" + "#" * 2000)
write("tree/one.py", "X = 1\\n" * 500)
write("tree/two.py", "Y = 1\\n" * 400)
write("plain.py", "Z = 1\\n" * 300)
"""


Test = Callable[[str], bool]


def calls(outcome: Outcome, op: str, of: Path | Test, imported: bool) -> list[Row]:
    """POSIX calls on files, of imports or of the program."""
    rows = outcome.log.operations(["op", "layer", "path", "bytes_moved", "detail", "imported"]).to_pylist()
    chosen = of if callable(of) else str(of).__eq__
    rows = [row for row in rows if row["layer"] == "posix" and row["op"] == op and row["imported"] == imported]
    return [row for row in rows if row["path"] and chosen(row["path"])]


def moved(outcome: Outcome, op: str, path: Path) -> int:
    """Bytes that the program moved."""
    return sum(row["bytes_moved"] or 0 for row in calls(outcome, op, path, False))


@pytest.mark.parametrize("include", ["", "imports"])
def test_byte_compiling(program: Runner, tmp_path: Path, include: str) -> None:
    # GIVEN modules that are compiled in every way
    text = f"""{MADE}{FILES}
import compileall, py_compile
assert compileall.compile_dir("tree", quiet=1)
py_compile.compile("plain.py", cfile="plain.pyc", doraise=True)
"""
    # WHEN it is traced THEN reading the sources and writing the results is the program's
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": include}))
    compiled = sorted((tmp_path / "tree" / "__pycache__").iterdir())
    assert len(compiled) == 2
    for path in (*compiled, tmp_path / "plain.pyc"):
        [renamed] = outcome.select(op="rename", detail=lambda text, to=path: text and str(to) in text)
        written = moved(outcome, "write", path) + moved(outcome, "write", renamed["path"])
        assert written == path.stat().st_size
    assert moved(outcome, "read", tmp_path / "plain.py") == 1800
    assert moved(outcome, "read", tmp_path / "tree" / "one.py") >= 3000
    read = {row["path"]: row["read"] for row in by_file(outcome.log).to_pylist()}
    assert read[str(tmp_path / "plain.py")] == 1800 and read[str(tmp_path / "tree/two.py")] == 2400


@pytest.mark.parametrize("include", ["", "imports"])
def test_loaders_and_resources(program: Runner, tmp_path: Path, include: str) -> None:
    # GIVEN a program that calls loaders, and asks for the data of packages
    text = f"""{MADE}{FILES}
import importlib.metadata, importlib.resources, pkgutil
from importlib.machinery import SourceFileLoader
loader = SourceFileLoader("one", "tree/one.py")
loader.set_data("set.bin", b"s" * 99)
assert len(loader.get_source("one")) == 3000
assert len(SourceFileLoader("two", "tree/two.py").get_data("tree/two.py")) == 2400
assert len(pkgutil.get_data("pack", "data.txt")) == 1000
assert len(importlib.resources.files("pack").joinpath("data.txt").read_text()) == 1000
assert importlib.metadata.version("dist") == "1.0"
"""
    # WHEN it is traced THEN that is the program's
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": include}))
    [written] = calls(outcome, "write", lambda path: "/set.bin" in path, False)
    assert written["bytes_moved"] == 99
    assert moved(outcome, "read", tmp_path / "tree/one.py") == 3000
    assert moved(outcome, "read", tmp_path / "tree/two.py") == 2400
    assert moved(outcome, "read", tmp_path / "pack/data.txt") == 2000
    metadata = tmp_path / "dist-1.0.dist-info" / "METADATA"
    times, rest = divmod(moved(outcome, "read", metadata), metadata.stat().st_size)
    assert times in (1, 2) and rest == 0  # 3.15 reads it twice (strace)
    # THEN what importing `pack` took is not
    assert moved(outcome, "read", tmp_path / "pack/__init__.py") == 0
    assert bool(calls(outcome, "read", tmp_path / "pack/__init__.py", True)) == (include == "imports")


def test_imports_stay_imports(program: Runner, tmp_path: Path) -> None:
    # GIVEN modules that are imported, reloaded, looked for and executed, each compiled meanwhile
    text = f"""{MADE}{FILES}
import importlib, importlib.util
import plain
importlib.reload(plain)
importlib.import_module("tree.one")
spec = importlib.util.spec_from_file_location("two", "tree/two.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))
assert importlib.util.find_spec("pack")
"""
    # WHEN they are traced THEN no call on them is the program's, but for those that made them
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_INCLUDE": "imports"}))
    for name in ("plain.py", "tree/one.py", "tree/two.py"):
        assert calls(outcome, "read", tmp_path / name, True) and not calls(outcome, "read", tmp_path / name, False)
    assert len(calls(outcome, "write", lambda path: ".pyc" in path, True)) >= 3
    assert not calls(outcome, "write", lambda path: ".pyc" in path, False)
    # THEN by default they have no rows
    again = succeeded(program.traced(text.replace(FILES, ""), log="again.pyio"))
    assert not again.select(layer="posix", path=lambda path: path and path.endswith(("/plain.py", "/one.py")))
