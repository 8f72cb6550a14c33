"""Functions watched in place: each kind, called in each way, indistinguishable from unwatched ones."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pyarrow.compute as pc
import pytest

from pyio_trace import entry_points
from pyio_trace.capture.instrumentation import instrument_registry
from tests.support.programs import Outcome, Runner, alike, succeeded

#: An instrument of the test's own, for a library of the test's own.
LIBRARY = '''
import functools, os
__version__ = "1.5"
class Thing:
    name = "thing"
    def __init__(self, path, size=3, *, flag=None):
        self.path = path
    def __getitem__(self, key):
        return bytes(self.read(5))
    @classmethod
    def make(cls, path):
        return cls(path)
    @staticmethod
    def count(path, *rest, **named):
        return len(rest) + len(named)
    @property
    def inside(self):
        return os.stat(self.path).st_size
    def read(self, size):
        with open(self.path, "rb") as file:
            return file.read(size)
    def __call__(self):
        return None
def fails(path, number):
    raise OSError(number, "no", path)
def raises(path):
    raise KeyError(path)
def plain(path, data=b"", mode="r"):
    return len(data)
def keywords(*, path):
    return path
def generator(path):
    """Yields the path."""
    yield path
def again(path, depth):
    return depth and again(path, depth - 1)
'''
INSTRUMENT = """
from pyio_trace.capture.instrumentation.instrument import Instrument, Target
instrument = Instrument("library", minimum="1.0", below="2", targets=(
    Target("Thing.__init__", name="Thing", path="path",
           details=lambda self, path, size=3, *, flag=None: {"size": size}),
    Target("Thing.__getitem__", kind="read", path=lambda self, key: self.path, moved="len",
           details=lambda self, key: {"key": key}),
    Target("Thing.make", path="path"),
    Target("Thing.count", path="path"),
    Target("Thing.inside"),
    Target("Thing.read", path=lambda self, size: self.path, moved=lambda result, self, size: len(result),
           after=lambda result, self, size: {"asked": size}),
    Target("fails", path="path"), Target("raises", path="path"), Target("generator", path="path"),
    Target("plain", kind="write", path="path", moved="result"), Target("keywords", path="path"), Target("again"),
    Target("absent", optional=True),
))
"""
USE = """
import copy, inspect, json, os, pickle, sqlite3, sys, traceback
import library
from library import Thing, plain
def told(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception:
        return traceback.format_exc()
path = sys.argv[1]
for _ in range(40):  # often enough for the interpreter's shortcuts
    thing = Thing(path, 4, flag=[1])
    thing[1:2], thing[..., (1, "x")]
    Thing.make(path).read(4)
    thing.count(path, 1, a=2), thing.inside
    plain(path, b"abc"), plain(data=b"de", path=path), library.again(path, 3)
    list(library.generator(path)), list(map(plain, [path, path])), library.keywords(path=path)
print(told(library.fails, path, 13), told(library.raises, path), told(plain), told(plain, path, 2, 3, 4), told(Thing))
print([inspect.isfunction(f) and str(inspect.signature(f)) for f in (Thing.__init__, Thing.read, plain, library.fails)])
print(pickle.dumps(plain), pickle.loads(pickle.dumps(Thing.read)) is Thing.read, copy.deepcopy(plain) is plain)
print([type(f).__name__ for f in (Thing.__init__, plain, Thing.make, thing.read)], plain.__qualname__)
print([f.__doc__ for f in (library.generator, plain, pickle.load, json.load, sqlite3.Connection.execute)])
"""


def with_library(program: Runner, instrument: str = INSTRUMENT, library: str = LIBRARY) -> dict[str, str | None]:
    """The environment in which the library and its instrument, of an entry point, are found."""
    program.write(library, "library.py")
    program.write(instrument, "for_library.py")
    distribution = program.folder / "for_library-1.0.dist-info"
    distribution.mkdir(exist_ok=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: for-library\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text("[other]\na = b\n[pyio_trace.instruments]\nlibrary = for_library\n")
    return {"PYTHONPATH": str(program.folder)}


def test_calls_of_every_kind(program: Runner, data: Path) -> None:
    # GIVEN a library of a third party, with an instrument of a third party
    env = with_library(program)
    # WHEN it is used untraced and traced THEN it prints the same
    outcome = succeeded(alike(program.traced(USE, data, env=env), program.bare(USE, data, env=env)))
    # AND each call is there, with what the instrument says of it
    calls = {
        op: outcome.select(layer="app", op=op)
        for op in ("Thing", "Thing.__getitem__", "Thing.make", "Thing.count", "Thing.inside", "Thing.read",
                   "library.plain", "library.again", "library.generator", "library.keywords")
    }  # fmt: skip
    assert {op: len(rows) for op, rows in calls.items()} == {
        "Thing": 81, "Thing.__getitem__": 80, "Thing.make": 40, "Thing.count": 40, "Thing.inside": 40,
        "Thing.read": 120, "library.plain": 162, "library.again": 160, "library.generator": 40, "library.keywords": 40,
    }  # fmt: skip
    of_data = [op for op, rows in calls.items() if {row["path"] for row in rows[:40]} != {str(data)}]
    assert of_data == ["Thing.inside", "library.again"]
    keys = [json.loads(row["detail"])["key"] for row in calls["Thing.__getitem__"][:2]]
    assert keys == ["1:2", ["...", [1, "x"]]]
    assert [row["bytes_moved"] for row in calls["Thing.__getitem__"][:2]] == [5, 5]
    assert [row["bytes_moved"] for row in calls["library.plain"][:4]] == [3, 2, 0, 0]
    assert json.loads(calls["Thing"][0]["detail"]) == {"size": 4}
    (read,) = {(row["bytes_moved"], json.loads(row["detail"])["asked"]) for row in calls["Thing.read"]} - {(5, 5)}
    assert read == (4, 4)
    # AND it is the parent of what it does
    for row in outcome.select(op="read", path=data):
        assert [parent["op"] for parent in outcome.parents(row)][1] == "Thing.read"
    assert {row["op"] for row in calls["Thing.read"] if row["link"] == "thread"} == {"Thing.read"}
    assert {outcome.parents(row)[0]["op"] for row in outcome.select(op="stat", path=data)} == {"Thing.inside"}


def test_failures(program: Runner, data: Path) -> None:
    outcome = succeeded(program.traced(USE, data, env=with_library(program)))
    (failed,), (raised,) = outcome.select(op="library.fails"), outcome.select(op="library.raises")
    assert (failed["errno"], json.loads(failed["detail"])) == (13, {"raised": "PermissionError"})
    assert (raised["errno"], json.loads(raised["detail"])) == (0, {"raised": "KeyError"})
    refused = [row for row in outcome.select(op="library.plain") if row["detail"]]
    assert [json.loads(row["detail"]) for row in refused] == [{"raised": "TypeError"}] * 2


def instrument_states(outcome: Outcome) -> str:
    return outcome.stdout.split("states: ")[-1].strip()


STATES = """
import library, sys
library.plain("x")
instrument_registry = sys.modules["pyio_trace.capture.instrumentation.instrument_registry"]
print("states:", [(state, why) for name, state, why in instrument_registry.states() if name == "library"])
"""


@pytest.mark.parametrize(
    ("instrument", "library", "state"),
    [
        (INSTRUMENT, LIBRARY, "[('active', '')]"),
        (INSTRUMENT, LIBRARY.replace("1.5", "0.9"), "[('version not supported', 'library 0.9 is older than 1.0')]"),
        (INSTRUMENT, LIBRARY.replace("1.5", "2.0rc1"),
         "[('version not supported', 'library 2.0rc1 is newer than this instrument knows (below 2)')]"),
        ("import nothing_so", LIBRARY, "[('broken', \"ModuleNotFoundError: No module named 'nothing_so'\")]"),
        (INSTRUMENT.replace(", optional=True", ""), LIBRARY, "[('broken', 'absent: library has no absent')]"),
        (INSTRUMENT.replace('"absent"', '"Thing.name"').replace(", optional=True", ""), LIBRARY,
         "[('broken', 'Thing.name: a str cannot be watched in place')]"),
    ],
)  # fmt: skip
def test_outcomes_of_an_instrument(program: Runner, instrument: str, library: str, state: str) -> None:
    # GIVEN an instrument that fits, does not fit, or is broken WHEN the library is used
    outcome = succeeded(program.traced(STATES, env=with_library(program, instrument, library)))
    # THEN the program runs, how the instrument fared is known, and what went wrong is in the process table
    assert instrument_states(outcome) == state
    assert outcome.stderr == ""
    said = outcome.processes[0]["note"]
    assert ("active" in state and said == "") or said.startswith(f"instrument library: {eval(state)[0][0]}: ")


def test_one_that_would_end_the_program(program: Runner) -> None:
    # GIVEN an instrument that raises SystemExit where it is read
    env = with_library(program, "raise SystemExit(3)")
    # WHEN the library is used THEN the program goes on
    outcome = succeeded(program.traced(STATES, env=env))
    assert instrument_states(outcome) == "[('broken', 'SystemExit: 3')]"


def test_one_that_cannot_be_undone(program: Runner) -> None:
    # GIVEN an instrument whose end raises
    undone = "\ndef gone():\n    raise RuntimeError('not undone')\ninstrument.disarm = gone\n"
    text = """
    import pyio_trace, library
    for number in range(2):
        with pyio_trace.trace(f"run{number}.pyio"):
            library.plain("x")
        print(pyio_trace.current_run(), type(library.plain).__mro__[1:])
    """
    # WHEN tracing ends, twice
    outcome = succeeded(program.bare(text, env=with_library(program, INSTRUMENT + undone)))
    # THEN it has ended, and what went wrong is said
    assert outcome.stdout == "None (<class 'object'>,)\n" * 2
    assert outcome.stderr == "pyio-trace: the instrument library could not be undone: RuntimeError: not undone\n" * 2


@pytest.mark.parametrize("chosen", ["nunpy", "h5py,-nunpy"])
def test_the_name_of_no_instrument(program: Runner, chosen: str) -> None:
    # WHEN instruments are chosen by a name that none has THEN that is an error, which names the nearest
    said = "instruments: there is no instrument for 'nunpy'; did you mean numpy? [bad-value]"
    text = f"""
    import pyio_trace
    try:
        pyio_trace.trace("run.pyio", instruments={chosen!r}).start()
    except pyio_trace.PyioTraceError as problem:
        print(problem, pyio_trace.current_run())
    """
    assert program.bare(text).stdout == f"{said} None\n"
    outcome = program.traced("print('ran')", env={"PYIO_TRACE_INSTRUMENTS": chosen})
    assert outcome.stdout == "ran\n" and outcome.stderr == f"pyio-trace: not tracing: {said}\n"


def test_names_with_capitals_are_chosen(program: Runner) -> None:
    # GIVEN an instrument for a library whose name has capitals
    env = with_library(program, INSTRUMENT.replace('Instrument("library"', 'Instrument("Library"'))
    program.write(LIBRARY, "Library.py")
    points = program.folder / "for_library-1.0.dist-info" / "entry_points.txt"
    points.write_text("[pyio_trace.instruments]\nLibrary = for_library\n")
    # WHEN it is chosen by that name, or is not THEN so it is
    text = "import Library\nLibrary.plain('x')\n"
    for chosen, number in (("Library", 1), ("-Library", 0)):
        outcome = succeeded(program.traced(text, env={**env, "PYIO_TRACE_INSTRUMENTS": chosen}))
        assert len(outcome.select(op="Library.plain")) == number


def test_instruments_of_older_distributions(program: Runner) -> None:
    # GIVEN an instrument of a package that was installed as Debian does, or by `setup.py develop`
    env = with_library(program)
    (program.folder / "for_library-1.0.dist-info").rename(program.folder / "for_library.egg-info")
    # WHEN its library is used THEN it is found
    outcome = succeeded(program.traced("import library\nlibrary.plain('x')\n", env=env))
    assert len(outcome.select(op="library.plain")) == 1


@pytest.mark.parametrize("points", [
    b"library = for\0library\n", b"lib\xffrary = for_library\n", b"library = for library\n", b"library = a,b=c\n",
    b"library\n", b"= for_library\n",
])  # fmt: skip
def test_damaged_entry_points(program: Runner, points: bytes) -> None:
    # GIVEN a distribution whose entry points name no module
    env = with_library(program)
    text = b"[pyio_trace.instruments]\n" + points
    (program.folder / "for_library-1.0.dist-info" / "entry_points.txt").write_bytes(text)
    # WHEN a program is traced, with a child THEN both are, without that instrument
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'open(\"x\", \"w\")'])\n"
    outcome = succeeded(program.traced(child, env=env))
    assert "not tracing" not in outcome.stderr
    assert [Path(row["path"]).name for row in outcome.select(op="open", layer="posix")].count("x") == 1
    entries = entry_points.section(text.decode(errors="replace"), instrument_registry.GROUP)
    assert "library" not in instrument_registry._sound(entries)


def test_a_path_with_anything_in_it(program: Runner) -> None:
    # GIVEN a program that has put more than folders on its path, as the import system allows
    text = """
        import pathlib, sys
        import pyio_trace
        sys.path[:0] = [5, None, b"bytes", pathlib.Path("/tmp"), "\\udcff", "/no/such/folder.zip"]
        with pyio_trace.trace("own.pyio", instruments="all"):
            open("x", "w").close()
        print("done")
    """
    # WHEN it traces a part of itself THEN it does
    assert succeeded(program.bare(text)).stdout == "done\n"


@pytest.mark.parametrize(("chosen", "state"), [
    ("all", "active"), ("none", "off"), ("library", "active"), ("numpy", "off"), ("-library", "off"),
    ("-numpy", "active"),
])  # fmt: skip
def test_instruments_are_chosen(program: Runner, chosen: str, state: str) -> None:
    env = {**with_library(program), "PYIO_TRACE_INSTRUMENTS": chosen}
    outcome = succeeded(program.traced(STATES, env=env))
    assert instrument_states(outcome).startswith(f"[('{state}'")
    assert len(outcome.select(op="library.plain")) == (state == "active")


def test_details_that_fail_cost_a_warning(program: Runner, data: Path) -> None:
    # GIVEN an instrument whose functions raise WHEN the library is used
    broken = INSTRUMENT.replace('{"size": size}', "1 / 0").replace("len(result)", "no_such_name")
    env = with_library(program, broken)
    bare, outcome = program.bare(USE, data, env=env), succeeded(program.traced(USE, data, env=env))
    # THEN the program does as it does, it is said once and counted, and the rest of the rows is there
    assert outcome.stdout == bare.stdout
    said = "pyio-trace: details of Thing are missing: ZeroDivisionError: division by zero (said once)\n"
    assert outcome.stderr == said
    assert len(outcome.select(op="Thing.read")) == 120
    assert {row["detail"] for row in outcome.select(op="Thing")} - {None} == {'{"raised":"TypeError"}'}


def test_children_have_instruments_too(program: Runner, data: Path) -> None:
    text = """
    import multiprocessing, sys
    import library
    def work(path):
        return library.plain(path, b"abcd")
    if __name__ == "__main__":
        library.plain(sys.argv[1])
        with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
            print(pool.map(work, [sys.argv[1]] * 3))
            pool.map(library.plain, ["x"])
    """
    for number, method in enumerate(("fork", "spawn", "forkserver")):
        log = f"run{number}.pyio"
        outcome = succeeded(program.traced(text, data, method, env=with_library(program), log=log))
        moved = sorted((row["pid"] == outcome.pid, row["bytes_moved"]) for row in outcome.select(op="library.plain"))
        assert moved == [(False, 0), (False, 4), (False, 4), (False, 4), (True, 0)], method


WATCHING = """
import sys, time
import pyio_trace
from pyio_trace import native
def described(*args): time.sleep(0.0005)
def slowly(*args): time.sleep(0.005)
def f(): time.sleep(0.005)
def g(): time.sleep(0.005)
def none(): pass
with pyio_trace.trace("w.pyio"):
    native.core.watch(f, "f", **{sys.argv[1]: described})
    native.core.watch(g, "g", details=slowly, after=slowly)
    native.core.watch(none, "none")
    for n in range(20): none(); f()
    for n in range(3 if sys.argv[2] == "slow" else 0): g()
print(pyio_trace.open("w.pyio").processes().to_pylist()[0]["watch_time"])
"""


@pytest.mark.parametrize("when", ["path", "details", "after"])
def test_what_watching_took_is_measured(program: Runner, when: str) -> None:
    # GIVEN 20 calls of 5 ms, before or after each of which the instrument takes half a millisecond
    ns = int(succeeded(program.bare(WATCHING, when, "")).stdout)
    # THEN that is noted, and nothing of the calls themselves
    assert 20 * 500_000 <= ns <= 40 * 1_000_000
    # AND 3 calls before and after which it takes five count with one for each: the rest may be another thread's time
    ns = int(succeeded(program.bare(WATCHING, when, "slow")).stdout)
    assert 20 * 500_000 + 6 * 1_000_000 <= ns <= 46 * 1_000_000


DETAILS = """
import sys, json
sys.path.insert(0, ".")
values = {
    "text": 'a"b\\\\c\\n\\x7fü\\u20ac', "long": "x" * 1000, "number": -7, "big": 2**70, "true": True, "none": None,
    "wide": "€" * 200,
    "float": 0.1, "nan": float("nan"), "slice": [slice(None), slice(1, None, -2), slice("a", 3)], "dots": ...,
    "nested": [[[[[[1]]]]]], "many": list(range(100)), "other": object(), "lone": "\\udc80", "bytes": b"x", "é": 1,
    5: "no text",
}
def f(path): pass
import pyio_trace
from pyio_trace import native
with pyio_trace.trace("d.pyio"):
    native.core.watch(f, "one", details=lambda path: values)
    f("x")
    much = {str(n): "é" * 150 for n in range(100)}
    native.core.watch(f, "two", details=lambda path: much, after=lambda *a: {"last": 1})
    f("x")
rows = pyio_trace.open("d.pyio").operations().to_pylist()
print(*[row["detail"] for row in rows if row["op"] in ("one", "two")], sep="\\n")
"""


def test_details_as_json(program: Runner) -> None:
    one, two = (json.loads(line) for line in succeeded(program.bare(DETAILS)).stdout.splitlines())
    assert one.pop("big") in (9223372036854775807, "int")
    assert one == {
        "text": 'a"b\\c\n\x7fü€', "long": "x" * 400 + "...", "number": -7, "true": True, "none": None, "float": 0.1,
        "wide": "€" * 133 + "...", "nan": None, "slice": [":", "1::-2", ":3"], "dots": "...", "nested": [[[[["..."]]]]],
        "many": [*range(32), "..."], "other": "object", "lone": None, "bytes": "bytes", "é": 1,
    }  # fmt: skip
    assert two["cut"] is True
    assert 4 < len(two) < 10
    assert set(two.values()) - {True} == {"é" * 150}


def test_more_details_than_are_remembered(program: Runner) -> None:
    # GIVEN more different details than the core has places for, in two rounds, and some the same again and again, in
    # the program and in a child that it forks in between
    env = with_library(program)
    text = """
    import os
    from library import Thing
    for round in range(2):
        for n in range(40_000):
            Thing("/x", n)
            if n % 2:
                Thing("/x", "again")
        if not round and os.fork() == 0:
            for n in range(100):
                Thing("/x", -n)
            os._exit(0)
    os.wait()
    """
    outcome = succeeded(program.traced(text, env=env))
    # THEN each call has its own
    table = outcome.table.filter(pc.equal(outcome.table["op"], "Thing"))
    sizes: dict[int, list[object]] = {}
    for pid, text in zip(table["pid"].to_pylist(), table["detail"].to_pylist(), strict=True):
        sizes.setdefault(pid, []).append(json.loads(text)["size"])
    one_round = [size for n in range(40_000) for size in ([n, "again"] if n % 2 else [n])]
    assert sorted(sizes.values(), key=len) == [[-n for n in range(100)], one_round * 2]


def test_calls_that_mark_the_ends_of_something_longer(program: Runner, data: Path) -> None:
    # GIVEN two functions around a piece of work, which open and close one span; either may raise
    text = f"""
    import os
    import pyio_trace
    from pyio_trace import native
    from pyio_trace.capture.instrumentation.instrument import MARKS
    def begins(name, fail=False):
        os.stat({str(data)!r})
        if fail:
            raise KeyError(name)
    def ends():
        pass
    def fails():
        pass
    spans, seen = [], []
    def opened(name, fail=False):
        spans.append(native.core.Span())
        spans[-1].begin(name, 0, None, None)
    def looked(result, *args, **kwargs):
        seen.append(result)
    def broken():
        raise RuntimeError("ours")
    with pyio_trace.trace("stretch.pyio"):
        native.core.watch(begins, "begins", details=opened, after=looked, role=MARKS)
        native.core.watch(ends, "ends", details=lambda: spans.pop().end(), role=MARKS)
        native.core.watch(fails, "fails", details=broken, role=MARKS)
        begins("outer")
        os.stat({str(data)!r})
        try:
            begins("inner", fail=True)
        except KeyError as problem:
            print("raised", problem)
        ends()
        ends()
        fails()
        os.stat({str(data)!r})
    print(seen)
    """
    out = succeeded(program.bare(text))
    # THEN the program has its results and exceptions; a fault of ours is one warning
    assert out.stdout == "raised 'inner'\n[None, None]\n"
    assert out.stderr.count("\n") == 1 and "fails" in out.stderr
    log = Outcome(0, "", "", program.folder / "stretch.pyio")
    # THEN there are the two spans, one in the other, with what happened between; the calls themselves are no operations
    assert [row["op"] for row in log.select(layer="app")] == ["outer", "inner"]
    assert all(row["duration"] is not None for row in log.select(layer="app"))
    chains = [[span["op"] for span in log.parents(row)] for row in log.select(op="stat", path=data)]
    assert chains == [["outer"], ["outer"], ["inner", "outer"], []]


SIGNALS = """
import functools, os, signal, sys, traceback
import library

def raises(number, frame):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise TimeoutError("too long")
def partly(word, number, frame):
    raise TimeoutError("too long")

for kind in (signal.SIGALRM, signal.SIGUSR1, signal.SIGINT):
    library.kind = kind
    for when in ("path", "before", "after", "bytes", "none"):
        library.when = when
        signal.signal(signal.SIGALRM, raises)
        signal.signal(signal.SIGUSR1, functools.partial(partly, "a word"))
        try:
            print(when, library.plain("x"))
        except (TimeoutError, KeyboardInterrupt) as problem:
            print(when, repr(problem), [frame.name for frame in traceback.extract_tb(problem.__traceback__)])
"""
SIGNALLED = """
import os, signal
from pyio_trace.capture.instrumentation.instrument import Instrument, Target
def at(when):
    import library
    if library.when == when:
        os.kill(os.getpid(), library.kind)
        for _ in range(100):
            pass
def path(path): at("path"); return path
def before(path): at("before"); return {}
def after(result, path): at("after"); return {}
def bytes(result, path): at("bytes"); return 1
instrument = Instrument("library", targets=(Target("plain", path=path, details=before, after=after, moved=bytes),))
"""


def test_what_a_signals_handler_raises_reaches_the_program(program: Runner) -> None:
    # GIVEN signals that come in while an instrument is asked, before and after the call
    library = "__version__ = '1'\ndef plain(path):\n    return 'called'\n"
    env = with_library(program, SIGNALLED, library)
    # WHEN their handlers raise
    outcome = succeeded(program.traced(SIGNALS, env=env))
    # THEN the program gets it just before the call or after it, with no frame of ours; and it is no
    # fault of ours
    alarm, partial = (f"TimeoutError('too long') ['<module>', '{name}']" for name in ("raises", "partly"))
    assert outcome.stdout.splitlines() == [
        line for said in (alarm, partial, "KeyboardInterrupt() ['<module>']")
        for line in (*(f"{when} {said}" for when in ("path", "before", "after", "bytes")), "none called")
    ]  # fmt: skip
    assert outcome.stderr == ""
    assert len(outcome.select(op="library.plain")) == 9


THROWER = """
import ctypes, threading
def throw(kind):
    ident = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(kind))
"""
THROWN_INTO = """
from pyio_trace.capture.instrumentation.instrument import Instrument, Target
def asked(when):
    import library
    if library.when == when:
        library.throw()
        for _ in range(1000):
            pass
def path(path): asked("path"); return path
def before(path): asked("before"); return {}
def after(result, path): asked("after"); return {}
def bytes(result, path): asked("bytes"); return 1
instrument = Instrument("library", targets=(Target("plain", path=path, details=before, after=after, moved=bytes),))
"""


def test_what_another_thread_throws_reaches_the_program(program: Runner) -> None:
    # GIVEN exceptions of the program's kinds and of Python's, thrown into a thread while an instrument is asked there
    program.write(THROWER, "thrower.py")
    library = "__version__ = '1'\ndef plain(path):\n    return 'called'\n"
    text = """
    import functools, traceback
    import library, thrower
    class Timeout(Exception):
        pass
    for kind in (Timeout, TimeoutError, RuntimeError, Exception, OSError, TypeError, SystemExit):
        library.throw = functools.partial(thrower.throw, kind)
        for library.when in ("path", "before", "after", "bytes", "none"):
            try:
                print(library.when, library.plain("x"))
            except BaseException as problem:
                frames = [frame.name for frame in traceback.extract_tb(problem.__traceback__)]
                print(library.when, repr(problem), [name for name in frames if name != "throw"])
    """
    # WHEN that happens
    outcome = succeeded(program.traced(text, env=with_library(program, THROWN_INTO, library)))
    # THEN the program gets it, without frames of ours, and it is not counted as a fault of the instrument
    assert outcome.stdout.splitlines() == [
        line for kind in ("Timeout", "TimeoutError", "RuntimeError", "Exception", "OSError", "TypeError", "SystemExit")
        for line in (*(f"{when} {kind}() ['<module>']" for when in ("path", "before", "after", "bytes")), "none called")
    ]  # fmt: skip
    assert outcome.stderr == ""
    assert len(outcome.select(op="library.plain")) == 7 * 3  # of which it did not come before


def test_what_is_thrown_where_an_instrument_catches(program: Runner) -> None:
    pytest.importorskip("h5py")
    # GIVEN an exception thrown where an instrument expects the library to fail
    program.write(THROWER, "thrower.py")
    text = """
    import h5py, thrower
    original = h5py.h5i.get_name
    def throws(identity):
        if thrown:
            thrower.throw(thrown.pop())
        for _ in range(1000):
            pass
        return original(identity)
    h5py.h5i.get_name, thrown = throws, []
    with h5py.File("file.h5", "w") as file:
        file["data"] = [1, 2, 3]
        thrown.append(TimeoutError)
        try:
            file["data"][:], file.attrs.get("x")
        except TimeoutError as problem:
            print(repr(problem))
    """
    # WHEN it is asked THEN the program has it
    outcome = succeeded(program.traced(text))
    assert (outcome.stdout, outcome.stderr) == ("TimeoutError()\n", "")


def test_what_fails_without_a_word_is_an_instruments_fault(program: Runner) -> None:
    # GIVEN an instrument that raises exceptions without arguments, by statements and otherwise
    instrument = """
    from pyio_trace.capture.instrumentation.instrument import Instrument, Target
    def stops(path): next(iter(()))
    def raises(path): raise RuntimeError
    def asserts(path): assert not path
    instrument = Instrument("library", targets=tuple(
        Target("Thing.make", details=one) if one is stops else Target("plain", path="path", details=one)
        for one in (stops, raises)) + (Target("keywords", details=lambda *, path: asserts(path)),))
    """
    text = """
    import library
    library.Thing.make("x"), library.plain("x"), library.keywords(path="x")
    print("done")
    """
    # WHEN they are called THEN that costs a warning, and the program goes on
    outcome = succeeded(program.traced(text, env=with_library(program, textwrap.dedent(instrument))))
    assert outcome.stdout == "done\n"
    assert outcome.stderr.count("are missing") == 1


def test_arguments_of_a_wrong_type_are_no_fault_of_an_instrument(program: Runner) -> None:
    # GIVEN a call that cannot be, whose argument has not what an instrument asks it for
    text = """
    import sqlite3
    try:
        sqlite3.Cursor.execute("no cursor", "SELECT 1")
    except TypeError as problem:
        print(problem)
    """
    # WHEN it is made THEN nothing is said but what the program says
    succeeded(alike(program.traced(text), program.bare(text)))


def test_audit_hooks_hear_of_no_question(program: Runner) -> None:
    # GIVEN a program that prints each id()
    text = """
    import sqlite3, sys
    connection = sqlite3.connect(":memory:")
    sys.addaudithook(lambda event, args: event == "builtins.id" and print(event))
    connection.execute("SELECT 1").fetchall()
    connection.close()
    """
    # WHEN instruments look objects up by their addresses THEN it is not told of that
    succeeded(alike(program.traced(text), program.bare(text)))


def test_as_deep_as_the_program_may_go(program: Runner) -> None:
    # GIVEN a builtin function, called where the interpreter allows of no further call
    text = """
    import pickle, sys
    class File:
        write = len
    def deepest(level):
        try:
            deepest(level + 1)
        except RecursionError:
            pickle.dump(1, File)
    deepest(0)
    """
    # WHEN its instrument is asked THEN that has the room it needs
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert {json.loads(row["detail"]).get("type") for row in outcome.select(op="pickle.dump")} == {"int"}


FINDERS = """
import sys

class Asks:
    # one that asks all the others, of whom one does the same
    calls = 0
    def find_spec(self, name, path=None, target=None):
        Asks.calls += 1
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return spec

before = Asks()
sys.meta_path.insert(0, before)
import library
sys.meta_path.remove(before)
del sys.modules["library"]
first = Asks.calls
sys.meta_path.append(Asks())
import absent
"""


def test_a_finder_that_asks_all_the_others(program: Runner) -> None:
    # GIVEN finders of the program's that go through sys.meta_path themselves, before and after ours
    env = with_library(program, library="__version__ = '1'\ndef plain(path):\n    return 'called'\n")
    text = FINDERS.replace("import absent", "import library; print(library.plain('x'), first < 100)")
    # WHEN a watched library is imported THEN it is found
    alike(succeeded(program.traced(text, env=env)), program.bare(text, env=env))


DEEP = """
import sys, threading
import library

def depth(function, *args):
    def within(level):
        function("x", lambda: within(level + 1)) if level < 5000 else print(level)
    within(0)

sys.setrecursionlimit(20000)
thread = threading.Thread(target=depth, args=[library.plain])
threading.stack_size(8 << 20)
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on calls through C have a limit of their own")
def test_deep_recursion_through_a_watched_function(program: Runner) -> None:
    # GIVEN a program that has set its recursion limit high, and calls itself through a watched function
    env = with_library(program, DEEP_INSTRUMENT, "__version__ = '1'\ndef plain(path, go_on):\n    go_on()\n")
    # WHEN it goes 5000 deep on a stack of 8 MiB THEN there is room, as there is without us
    outcome = succeeded(alike(program.traced(DEEP, env=env), program.bare(DEEP, env=env)))
    assert outcome.stdout == "5000\n"
    assert len(outcome.select(op="library.plain")) == 5000


DEEP_INSTRUMENT = """
from pyio_trace.capture.instrumentation.instrument import Instrument, Target
instrument = Instrument("library", targets=(Target("plain", path="path"),))
"""


def test_numbers_of_the_programs_own_kind_are_not_asked(program: Runner) -> None:
    # GIVEN keys whose __index__ is the program's, which would see that it is called
    env = with_library(program)
    text = """
    import library
    class Index:
        def __index__(self):
            print("asked")
            return 1
    thing = library.Thing(__file__)
    print(len(thing[Index()]), len(thing[Index():2]), len(thing[True, 3:Index():1]))
    """
    # WHEN they go into details THEN nobody asks them
    outcome = succeeded(alike(program.traced(text, env=env), program.bare(text, env=env)))
    rows = outcome.select(op="Thing.__getitem__")
    assert [json.loads(row["detail"])["key"] for row in rows] == ["Index", ":2", [True, "3::1"]]


def test_the_recursion_limit_is_no_fault_of_an_instrument(program: Runner) -> None:
    # GIVEN a function that calls itself until it may not, and details that take some calls themselves
    instrument = """
    from pyio_trace.capture.instrumentation.instrument import Instrument, Target
    def deep(left):
        return {"left": 0} if not left else deep(left - 1)
    instrument = Instrument("library", targets=(Target("again", details=lambda path, depth: deep(9)),))
    """
    env = with_library(program, textwrap.dedent(instrument))
    text = """
    import library
    try:
        library.again("x", 10**6)
    except RecursionError as problem:
        print(problem)
    """
    # WHEN it gets there THEN nothing is said but what the program says
    outcome = succeeded(alike(program.traced(text, env=env), program.bare(text, env=env)))
    assert outcome.select(op="library.again")
