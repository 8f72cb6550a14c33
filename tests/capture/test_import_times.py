"""Time in imports, and when the script began, against what the program measured itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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


def test_tracing_that_starts_in_the_script_has_no_mark(program: Runner) -> None:
    # GIVEN a program that traces a part of itself
    text = """\
import pyio_trace
with pyio_trace.trace("part.pyio"):
    import colorsys
"""
    # WHEN it runs
    succeeded(program.bare(text))
    # THEN its import is counted, and its beginning is not known
    [own] = Outcome(0, "", "", program.folder / "part.pyio").processes
    assert (own["imports"], own["script_begin"]) == (1, None)


@pytest.mark.parametrize("change", ["del sys.modules['__main__']", "sys.modules['__main__'] = 5"])
def test_a_script_that_is_no_module_any_more(program: Runner, change: str) -> None:
    # GIVEN a program that has taken itself out of sys.modules WHEN it traces a part of itself THEN it does
    text = f"""\
import sys
import pyio_trace
{change}
with pyio_trace.trace("part.pyio"):
    import colorsys
"""
    succeeded(program.bare(text))
    [own] = Outcome(0, "", "", program.folder / "part.pyio").processes
    assert own["imports"] == 1
