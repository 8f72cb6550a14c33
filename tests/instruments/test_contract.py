"""The contract of every instrument, whatever its library.  The instruments are discovered here too, not listed."""

from __future__ import annotations

import importlib.util
import json

import pytest

from pyio_trace.capture.instrumentation import instrument_registry
from tests.support import frameworks
from tests.support.programs import Runner, succeeded

NAMES = instrument_registry.names()
INSTALLED = [frameworks.param(name, [name]) for name in NAMES]

#: Of each target: the object, what it is, how it is pickled.
LOOKS = """
import importlib, json, pickle, sys
from pyio_trace import native
from pyio_trace.capture.instrumentation import instrument_registry, watching

def modules(instrument):
    for name in {instrument.module, *(target.module or instrument.module for target in instrument.targets)}:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # another version's: its targets must be optional

def looks(instrument):
    found = {}
    for target in instrument.targets:
        module = sys.modules.get(target.module or instrument.module)
        function = watching.find(module, target.where) if module else None
        if function is None:
            assert target.optional, f"{target.where}: not there"
            continue
        try:
            if target.where == "_WorkItem.run":  # what carries the context stands before it
                raise TypeError
            pickled = pickle.dumps(function).hex()
        except Exception as problem:
            pickled = f"{type(problem).__name__}"
        found[target.where] = [id(function), type(function).__name__, isinstance(function, type(lambda: 0)),
                               repr(function), pickled, native.core.is_watched(function)]
    return found
"""


def needs(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("name", NAMES)
def test_reading_it_imports_nothing_of_the_library(program: Runner, name: str) -> None:
    # GIVEN an interpreter in which the library cannot be imported WHEN its instrument is read THEN it can be
    text = f"""
    import sys
    before = set(sys.modules)
    class Refuses:
        def find_spec(self, name, path=None, target=None):
            assert name.partition(".")[0] != {name!r}, name
    if {name!r} not in sys.modules:
        sys.meta_path.insert(0, Refuses())
    from pyio_trace.capture.instrumentation import instrument_registry, watching
    instrument = watching.load({NAMES[name]!r})
    print(instrument.module, bool(instrument.targets or instrument.arm))
    print(*sorted(one for one in set(sys.modules) - before if not one.startswith(("pyio_trace", "collections"))))
    """
    out = succeeded(program.bare(text)).stdout.splitlines()
    assert out[0] == f"{name} True"
    assert not {one.partition(".")[0] for one in out[1].split()} - {"__future__"}, "more is imported for it"


@pytest.mark.parametrize("first", ["library", "tracing"])
@pytest.mark.parametrize("name", INSTALLED)
def test_every_target_is_watched_in_place_and_let_go(program: Runner, name: str, first: str) -> None:
    # GIVEN a program that imports the library before or after tracing begins
    needs(name)
    text = (
        LOOKS
        + f"""
import pyio_trace
instrument = watching.load({NAMES[name]!r})
first = {first!r}
if first == "library":
    modules(instrument)
    before = looks(instrument)
with pyio_trace.trace("stretch.pyio"):
    modules(instrument)
    during = looks(instrument)
    states = {{name: (state, why) for name, state, why in instrument_registry.states()}}
after = looks(instrument)
print(json.dumps([before if first == "library" else None, during, after, states[{name!r}]]))
"""
    )
    before, during, after, state = json.loads(succeeded(program.bare(text)).stdout.splitlines()[-1])
    # THEN each target was watched while it was traced, as the same object that looks the same and is pickled the same
    assert state == ["active", ""]
    assert all(seen[-1] for seen in during.values()), {where: seen for where, seen in during.items() if not seen[-1]}
    assert not any(seen[-1] for seen in after.values())
    assert {where: seen[:-1] for where, seen in during.items()} == {where: seen[:-1] for where, seen in after.items()}
    assert before is None or before == after


#: What to import for an instrument's targets to be there, where that is not its library alone.
_LOADED = {"concurrent": "concurrent.futures.thread", "PIL": "PIL.Image", "compression": "compression.zstd"}


@pytest.mark.parametrize("name", INSTALLED)
def test_one_that_breaks_breaks_nothing(program: Runner, name: str) -> None:
    # GIVEN instruments that raise, when they are read and when they arm
    needs(name)
    text = f"""
    import sys
    import pyio_trace
    from pyio_trace.capture.instrumentation import instrument_registry, watching
    def load(where):
        raise RuntimeError("no good")
    def watch(target, module):
        raise RuntimeError("no good")
    setattr(watching, sys.argv[1], locals()[sys.argv[1]])
    with pyio_trace.trace("stretch.pyio"):
        import {_LOADED.get(name, name)}
        states = {{name: (state, why) for name, state, why in instrument_registry.states()}}
    print({name}.__name__, *states[{name!r}])
    """
    for what in ("load", "watch"):
        out = succeeded(program.bare(text, what))
        # THEN the import succeeds, and what broke is said
        assert out.stdout.startswith(f"{name} broken ")
        assert "no good" in out.stdout
        (program.folder / "stretch.pyio").unlink()


def test_a_program_that_uses_no_library_pays_for_none(program: Runner) -> None:
    # GIVEN all instruments WHEN a program uses none of the libraries
    text = """
    import sys
    print(*sorted(sys.modules))
    """
    bare = set(succeeded(program.bare(text)).stdout.split())
    more = set(succeeded(program.traced(text, env={"PYIO_TRACE_INSTRUMENTS": "all"})).stdout.split()) - bare
    # THEN none of them is imported, and no instrument is read
    assert "pyio_trace.capture.instrumentation.instrument_registry" in more
    # (From 3.15 on, Python imports _pyio_trace_start in an untraced program too: a line of a .start file names it.)
    assert {name for name in more if not name.startswith("pyio_trace")} <= {"_pyio_trace_start"}
    assert not {name for name in more if name.startswith("pyio_trace.capture.instruments")}
    # AND of ours only what each start needs: every module costs each traced process a part of a millisecond
    assert {name for name in more if name.startswith("pyio_trace.capture.")} == {
        "pyio_trace.capture.runtime", "pyio_trace.capture.runtime.tracer", "pyio_trace.capture.instrumentation",
        "pyio_trace.capture.instrumentation.instrument_registry",
        "pyio_trace.capture.instrumentation.import_hooks",
    }  # fmt: skip
