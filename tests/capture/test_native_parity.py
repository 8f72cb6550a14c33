"""What Python and C both spell out about the extension module: the stub's keywords, and the numbers of enums."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pyio_trace.capture.instrumentation import import_hooks, instrument, instrument_registry

ROOT = Path(__file__).parents[2]
STUB = ast.parse((ROOT / "pyio_trace" / "native" / "_capture.pyi").read_text())
EXT = ROOT / "csrc" / "ext"


def keywords(source: str) -> list[str]:
    """What a C function gives to PyArg_ParseTupleAndKeywords: the names in its `words`."""
    (words,) = re.findall(r"static char \*words\[\] = \{(.*?),\s*NULL\}", (EXT / source).read_text(), re.DOTALL)
    return [word for word in re.findall(r'"(\w*)"', words) if word]


def members(enum: str) -> dict[str, int]:
    """The members of an enum in watch/target.h, which counts from 0."""
    text = re.sub(r"/\*.*?\*/", "", (EXT / "watch" / "target.h").read_text(), flags=re.DOTALL)
    (body,) = re.findall(rf"enum {enum} \{{(.*?)\}}", text, re.DOTALL)
    return {name: number for number, name in enumerate(re.findall(r"\w+", body))}


def test_start_takes_the_options_of_the_stub() -> None:
    # GIVEN the options that the stub declares
    (options,) = (node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == "StartOptions")
    declared = [
        node.target.id for node in options.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    # THEN start() and prepare() parse these, and no others
    assert sorted(declared) == sorted(keywords("module/control.c"))


def test_watch_takes_the_keywords_of_the_stub() -> None:
    # GIVEN the keywords that the stub declares
    (watch,) = (node for node in STUB.body if isinstance(node, ast.FunctionDef) and node.name == "watch")
    # THEN watch() parses these, and no others
    assert sorted(argument.arg for argument in watch.args.kwonlyargs) == sorted(keywords("watch/watch.c"))


def test_roles_have_the_numbers_of_the_enum() -> None:
    # GIVEN the enum that C reads a role as
    roles = members("pt_role")
    # THEN Python's constants are its members
    assert roles["PT_ROLE_STARTS_THREAD"] == instrument_registry._STARTS
    assert roles["PT_ROLE_RUNS_HANDLE"] == instrument_registry._STEPS
    assert roles["PT_ROLE_SCHEDULES"] == instrument_registry._SUBMITS
    assert roles["PT_ROLE_MARKER"] == instrument.MARKS
    assert roles["PT_ROLE_IMPORTS"] == import_hooks._IMPORTS
    assert roles["PT_ROLE_LOADS"] == import_hooks._LOADS


def test_sources_of_bytes_have_the_numbers_of_the_enum() -> None:
    # GIVEN the enum of sources WHEN Python's words stand in their order, and a callable after them
    words = [*instrument.MOVED, "callback"]
    # THEN they are its members
    names = {None: "NONE", "result": "RESULT", "len": "LENGTH", "nbytes": "NBYTES", "callback": "CALLBACK"}
    assert [f"PT_BYTES_{names[word]}" for word in words] == list(members("pt_bytes_source"))


def test_kinds_have_the_order_of_the_table() -> None:
    # GIVEN C's table of operations by kind
    (table,) = re.findall(r"op_of_kind\[\] = \{(.*?)\}", (EXT / "watch" / "watch.c").read_text(), re.DOTALL)
    # THEN it has one for each of Python's kinds, in their order
    names = {
        "call": "APP", "read": "APP_READ", "write": "APP_WRITE", "hdf5": "HDF5", "mpiio": "MPIIO", "wait": "APP_WAIT",
        "container": "APP_CONTAINER", "starting": "APP_STARTING",
    }  # fmt: skip
    assert [f"PT_OP_SPAN_{names[kind]}" for kind in instrument.KINDS] == re.findall(r"\w+", table)
