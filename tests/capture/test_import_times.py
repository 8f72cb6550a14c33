"""Time in imports, and when the script began, against what the program measured itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from tests.support.programs import Outcome, Row, Runner, succeeded

#: A module that takes a while, and imports another that does.
OUTER = "import time, inner; time.sleep(0.02)\n"
INNER = "import time; time.sleep(0.03)\n"


@pytest.fixture
def modules(program: Runner) -> Path:
    program.write(OUTER, "outer.py")
    program.write(INNER, "inner.py")
    return program.folder


def _own(outcome: Outcome) -> Row:
    return outcome.process(outcome.pid)


def _both(program: Runner, *texts: str) -> list[Outcome]:
    return [succeeded(program.traced(text, log=f"{number}.pyio")) for number, text in enumerate(texts)]


@pytest.mark.usefixtures("modules")
def test_imports_inside_others_count_once(program: Runner) -> None:
    # GIVEN a program that imports a module, which imports another, and then both again
    text = "import outer\nimport outer, inner, sys\n"
    # WHEN it runs traced, and one that imports nothing
    base, outcome = _both(program, "pass", text)
    # THEN it has one import more, with the time that both modules slept
    assert _own(outcome)["imports"] == _own(base)["imports"] + 1
    assert _own(outcome)["import_time"] >= 50_000_000


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]])
def test_imports_before_the_script(program: Runner, words: list[str]) -> None:
    # GIVEN an interpreter that imports a slow module while it starts, and a program that imports another one
    program.write("import inner", "sitecustomize.py")
    program.write("import outer\nopen('file', 'w').close()", "program.py")
    env = {"PYTHONPATH": str(program.folder), "PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio"}
    # WHEN it is traced THEN the first one is early
    outcome = succeeded(program.command([sys.executable, *words], env | {"PYIO_TRACE_QUIET": "1"}))
    own = outcome.processes[0]
    assert 30_000_000 <= own["early_import_time"] <= own["import_time"] - 20_000_000
    # AND starting lasts until the program's own call, with both imports in it once
    opened = min(row["time"] for row in outcome.rows if row["path"] == str(program.folder / "file"))
    overview = summarize(outcome.log).overview
    assert overview is not None
    assert 50_000_000 <= overview.processes[0].split.starting_ns <= opened - own["begin"]


def _packages(outcome: Outcome) -> dict[str, int]:
    own = _own(outcome)
    return dict(zip(own["import_packages"], own["import_package_times"], strict=True))


@pytest.mark.usefixtures("modules")
def test_time_by_package(program: Runner) -> None:
    # GIVEN a module that sleeps and imports another, and a package whose modules import each other
    (program.folder / "package").mkdir()
    program.write("from package import first", "package/__init__.py")
    program.write("import time, package.second, inner; time.sleep(0.01)", "package/first.py")
    program.write("import time; time.sleep(0.02)", "package/second.py")
    # WHEN they are imported
    outcome = succeeded(program.traced("import outer, package\nimport package.second"))
    found, whole = _packages(outcome), _own(outcome)["import_time"]
    # THEN each has its own time, that of its modules added up, and no time is there twice
    assert found["outer"] >= 20_000_000 and found["inner"] >= 30_000_000 and found["package"] >= 30_000_000
    assert sum(found.values()) <= whole and "package.second" not in found
    # THEN the module that both import is paid for once: its time is in neither
    assert found["outer"] <= whole - found["inner"] - found["package"]


def test_names_that_are_not_ascii(program: Runner) -> None:
    # GIVEN a module with an umlaut in its name, and a name that cannot be encoded WHEN both are imported
    program.write("import time; time.sleep(0.01)", "n\u00e4me.py")
    text = (
        "import n\u00e4me\ntry:\n    __import__('\\udc80')\nexcept Exception as error:\n    print(type(error).__name__)"
    )
    bare, outcome = program.bare(text), succeeded(program.traced(text))
    # THEN the first has its time, and the program sees the same error as without us
    assert _packages(outcome)["n\u00e4me"] >= 10_000_000 and outcome.stdout == bare.stdout != ""


def test_a_failed_import_has_its_time(program: Runner) -> None:
    program.write("import time; time.sleep(0.01); import there_is_no_such_module", "broken.py")
    text = "try:\n    import broken\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == "there_is_no_such_module\n" and _packages(outcome)["broken"] >= 10_000_000


def test_imports_nested_deeper_than_is_noted(program: Runner) -> None:
    # GIVEN 50 modules, each of which imports the next one, and the last one sleeps
    for number in range(50):
        program.write(f"import deep{number + 1}", f"deep{number}.py")
    program.write("import time; time.sleep(0.01)", "deep50.py")
    # WHEN they are imported THEN the time is that of the deepest that has a place, and later imports have their own
    program.write("import time; time.sleep(0.02)", "later.py")
    outcome = succeeded(program.traced("import deep0\nimport later"))
    found = _packages(outcome)
    assert found["deep31"] >= 10_000_000 and "deep50" not in found and found["later"] >= 20_000_000


@pytest.mark.usefixtures("modules")
def test_a_fork_in_an_import(program: Runner) -> None:
    # GIVEN a module that forks while it is imported, and sleeps before and after that
    text = (
        "import os, time; time.sleep(0.03)\nchild = os.fork()\ntime.sleep(0.01)\nif not child: os._exit(0)\nos.wait()"
    )
    program.write(text, "forks.py")
    # WHEN it is imported THEN the child has none of its parent's time
    outcome = succeeded(program.traced("import forks"))
    (child,) = [row for row in outcome.log.processes().to_pylist() if row["pid"] != outcome.pid]
    assert _packages(outcome)["forks"] >= 40_000_000 and child["import_packages"] == []


@pytest.mark.usefixtures("modules")
def test_importlib_and_failures_count_too(program: Runner) -> None:
    # GIVEN a program that imports in each other way
    text = """\
import importlib
importlib.import_module("inner")
__import__("outer")
try:
    import missing
except ImportError:
    pass
"""
    # WHEN it runs traced, and one that does not import
    base, outcome = _both(program, "import importlib", text)
    # THEN each is counted
    assert _own(outcome)["imports"] == _own(base)["imports"] + 3


def test_when_the_script_began(program: Runner) -> None:
    # GIVEN a script that says when it began, and imports nothing before it computes
    text = "import time; print(time.time_ns())\n"
    # WHEN it runs
    outcome = succeeded(program.traced(text))
    # THEN the mark is before that, and after tracing began
    own = _own(outcome)
    assert own["begin"] < own["script_begin"] <= int(outcome.stdout)


@pytest.mark.parametrize("words", [["-c", "import time, array; print(time.time_ns())"], ["-m", "said"]])
def test_when_a_module_or_command_began(program: Runner, words: list[str]) -> None:
    # GIVEN a module and a command that import, and say when
    program.write("import time, array\nprint(time.time_ns())\n", "said.py")
    log = program.folder / "run.pyio"
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1"}
    # WHEN they run
    outcome = succeeded(program.command([sys.executable, *words], env=env))
    # THEN their first import is the mark
    own = _own(outcome)
    assert own["begin"] < own["script_begin"] <= int(outcome.stdout)


def test_a_command_that_imports_nothing_has_a_beginning(program: Runner) -> None:
    # GIVEN a command that imports nothing new, sleeps, and forks a child that imports
    text = """\
import os, time
print(time.time_ns(), flush=True)
time.sleep(0.5)
if (child := os.fork()) == 0:
    import colorsys
    os._exit(0)
os.waitpid(child, 0)
print(child)
"""
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    # WHEN it runs
    outcome = succeeded(program.command([sys.executable, "-c", text], env))
    first, child = map(int, outcome.stdout.split())
    # THEN its own code begins before what it says, and its sleep is not a part of its start
    own = outcome.processes[0]
    assert own["begin"] < own["script_begin"] <= first
    overview = summarize(outcome.log).overview
    assert overview is not None
    assert overview.processes[0].split.starting_ns <= own["end"] - own["begin"] - 500_000_000
    # AND the child, which goes on with that code, has no beginning
    assert outcome.process(child)["script_begin"] is None


def test_a_forked_child_goes_on_with_the_script(program: Runner) -> None:
    # GIVEN a script that forks a child, which imports
    text = """\
import os
child = os.fork()
if child == 0:
    import colorsys
    os._exit(0)
os.waitpid(child, 0)
print(child)
"""
    # WHEN it runs
    outcome = succeeded(program.traced(text))
    # THEN the child has its own import, and no script of its own
    child = outcome.process(int(outcome.stdout))
    assert (child["imports"], child["script_begin"]) == (1, None)
    assert child["import_time"] > 0


def test_tracing_that_starts_in_the_script(program: Runner) -> None:
    # GIVEN a program that traces a part of itself, which imports and sleeps
    text = """\
import pyio_trace, time
with pyio_trace.trace("part.pyio"):
    import colorsys
    print(time.time_ns())
    time.sleep(0.2)
"""
    # WHEN it runs
    outcome = succeeded(program.bare(text))
    # THEN its import is counted, and its code runs since tracing began: nothing of the sleep is a start
    part = Outcome(0, "", "", program.folder / "part.pyio")
    [own] = part.processes
    assert own["imports"] == 1 and own["begin"] <= own["script_begin"] <= int(outcome.stdout)
    overview = summarize(part.log).overview
    assert overview is not None
    assert overview.processes[0].split.starting_ns <= own["end"] - own["begin"] - 200_000_000
