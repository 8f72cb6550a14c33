"""How a traced run is held against untraced ones (tests/support/programs.py)."""

from __future__ import annotations

import pytest

from tests.support.programs import Runner, alike

pytestmark = pytest.mark.once

#: Prints how many runs there were before it.
COUNTS = """\
from pathlib import Path
runs = Path("runs")
print(len(runs.read_text()) if runs.exists() else 0)
with runs.open("a") as file: file.write("x")
"""


def test_a_traced_run_may_do_what_a_later_untraced_one_does(program: Runner) -> None:
    # GIVEN a program that says something else in each run WHEN the first untraced one differs THEN more are made
    bare = program.bare(COUNTS)
    traced = program.traced(COUNTS)
    (program.folder / "runs").unlink()
    assert traced.stdout == "1\n" and alike(traced, bare) is traced


def test_what_no_untraced_run_does_is_a_difference(program: Runner) -> None:
    traced = program.traced("import os\nprint(os.environ.get('PYIO_TRACE_QUIET'))\n")
    with pytest.raises(AssertionError):
        alike(traced, program.bare("import os\nprint(os.environ.get('PYIO_TRACE_QUIET'))\n"))
