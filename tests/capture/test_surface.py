"""All of libc's file functions, family by family: C programs count their own calls, and the log must agree.

Each program of tests/csrc/surface is built plain, fortified and for large files, and run bare and traced.  Results and
errno must be the same in both runs, and the log must have the calls that the program counted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

SOURCES = Path(__file__).parent.parent / "csrc" / "surface"
FLAGS = {
    "plain": ["-O0"],
    "fortified": ["-O2", "-D_FORTIFY_SOURCE=3", "-fno-inline"],
    "large files": ["-O2", "-D_FILE_OFFSET_BITS=64", "-fno-inline"],
}
BUILDS = {**FLAGS, "inlined": ["-O2"]}

Built = Callable[[str, str], Path]
#: calls and bytes (None: there are none to tell) by operation, file and errno
Account = dict[tuple[str, str, int], tuple[int, int | None]]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds a program of tests/csrc/surface as a library, once."""
    folder = tmp_path_factory.mktemp("surface")
    compiler = shutil.which("cc")
    assert compiler, "these tests need a C compiler"

    def build(name: str, flags: str) -> Path:
        path = folder / f"{name} {flags}.so"
        if not path.exists():
            words = [compiler, "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-Wno-unused-result", *BUILDS[flags]]
            subprocess.run([*words, "-o", str(path), str(SOURCES / f"{name}.c")], check=True, capture_output=True)
        return path

    return build


def both_runs(program: Runner, tmp_path: Path, library: Path, *more: str) -> tuple[str, Outcome]:
    """What the program said of itself in the bare run and, if it was the same, the outcome of the traced one."""
    name = library.name.split()[0]
    said = []
    for side in ("bare", "traced"):
        folder, told = tmp_path / side, tmp_path / f"{side}.txt"
        folder.mkdir()
        words = [str(folder), str(told), *(f"{text}-{side}-{os.getpid()}" for text in more)]
        arguments = ", ".join(repr(word.encode()) for word in words)
        text = f"""\
        import ctypes, sys
        line = ctypes.CDLL({str(library)!r}).{name}({arguments})
        sys.exit(f"line {{line}} of the C code went wrong" if line else 0)
        """
        outcome = succeeded(program.traced(text) if side == "traced" else program.bare(text))
        said.append(told.read_text().replace(f"-{side}-", "-"))
    assert said[0] == said[1]
    return said[0], outcome


def account_of(said: str) -> Account:
    """The program's account."""
    lines = [line.split() for line in said.split("----\n")[1].splitlines()]
    return {
        (op, file, int(error)): (int(calls), None if moved == "-1" else int(moved))
        for op, file, error, calls, moved in lines
    }


def account_in(outcome: Outcome, folder: Path, *more: Path) -> Account:
    """The log's account of the files in a folder, and of more."""
    found: dict[tuple[str, str, int], tuple[int, int | None]] = defaultdict(lambda: (0, None))
    for row in outcome.rows:
        path = Path((row["path"] or "/").removesuffix(" (deleted)"))
        if folder not in path.parents and path not in more:
            continue
        key = row["op"], path.name, row["errno"]
        calls, moved = found[key]
        found[key] = calls + row["calls"], moved if row["bytes_moved"] is None else (moved or 0) + row["bytes_moved"]
    return dict(found)


@pytest.mark.parametrize("flags", FLAGS)
def test_streams(program: Runner, tmp_path: Path, built: Built, flags: str) -> None:
    # GIVEN C streams, used in every way, bare and traced WHEN the results are the same
    said, outcome = both_runs(program, tmp_path, built("streams", flags))
    # THEN the log has what the program did
    assert account_in(outcome, tmp_path / "traced") == account_of(said)
    # THEN what came character by character is a few rows, and no stream without a file has any
    rows = [row for row in outcome.rows if row["layer"] == "stdio"]
    assert sum(row["calls"] for row in rows) > 20000
    assert len(rows) < 1000
    assert not [row for row in rows if row["path"] is None]
    # THEN a temporary file has the kernel's name
    [row] = outcome.select(op="tmpfile")
    assert row["path"].startswith("/tmp/") and row["fd"] >= 0
    assert outcome.log.losses() == {}


def test_inlined_calls(program: Runner, tmp_path: Path, built: Built) -> None:
    # GIVEN characters that an optimised program takes from the buffer itself WHEN libc is called once a buffer
    said, outcome = both_runs(program, tmp_path, built("inlined", "inlined"))
    # THEN the log has each buffer's bytes
    assert account_in(outcome, tmp_path / "traced") == account_of(said)


@pytest.mark.parametrize("flags", FLAGS)
def test_files(program: Runner, tmp_path: Path, built: Built, flags: str) -> None:
    # GIVEN files, used in every other way, bare and traced WHEN the results are the same
    said, outcome = both_runs(program, tmp_path, built("files", flags), "pyio")
    # THEN the log has what the program did
    theirs = account_of(said)
    [shared] = {name for _, name, _ in theirs if name.startswith("pyio-")}
    found = account_in(outcome, tmp_path / "traced", Path("/dev/shm", shared.replace("-", "-traced-")))
    mine = {(op, shared if name[:5] == "pyio-" else name, error): made for (op, name, error), made in found.items()}
    for unsaid in ("ioctl(FICLONE)", "ioctl(FICLONERANGE)"):  # what they answer depends on the file system
        [key] = [key for key in mine if key[:2] == (unsaid, "nodes")]
        assert mine.pop(key) == (1, 0 if key[2] else None)
    assert mine == theirs
    # THEN calls that name no file have rows of their own
    assert len(outcome.select(op="sync")) == 1
    assert len(outcome.select(op="lio_listio")) == 1
    # THEN an asynchronous operation has its place and size, and lasted until the program learnt of its end
    rows = [row for row in outcome.select(op="aio_write", errno=0) if row["path"].endswith("/aio")]
    assert sorted((row["file_offset"], row["bytes_requested"]) for row in rows) == [(n * 1000, 1000) for n in range(40)]
    assert all(row["duration"] > 0 for row in rows)
    assert outcome.log.losses() == {}


def test_children(program: Runner, tmp_path: Path, built: Built) -> None:
    # GIVEN processes that libc starts in its own ways, bare and traced WHEN the results are the same
    _, outcome = both_runs(program, tmp_path, built("children", "plain"))
    # THEN each has its row, with the shell's command
    commands = [(row["op"], row["path"]) for row in outcome.select(op=("system", "popen"))]
    assert commands == [("system", "exit 3"), ("popen", "echo from the shell")]
    assert [len(outcome.select(op=op)) for op in ("pclose", "forkpty", "daemon", "clone")] == [1, 1, 1, 1]
    # THEN what a child wrote is the child's, whole, and its parent's is the parent's
    writes: dict[str, list[int]] = defaultdict(list)
    for row in outcome.select(op="write", path=lambda path: path and path.startswith(f"{tmp_path}/traced/")):
        writes[Path(row["path"]).name].append(row["pid"])
    assert {name: (len(pids), len(set(pids))) for name, pids in writes.items()} == {
        "in-forkpty": (20, 1), "in-clone": (30, 1), "beside-clone": (30, 1), "in-vfork": (30, 1), "in-daemon": (10, 1),
    }  # fmt: skip
    assert len({pids[0] for pids in writes.values()}) == 5 and writes["beside-clone"][0] == outcome.pid
    # THEN descriptors 0 to 2 of a child with another terminal, or none, are not its parent's any more
    assert not outcome.select(op="write", fd=1, path=lambda path: path and path.startswith(str(tmp_path)))


def test_bound_to_an_old_function(program: Runner, tmp_path: Path) -> None:
    # GIVEN a library that was built when `glob` was another function of the same name, to be bound lazily
    source = tmp_path / "old.c"
    source.write_text(
        '#include <glob.h>\n__asm__(".symver glob, glob@GLIBC_2.2.5");\n'
        "int old(const char *name) { glob_t found; return glob(name, 0, 0, &found) ? -1 : (int)found.gl_pathc; }\n"
    )
    library = tmp_path / "old.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-z,lazy,-z,norelro", "-o", library, source], check=True)
    text = f"""\
    import ctypes, os
    os.symlink("nowhere", "dangling")
    library = ctypes.CDLL({str(library)!r}, os.RTLD_LAZY)
    print(library.old(b"dangl*"), ctypes.CDLL(None).glob(b"*", 0, None, ctypes.create_string_buffer(200)))
    """
    # WHEN it is called THEN it gets the old one's answer: dangling links are not found
    bare = succeeded(program.bare(text)).stdout
    Path(tmp_path, "dangling").unlink()
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == bare
    # THEN the new one has its row
    assert len(outcome.select(op="glob")) == 1


def test_a_form_that_somebody_put_before_libcs(program: Runner, tmp_path: Path) -> None:
    # GIVEN a preloaded library with an fprintf of its own, which libc's vfprintf does not call
    source = tmp_path / "own.c"
    source.write_text(
        "#include <stdarg.h>\n#include <stdio.h>\n"
        'int fprintf(FILE *f, const char *format, ...) { (void)format; return fputs("own\\n", f); }\n'
    )
    library = tmp_path / "own.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", library, source], check=True)
    user = tmp_path / "user.c"
    user.write_text('#include <stdio.h>\nint user(void) { return fprintf(stdout, "%d\\n", 5) + fflush(stdout); }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", tmp_path / "user.so", user], check=True)
    text = f"""\
    import ctypes
    ctypes.CDLL({str(tmp_path / "user.so")!r}).user()
    """
    # WHEN a program that has it is traced THEN it is still the one that is called
    outcome = succeeded(program.traced(text, env={"LD_PRELOAD": str(library)}))
    assert outcome.stdout == "own\n"


def test_every_name_leads_to_its_hook(program: Runner) -> None:
    # GIVEN the names of hooks.def
    names = [word.split(",")[0] for word in _hook_lines()]
    assert len(names) > 400
    text = f"""\
    import ctypes, os, sys
    libc = ctypes.CDLL(None)
    # a program at a fixed address has stubs of its own for some names; they lead through its slots
    fixed = open("/proc/self/exe", "rb").read(18)[16] == 2
    program = os.readlink("/proc/self/exe") if fixed else None
    maps = [line.split() for line in open("/proc/self/maps")]
    maps = [line for line in maps if "libpyio_trace" in line[-1] or line[-1] == program]
    ranges = [tuple(int(end, 16) for end in line[0].split("-")) for line in maps]
    for name in {names!r}:
        address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value if hasattr(libc, name) else None
        print(name, "none" if address is None else any(low <= address < high for low, high in ranges))
    """
    # WHEN a traced program looks one up THEN it gets our function, unless this libc has none of that name
    answers = dict(line.split() for line in succeeded(program.traced(text)).stdout.splitlines())
    missing = subprocess.run([sys.executable, "-c", _ABSENT.format(names=names)], capture_output=True, text=True)
    assert {name for name, answer in answers.items() if answer == "none"} == set(missing.stdout.split())
    assert [name for name, answer in answers.items() if answer == "False"] == []


_ABSENT = "import ctypes; libc = ctypes.CDLL(None); print(*[n for n in {names!r} if not hasattr(libc, n)])"


def _hook_lines() -> list[str]:
    text = (SOURCES.parents[2] / "csrc" / "core" / "hooks" / "hooks.def").read_text().split("#endif", 1)[1]
    return [part.split("(")[1] for part in text.split(")") if "HOOK(" in part or "THROUGH(" in part]
