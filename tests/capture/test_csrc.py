"""What C code does: every way to a libc function, signals, threads and processes of its own (tests/csrc/)."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

SOURCES = Path(__file__).parent.parent / "csrc"
FLAGS = {
    "lazy": ["-Wl,-z,lazy,-z,norelro"],
    "relro": ["-Wl,-z,relro,-z,lazy"],
    "bind now": ["-Wl,-z,relro,-z,now"],
    "no plt": ["-fno-plt", "-O2"],
    "fortified": ["-O2", "-D_FORTIFY_SOURCE=2", "-Wno-unused-result"],
}

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds a library of tests/csrc with flags, once."""
    folder = tmp_path_factory.mktemp("csrc")
    compiler = shutil.which("cc")
    assert compiler, "these tests need a C compiler"

    def build(flags: list[str], source: str = "hazards.c", name: str = "hazards.so") -> Path:
        place = folder / str(abs(hash((*flags, source, name))))
        place.mkdir(exist_ok=True)
        if not (place / name).exists():
            words = [compiler, "-shared", "-fPIC", "-U_FORTIFY_SOURCE", *flags, "-o", str(place / name),
                     str(SOURCES / source), "-ldl", "-lpthread"]  # fmt: skip
            subprocess.run(words, check=True, capture_output=True)
        return place / name

    return build


def call(program: Runner, library: Path, function: str, *args: object) -> Outcome:
    """Calls a function of a library from a traced Python; it must return 0."""
    text = f"""\
import ctypes, os, sys
result = ctypes.CDLL({str(library)!r}).{function}({", ".join(_spelt(arg) for arg in args)})
if result:
    sys.exit(f"line {{result}} of the C code went wrong")
"""
    return succeeded(program.traced(text))


def _spelt(argument: object) -> str:
    return repr(argument) if isinstance(argument, int) else repr(str(argument).encode())


def check_reads(outcome: Outcome, data: Path, times: int, size: int = 100) -> None:
    rows = outcome.select(op="pread", path=data)
    assert [row["offset"] for row in rows] == list(range(times))
    assert {(row["size"], row["moved"]) for row in rows} == {(size, size)}
    assert len(outcome.select(op="open", path=data, layer="posix")) == 1
    assert len(outcome.select(op="close", path=data, layer="posix")) >= 1


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("function", ["plain_calls", "table_calls", "looked_up_calls"])
def test_every_way_to_a_function(program: Runner, data: Path, build: Build, function: str, flags: str) -> None:
    # GIVEN a library built in this way, loaded late WHEN it reads in this way THEN its calls are there
    outcome = call(program, build(FLAGS[flags]), function, data, 300)
    check_reads(outcome, data, 300)
    # THEN they have the line of Python that led to them
    line = f"{outcome.path.parent}/program.py:2:<module>"
    assert {row["site"] for row in outcome.select(op="pread", path=data)} == {line}


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
    library = build(FLAGS["bind now"])
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


def test_library_found_by_its_callers_runpath(program: Runner, data: Path, build: Build) -> None:
    # GIVEN a library that loads another one by its own RUNPATH
    outer = build(["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"], "outer.c", "libouter.so")
    (outer.parent / "inner").mkdir(exist_ok=True)
    shutil.copy(build([]), outer.parent / "inner" / "libinner.so")
    # WHEN it does THEN it is found, and its calls are there
    check_reads(call(program, outer, "through_inner", data, 100), data, 100)


def test_libraries_that_come_and_go(program: Runner, data: Path, build: Build) -> None:
    # GIVEN libraries that are loaded and unloaded over and over, in a stretch that is traced and after it
    libraries = [str(build(flags)) for flags in FLAGS.values()]
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


@pytest.mark.parametrize("flags", ["lazy", "bind now", "fortified"])
def test_errno_is_left_alone(program: Runner, data: Path, build: Build, flags: str) -> None:
    # GIVEN calls with errno set before WHEN they succeed THEN errno is what it was; where they fail it is theirs
    outcome = call(program, build(FLAGS[flags]), "errno_is_left_alone", data, "/nonexistent/file")
    assert [row["errno"] for row in outcome.select(op=("open", "stat"), path="/nonexistent/file")] == [2] * 4


def test_variadic_arguments(program: Runner, tmp_path: Path, build: Build) -> None:
    # GIVEN calls whose last argument is there or not, an int or a pointer WHEN they are made THEN they get it
    outcome = call(program, build([]), "variadic_arguments", tmp_path / "made")
    assert len(outcome.select(op="fcntl", path=tmp_path / "made")) == 7


@pytest.mark.parametrize("alternate", [0, 1])
def test_signal_handler_that_writes_in_the_middle(
    program: Runner, data: Path, build: Build, tmp_path: Path, alternate: int
) -> None:
    # GIVEN reads in a loop, and a signal handler that writes, also on an alternate stack of 8 KiB
    outcome = call(program, build(["-O2"]), "signals_in_the_middle", data, tmp_path / "out", 2000, alternate)
    # WHEN signals come in at any moment THEN not one call is lost or mixed up
    reads, writes = map(int, outcome.stdout.split())
    rows = outcome.select(op="pread", path=data)
    assert [row["offset"] for row in rows] == [n % 1000 for n in range(reads)]
    assert {(row["size"], row["moved"], row["errno"]) for row in rows} == {(16, 16, 0)}
    rows = outcome.select(op="write", path=tmp_path / "out")
    assert (len(rows), {row["moved"] for row in rows}) == (writes, {10})
    assert (tmp_path / "out").stat().st_size == writes * 10
    assert outcome.log.losses() == {}


@pytest.mark.parametrize("stack", [0, 16384, 65536])
def test_threads_that_never_see_python(program: Runner, data: Path, build: Build, stack: int) -> None:
    # GIVEN threads of C, also with the smallest stack there can be WHEN they read
    outcome = call(program, build([]), "threads_without_python", data, stack)
    # THEN their reads are there, per thread, with no line of Python
    rows = outcome.select(op="pread", path=data)
    assert sorted(Counter(row["tid"] for row in rows).values()) == [500] * 4
    assert {row["site"] for row in rows} == {None}
    assert outcome.pid not in {row["tid"] for row in rows}


def test_vfork_and_exec(program: Runner, data: Path, build: Build) -> None:
    # GIVEN vforks of C whose children change their descriptors, then exec, or fail to
    outcome = call(program, build([]), "vfork_and_exec", data, 40)
    # WHEN they are made THEN the parent's descriptors are what they were, and nothing is lost
    rows = outcome.select(op="pread", path=data)
    assert [(row["offset"], row["pid"]) for row in rows] == [(n, outcome.pid) for n in range(40)]
    children = {row["pid"] for row in outcome.select(op="open", path="/dev/null")} - {outcome.pid}
    assert len(children) == 40
    ended = Counter(outcome.process(pid)["ended"] for pid in children)
    assert ended["exit 0"] == 20 and sum(ended.values()) == 40
    assert len(outcome.select(op="execve", path="/nonexistent", errno=2)) == 20
    assert "torn" not in outcome.log.losses()


@pytest.mark.parametrize("way", ["fork", "_Fork", "syscall"])
def test_forks_of_c(program: Runner, data: Path, build: Build, way: str) -> None:
    # GIVEN forks of C, also those that run no handlers, with reads on both sides at the same time
    outcome = call(program, build([]), "forks", data, way, 20)
    # WHEN they are made THEN no side's reads are overwritten by the other's
    offsets = Counter(row["offset"] for row in outcome.select(op="pread", path=data))
    assert offsets == {**{1000 + n: 20 for n in range(50)}, **{2000 + n: 20 for n in range(50)}}
    assert len({row["pid"] for row in outcome.select(op="pread", path=data, offset=2000)}) == 20
    assert outcome.log.losses() == {}


def test_streams(program: Runner, tmp_path: Path, build: Build) -> None:
    # GIVEN a C stream that is written and read in every way WHEN it is THEN its calls are there, with their bytes
    outcome = call(program, build([]), "streams", tmp_path / "stream")
    rows = outcome.select(layer="stdio", path=tmp_path / "stream")
    assert [(row["op"], row["moved"]) for row in rows] == [
        ("fopen", None), ("fwrite", 11), ("fputs", 7), ("fprintf", 5), ("fflush", None), ("fseek", None), ("fread", 4),
        ("fgets", 7), ("getline", 7), ("getline", 5), ("getline", 0), ("fread", 0), ("fseek", None), ("fclose", None),
    ]  # fmt: skip
    assert [row["errno"] for row in outcome.select(op="fopen", path="/nonexistent")] == [2]
