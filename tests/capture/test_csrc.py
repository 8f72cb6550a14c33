"""C code (tests/csrc): every way to call libc, and its own signals, threads and processes."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from tests.support.platforms import CSRC as SOURCES
from tests.support.platforms import PLATFORMS, Caller, Platform, caller
from tests.support.programs import Outcome, Runner, succeeded

FLAGS = {
    "lazy": ["-Wl,-z,lazy,-z,norelro"],
    "relro": ["-Wl,-z,relro,-z,lazy"],
    "bind now": ["-Wl,-z,relro,-z,now"],
    "no plt": ["-fno-plt", "-O2"],
    "fortified": ["-O2", "-D_FORTIFY_SOURCE=2", "-Wno-unused-result"],
}

#: Called from Python, and from a program of C on each platform that there are tools for.
ELSEWHERE = [
    pytest.param(name, marks=pytest.mark.once if name == "no PIE" else [pytest.mark.once, pytest.mark.slow])
    for name in PLATFORMS
]
everywhere = pytest.mark.parametrize("build", ["python", *ELSEWHERE], indirect=True, scope="session")


@dataclass(frozen=True)
class Library:
    """A library of tests/csrc.  caller: what calls its functions; None: Python."""

    path: Path
    caller: Caller | None


Build = Callable[..., Library]


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds a library of tests/csrc with flags, once, for the Python of the tests or for another platform."""
    name = getattr(request, "param", "python")
    folder = tmp_path_factory.mktemp("csrc")
    of_platform = None if name == "python" else caller(name, folder)
    platform = of_platform.platform if of_platform else Platform("cc")

    def build(flags: list[str], source: str = "hazards.c", name: str = "hazards.so") -> Library:
        place = folder / str(abs(hash((*flags, source, name))))
        place.mkdir(exist_ok=True)
        if not (place / name).exists():
            platform.compile(["-shared", "-fPIC", "-U_FORTIFY_SOURCE", *flags], [SOURCES / source], place / name)
        return Library(place / name, of_platform)

    return build


def call(
    program: Runner, library: Library, function: str, *args: object, env: Mapping[str, str | None] | None = None
) -> Outcome:
    """Calls a function of a library, traced; it must return 0.  env: for Python; the C program has /dev in."""
    if library.caller:
        log = program.folder / "run.pyio"
        return succeeded(program.command(library.caller.words(library.path, function, args, log)))
    text = f"""\
import ctypes, os, sys
result = ctypes.CDLL({str(library.path)!r}).{function}({", ".join(_spelt(arg) for arg in args)})
if result:
    sys.exit(f"line {{result}} of the C code went wrong")
"""
    return succeeded(program.traced(text, env=env))


def _spelt(argument: object) -> str:
    return repr(argument) if isinstance(argument, int) else repr(str(argument).encode())


def check_reads(outcome: Outcome, data: Path, times: int, size: int = 100) -> None:
    rows = outcome.select(op="pread", path=data)
    assert [row["file_offset"] for row in rows] == list(range(times))
    assert {(row["bytes_requested"], row["bytes_moved"]) for row in rows} == {(size, size)}
    assert len(outcome.select(op="open", path=data, layer="posix")) == 1
    assert len(outcome.select(op="close", path=data, layer="posix")) >= 1


@everywhere
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("function", ["plain_calls", "table_calls", "looked_up_calls"])
def test_every_way_to_a_function(program: Runner, data: Path, build: Build, function: str, flags: str) -> None:
    # GIVEN a library built in this way, loaded late WHEN it reads in this way THEN its calls are there
    library = build(FLAGS[flags])
    outcome = call(program, library, function, data, 300)
    check_reads(outcome, data, 300)
    # THEN they have the line of Python that led to them, if there is Python
    line = None if library.caller else f"{outcome.path.parent}/program.py:2:<module>"
    assert {row["site"] for row in outcome.select(op="pread", path=data)} == {line}


@everywhere
@pytest.mark.parametrize("flags", FLAGS)
def test_fortified_spellings(program: Runner, data: Path, build: Build, flags: str) -> None:
    # GIVEN the calls that FORTIFY turns into others, with sizes that the compiler does not know
    outcome = call(program, build(FLAGS[flags]), "fortified_calls", data, 200, 0, 50)
    # WHEN they are made THEN they are there under their plain names
    check = Counter(row["op"] for row in outcome.select(path=data))
    assert {op: check[op] for op in ("pread", "read", "fopen", "fread", "fgets", "fclose", "realpath", "readlink")} == {
        "pread": 200, "read": 1, "fopen": 1, "fread": 1, "fgets": 1, "fclose": 1, "realpath": 1, "readlink": 1,
    }  # fmt: skip
    assert [row["errno"] for row in outcome.select(op="readlink", path=data)] == [22]


def test_protection_of_patched_pages(program: Runner, data: Path, build: Build) -> None:
    # GIVEN a library whose tables are sealed (RELRO)
    library = build(FLAGS["bind now"]).path
    text = f"""\
    import ctypes, re
    import pyio_trace
    library = ctypes.CDLL({str(library)!r})
    def pages():
        return [line.split()[:2] for line in open("/proc/self/maps") if "hazards" in line or "libpython" in line]
    before = pages()
    with pyio_trace.trace("run.pyio"):
        assert library.plain_calls({str(data).encode()!r}, 10) == 0
        inside = pages()
    assert before == inside == pages(), (before, inside, pages())
    """
    # WHEN it is patched and put back THEN every page is as writable as it was
    succeeded(program.bare(text))


# musl searches on behalf of the program, traced or not
@pytest.mark.parametrize("build", ["python", "no PIE", pytest.param("aarch64", marks=pytest.mark.slow)], indirect=True)
def test_library_found_by_its_callers_runpath(program: Runner, data: Path, build: Build) -> None:
    # GIVEN a library that loads another one by its own RUNPATH
    outer = build(["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"], "outer.c", "libouter.so")
    (outer.path.parent / "inner").mkdir(exist_ok=True)
    shutil.copy(build([]).path, outer.path.parent / "inner" / "libinner.so")
    # WHEN it does THEN it is found, and its calls are there
    check_reads(call(program, outer, "through_inner", data, 100), data, 100)


def test_libraries_that_come_and_go(program: Runner, data: Path, build: Build) -> None:
    # GIVEN libraries that are loaded and unloaded over and over, in a stretch that is traced and after it
    libraries = [str(build(flags).path) for flags in FLAGS.values()]
    text = f"""\
    import _ctypes, ctypes
    import pyio_trace
    def work(times):
        for n in range(times):
            handles = [_ctypes.dlopen(name, 2) for name in {libraries!r}[: 1 + n % 5]]
            for handle in handles[:: 1 if n % 2 else -1]:
                kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int)
                call = kind(_ctypes.dlsym(handle, "plain_calls"))
                assert call({str(data).encode()!r}, 2) == 0
                _ctypes.dlclose(handle)
    for stretch in range(3):
        with pyio_trace.trace(f"run{{stretch}}.pyio"):
            work(40)
        work(20)
    """
    # WHEN it is run THEN it does not fall over, and each stretch has its calls
    outcome = succeeded(program.bare(text))
    for stretch in range(3):
        part = Outcome(0, "", "", outcome.path.parent / f"run{stretch}.pyio")
        assert len(part.select(op="pread", path=data)) == 2 * sum(1 + n % 5 for n in range(40))


@everywhere
@pytest.mark.parametrize("flags", ["lazy", "bind now", "fortified"])
def test_errno_is_left_alone(program: Runner, data: Path, build: Build, flags: str) -> None:
    # GIVEN calls with errno set before WHEN they succeed THEN errno is unchanged; when they fail, they set it
    outcome = call(program, build(FLAGS[flags]), "errno_is_left_alone", data, "/nonexistent/file")
    assert [row["errno"] for row in outcome.select(op=("open", "stat"), path="/nonexistent/file")] == [2] * 4


@everywhere
def test_variadic_arguments(program: Runner, tmp_path: Path, build: Build) -> None:
    # GIVEN calls whose last argument is there or not, an int or a pointer WHEN they are made THEN they get it
    outcome = call(program, build([]), "variadic_arguments", tmp_path / "made")
    assert len(outcome.select(op="fcntl", path=tmp_path / "made")) == 7


@everywhere
@pytest.mark.parametrize("alternate", [0, 1])
def test_signal_handler_that_writes_in_the_middle(
    program: Runner, data: Path, build: Build, tmp_path: Path, alternate: int
) -> None:
    # GIVEN reads in a loop, and a signal handler that writes, also on an alternate stack of 8 KiB
    outcome = call(program, build(["-O2"]), "signals_in_the_middle", data, tmp_path / "out", 2000, alternate)
    # WHEN signals come in at any moment THEN not one call is lost or mixed up
    reads, writes = map(int, outcome.stdout.split())
    rows = outcome.select(op="pread", path=data)
    assert [row["file_offset"] for row in rows] == [n % 1000 for n in range(reads)]
    assert {(row["bytes_requested"], row["bytes_moved"], row["errno"]) for row in rows} == {(16, 16, 0)}
    rows = outcome.select(op="write", path=tmp_path / "out")
    assert (len(rows), {row["bytes_moved"] for row in rows}) == (writes, {10})
    assert (tmp_path / "out").stat().st_size == writes * 10
    assert outcome.log.losses() == {}


@everywhere
@pytest.mark.parametrize("stack", [0, 16384, 65536])
def test_threads_that_never_see_python(program: Runner, data: Path, build: Build, stack: int) -> None:
    # GIVEN threads of C, also with the smallest stack there can be WHEN they read
    outcome = call(program, build([]), "threads_without_python", data, stack)
    # THEN their reads are there, per thread, with no line of Python
    rows = outcome.select(op="pread", path=data)
    assert sorted(Counter(row["tid"] for row in rows).values()) == [500] * 4
    assert {row["site"] for row in rows} == {None}
    assert outcome.pid not in {row["tid"] for row in rows}


@everywhere
def test_vfork_and_exec(program: Runner, data: Path, build: Build) -> None:
    # GIVEN vforks of C whose children change their descriptors, then exec, or fail to
    outcome = call(program, build([]), "vfork_and_exec", data, 40, env={"PYIO_TRACE_INCLUDE": "dev"})
    # WHEN they are made THEN the parent's descriptors are what they were, and nothing is lost
    rows = outcome.select(op="pread", path=data)
    ours = [row for row in rows if row["pid"] == outcome.pid]
    assert [(row["file_offset"], row["bytes_moved"]) for row in ours] == [(n, 100) for n in range(40)]
    assert not {row["file"] for row in ours} & {row["file"] for row in outcome.select(op="open", path="/dev/null")}
    # AND what a child opened under the number of its parent's pipe is its own
    theirs = sorted((row["file_offset"], row["bytes_moved"]) for row in rows if row not in ours)
    assert theirs == [(1000 + n, 50) for n in range(40)]
    assert len(outcome.select(op="close", path=data)) == 40 + 1
    children = {row["pid"] for row in outcome.select(op="open", path="/dev/null")} - {outcome.pid}
    assert len(children) == 40
    ended = Counter(outcome.process(pid)["ended"] for pid in children)
    assert ended["exit 0"] == 20 and sum(ended.values()) == 40
    assert len(outcome.select(op="execve", path="/nonexistent", errno=2)) == 20
    assert "torn" not in outcome.log.losses()


@everywhere
@pytest.mark.parametrize("way", ["fork", "_Fork", "syscall"])
def test_forks_of_c(program: Runner, data: Path, build: Build, way: str) -> None:
    # GIVEN forks of C, also those that run no handlers, with reads on both sides at the same time
    outcome = call(program, build([]), "forks", data, way, 20)
    # WHEN they are made THEN no side's reads are overwritten by the other's
    offsets = Counter(row["file_offset"] for row in outcome.select(op="pread", path=data))
    assert offsets == {**{1000 + n: 20 for n in range(50)}, **{2000 + n: 20 for n in range(50)}}
    assert len({row["pid"] for row in outcome.select(op="pread", path=data, file_offset=2000)}) == 20
    assert outcome.log.losses() == {}


@everywhere
def test_streams(program: Runner, tmp_path: Path, build: Build) -> None:
    # GIVEN a C stream that is written and read in every way WHEN it is THEN its calls are there, with their bytes
    outcome = call(program, build([]), "streams", tmp_path / "stream")
    rows = outcome.select(layer="stdio", path=tmp_path / "stream")
    # Small calls that follow each other share a row, unless the machine lets 10 ms pass between them.
    found = []
    for op, group in groupby(rows, key=itemgetter("op")):
        part = list(group)
        moved = None if part[0]["bytes_moved"] is None else sum(row["bytes_moved"] or 0 for row in part)
        found.append((op, moved, sum(row["calls"] for row in part)))
    assert found == [
        ("fopen", None, 1), ("fwrite", 11, 1), ("fputs", 7, 1), ("fprintf", 5, 1), ("fflush", None, 1),
        ("fseek", None, 1), ("fread", 4, 2), ("fgets", 7, 1), ("getline", 12, 3), ("fseek", None, 1),
        ("ftell", None, 1), ("fclose", None, 1),
    ]  # fmt: skip
    assert [row["errno"] for row in outcome.select(op="fopen", path="/nonexistent")] == [2]
