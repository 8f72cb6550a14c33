"""A module is watched from the end of its import on, whatever imports what first."""

from __future__ import annotations

import pytest

from tests.support.programs import Runner, succeeded

PROGRAM = """
import sys
from pathlib import Path
Path("outer.py").write_text("import inner\\nfor _ in range(int(sys.argv[1])):\\n    raise ValueError\\n"
                            "class Reader: pass\\n".replace("sys", "__import__('sys')"))
Path("inner.py").write_text("")
sys.path.insert(0, ".")
import pyio_trace
from pyio_trace.capture.instrumentation import import_hooks
seen = []
with pyio_trace.trace("part.pyio"):
    import_hooks.watch("inner", lambda module: import_hooks.watch(
        "outer", lambda outer: seen.append(hasattr(outer, "Reader"))))
    try:
        import outer
        kinds = [type(outer.__spec__), type(sys.__spec__)]
    except ValueError:
        sys.argv[1] = "0"
        print(seen, "outer" in sys.modules)
        import outer
        kinds = [type(outer.__spec__), type(sys.__spec__)]
    print(seen, kinds[0] is kinds[1])
"""


@pytest.mark.parametrize(("fails", "printed"), [(0, ""), (1, "[] False\n")])
def test_a_module_whose_own_import_leads_to_its_being_watched(program: Runner, fails: int, printed: str) -> None:
    # GIVEN a module that imports another one, whose import has the first one watched WHEN it is imported, or fails and
    # is imported again
    outcome = succeeded(program.bare(PROGRAM, fails))
    # THEN the action comes once, when the module is complete, and its spec is as it was
    assert outcome.stdout == f"{printed}[True] True\n"
