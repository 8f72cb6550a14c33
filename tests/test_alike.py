"""How a traced run is held against untraced ones (tests/support/programs.py)."""

from __future__ import annotations

import pytest

from tests.support.programs import Runner, alike, without_late_notices

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


#: Two semaphores that the tracker is never told to forget.  argv: which the program unlinks itself.
SEMAPHORES = """\
import multiprocessing.resource_tracker as tracker, sys
from _multiprocessing import sem_unlink, SemLock
for name in ("/mp-one", "/mp-two"):
    SemLock(1, 1, 1, name, False)
    tracker.register(name, "semaphore")
for name in sys.argv[1:]:
    sem_unlink(name)
"""


@pytest.mark.parametrize("unlinked", [("/mp-one", "/mp-two"), ("/mp-one",), ()])
def test_only_semaphores_that_are_gone_go_unmentioned(program: Runner, unlinked: tuple[str, ...]) -> None:
    # GIVEN a program that leaves all of its semaphores to the tracker, but for those that it has unlinked
    outcome = program.bare(SEMAPHORES, *unlinked)
    assert "2 leaked semaphore" in outcome.stderr and outcome.stderr.count("[Errno 2]") == len(unlinked)
    # THEN the warning counts as said only if one was really left
    assert outcome.visible[2] == ("" if len(unlinked) == 2 else outcome.stderr)
    # AND what stands around it stays
    around = without_late_notices(f"before\n{outcome.stderr}after\n")
    assert around == f"before\n{outcome.visible[2]}after\n"
