"""Functions and methods written in C are watched through their definition: every way to call and bind them."""

from __future__ import annotations

import json

from tests.support.programs import Outcome, Runner, alike, succeeded

CALLS = """
import asyncio, functools, io, operator, pickle, sqlite3
connection = sqlite3.connect(":memory:", check_same_thread=False)
cursor = connection.cursor()
early = connection.execute  # bound before tracing begins, where it does in the program
def use():
    execute = connection.execute
    for number in range(40):  # often enough for the interpreter's shortcuts
        execute("CREATE TABLE IF NOT EXISTS bound (a)")
    early("CREATE TABLE early (a)")
    list(map(cursor.execute, ["CREATE TABLE mapped (a)", "CREATE TABLE again (a)"]))
    functools.partial(cursor.execute, "CREATE TABLE partly (a)")()
    operator.methodcaller("execute", "CREATE TABLE called (a)")(cursor)
    cursor.execute(*["CREATE TABLE starred (a)", ()])
    sqlite3.Cursor.execute(cursor, "CREATE TABLE unbound (a)")
    getattr(cursor, "executemany")("INSERT INTO bound VALUES (?)", iter([(1,), (2,)]))
    asyncio.run(elsewhere())
    file = io.BytesIO()
    pickle.dump([1], file=file, protocol=2)
    list(map(pickle.dump, [{}, ()], [file, file]))
    dump = functools.partial(pickle.dump, file=file)
    dump("text")
    file.seek(0)
    print([pickle.load(file) for _ in range(4)], cursor.execute("SELECT COUNT(*) FROM bound").fetchall())
async def elsewhere():
    await asyncio.to_thread(connection.execute, "CREATE TABLE threaded (a)")
"""
STATEMENTS = ["early", "mapped", "again", "partly", "called", "starred", "unbound", "threaded"]


def check_calls(outcome: Outcome) -> None:
    rows = outcome.select(op="Connection.execute") + outcome.select(op="Cursor.execute")
    made = [json.loads(row["detail"])["statement"].removeprefix("CREATE TABLE ") for row in rows]
    assert [made.count(name) for name in STATEMENTS] == [1] * len(STATEMENTS)
    assert made.count("bound") == 40
    assert [json.loads(row["detail"])["rows"] for row in outcome.select(op="Cursor.executemany")] == [2]
    assert [json.loads(row["detail"]) for row in outcome.select(op="pickle.dump")] == [
        {"type": name} for name in ("list", "dict", "tuple", "str")
    ]
    assert len(outcome.select(op="pickle.load")) == 4


def test_every_way_of_calling_them(program: Runner) -> None:
    # GIVEN a program that binds builtin methods and hands builtin functions on
    text = CALLS + "use()\n"
    # WHEN it is traced THEN it does what it does, and each call has its row
    check_calls(succeeded(alike(program.traced(text), program.bare(text))))


def test_bound_before_tracing_began(program: Runner) -> None:
    # GIVEN builtin functions that are in dicts, and a method that is bound, before tracing begins
    text = (
        CALLS
        + """
import ctypes, pyio_trace
function_of = ctypes.pythonapi.PyCFunction_GetFunction
function_of.restype, function_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
functions = [pickle.dump, pickle.load, sqlite3.connect, connection.execute]
places = {function: number for number, function in enumerate(functions)}
def found():
    now = [pickle.dump, pickle.load, sqlite3.connect, connection.execute]
    return [places.get(function) for function in now], [type(function).__name__ for function in now]
before = [function_of(function) for function in functions]
for name in ("run.pyio", "again.pyio"):
    with pyio_trace.trace(name):
        print(found(), connection.execute == early, pickle.dump == pickle.load, hash(early) == hash(connection.execute))
        inside = connection.commit
        if name == "run.pyio":
            use()
    print(found(), inside == connection.commit, [function_of(function) for function in functions] == before)
    early("SELECT 'untraced'"), inside()
"""
    )
    # WHEN tracing begins in the middle of the program, twice
    outcome = succeeded(program.bare(text))
    # THEN they are found and compare as before, and are as they were when it has ended
    names = (
        "['builtin_function_or_method', 'builtin_function_or_method', 'builtin_function_or_method', "
        "'builtin_function_or_method']"
    )
    lines = outcome.stdout.splitlines()
    assert [lines[0], lines[2], lines[3], lines[4]] == [
        f"([0, 1, 2, 3], {names}) True False True",
        f"([0, 1, 2, 3], {names}) True True",
    ] * 2
    # AND each call in between has its row
    log = Outcome(0, "", "", program.folder / "run.pyio")
    check_calls(log)
    assert not [row for row in log.rows if "untraced" in (row["detail"] or "")]


def test_profilers_see_them(program: Runner) -> None:
    # GIVEN a program that profiles itself
    text = """
    import cProfile, io, pickle, pstats, sqlite3, sys
    def use():
        connection = sqlite3.connect(":memory:")
        execute = connection.execute
        cursor = execute("SELECT 1")
        cursor.fetchall()
        for number in range(30):
            cursor.execute("SELECT 2")
            pickle.dump(number, io.BytesIO())
        try:
            execute("nonsense")
        except sqlite3.Error:
            pass
        connection.close()
    seen = []
    def profile(frame, event, arg):
        if event.startswith("c_"):
            seen.append((event, arg.__qualname__))
    sys.setprofile(profile)
    use()
    sys.setprofile(None)
    print(seen)
    profiler = cProfile.Profile()
    profiler.runcall(use)
    print(sorted((place, calls[0]) for place, calls in pstats.Stats(profiler).stats.items() if place[0] == "~"))
    """
    # WHEN it is traced THEN its profile is that of the bare program
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert "Cursor.execute" in outcome.stdout
    assert len(outcome.select(op="pickle.dump")) == 60


def test_other_interpreters_pass_through(program: Runner) -> None:
    # GIVEN a program with a second interpreter, which has the same definitions
    text = """
    import io, pickle
    try:
        import _interpreters as interpreters
        run = interpreters.exec
    except ImportError:
        import _xxsubinterpreters as interpreters
        run = interpreters.run_string
    other = interpreters.create()
    pickle.dump([], io.BytesIO())
    run(other, '''if True:
        import io, pickle
        dump, file = pickle.dump, io.BytesIO()
        for number in range(50):
            dump((number,), file)
        print({dump: len(file.getvalue())}[pickle.dump], flush=True)
    ''')
    interpreters.destroy(other)
    pickle.dump({}, io.BytesIO())
    """
    # WHEN it is traced THEN that one is left alone, and the main one goes on
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert [json.loads(row["detail"])["type"] for row in outcome.select(op="pickle.dump")] == ["list", "dict"]
