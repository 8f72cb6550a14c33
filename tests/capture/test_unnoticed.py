"""The program's own profiler, debugger, audit hook, tracebacks and memory counts show nothing of the tracer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

# Imports of modules that are watched and of others, and of one that is not there; file objects of each kind; work
# handed to threads, and work that is refused.
_WORK = """\
import gc, io, os, sys, threading

def work(path):
    import concurrent.futures.thread, colorsys, mmap
    try:
        import no_such_module
    except ImportError:
        pass
    with open(path, "w") as file:
        file.write("line" * 10)
    with open(path) as file:
        list(file), file.seek(0), file.read(3)
    with open(path, "r+b") as file:
        file.read(3)
        mapped = mmap.mmap(file.fileno(), 0)
        mapped[0], mapped.read(3), mapped.close()
    with open(path, "rb", buffering=0) as file:
        file.readinto(bytearray(5))
    try:
        open(path + ".absent")
    except OSError:
        pass
    with concurrent.futures.thread.ThreadPoolExecutor(1) as pool:
        pool.submit(os.stat, path)
    try:
        pool.submit(len, "")
    except RuntimeError as problem:
        at = problem.__traceback__
        while at:
            print("traceback", at.tb_frame.f_code.co_qualname)
            at = at.tb_next

# The import system asks one finder more; how often the threads' own code waits is chance.
LEFT_OUT = ("<frozen importlib._bootstrap", threading.__file__)
seen = []
gc.disable()
"""
_WATCHERS = {
    "profile": """
def watch(frame, event, argument):
    name = argument.__qualname__ if event.startswith("c_") else frame.f_code.co_qualname
    if not frame.f_code.co_filename.startswith(LEFT_OUT):
        seen.append((event, frame.f_code.co_filename, name))
sys.setprofile(watch)
work(sys.argv[1])
sys.setprofile(None)
""",
    "trace": """
def watch(frame, event, argument):
    if not frame.f_code.co_filename.startswith(LEFT_OUT):
        seen.append((event, frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))
    return watch
sys.settrace(watch)
work(sys.argv[1])
sys.settrace(None)
""",
    "audit": """
watching = True
def watch(event, arguments):
    if watching and event != "builtins.id":  # an address
        seen.append((event, [argument for argument in arguments if isinstance(argument, (str, int))][:1]))
sys.addaudithook(watch)
work(sys.argv[1])
watching = False
""",
    "monitoring": """
events, main = sys.monitoring.events, threading.get_ident()
sys.monitoring.use_tool_id(2, "test")
def watch(code, *rest):
    if threading.get_ident() == main and not code.co_filename.startswith(LEFT_OUT):
        seen.append((code.co_filename, code.co_qualname))
for event in (events.PY_START, events.PY_RETURN, events.RAISE):
    sys.monitoring.register_callback(2, event, watch)
sys.monitoring.set_events(2, events.PY_START | events.PY_RETURN | events.RAISE)
work(sys.argv[1])
sys.monitoring.set_events(2, 0)
""",
}


@pytest.mark.parametrize("watcher", _WATCHERS)
def test_the_programs_own_instruments_see_the_same(program: Runner, tmp_path: Path, watcher: str) -> None:
    # GIVEN a program that is watched by itself, event by event
    if watcher == "monitoring" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring came with 3.12")
    text = _WORK + _WATCHERS[watcher] + "print(*seen, sep=chr(10))\n"
    fixed: dict[str, str | None] = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    # WHEN it is run untraced and traced
    bare = succeeded(program.bare(text, tmp_path / "file", env=fixed))
    if watcher == "audit":  # reading an instrument is an import, which this hook is told of
        fixed["PYIO_TRACE_INSTRUMENTS"] = "-concurrent"
    traced = succeeded(program.traced(text, tmp_path / "file", env=fixed))
    # THEN it saw the same, of each function and in each traceback, though all of it is in the log
    assert len(bare.stdout.splitlines()) > 50
    assert bare.stdout.splitlines() == traced.stdout.splitlines()
    assert {row["op"] for row in traced.select(path=tmp_path / "file")} >= {"TextIOWrapper.write", "mmap.read"}


def test_no_memory_and_no_reference_is_lost(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that counts its blocks of memory before and after 400 rounds of the same, caches warmed up
    text = (
        _WORK
        + """
def blocks(rounds):
    for _ in range(rounds):
        work(sys.argv[1])
    gc.collect()
    return sys.getallocatedblocks()
sys.stdout = open(os.devnull, "w")
first, second, third = blocks(800), blocks(400), blocks(400)
sys.stderr.write(str(min(second - first, third - second)))  # 3.15 fills its own caches for longer than others
"""
    )
    # WHEN it is run untraced and traced THEN neither has as much as a block for each round more
    bare = succeeded(program.bare(text, tmp_path / "file"))
    traced = succeeded(program.traced(text, tmp_path / "file"))
    assert int(bare.stderr) < 300 and int(traced.stderr) < 300


def test_a_small_log_is_not_read_ahead(program: Runner, data: Path) -> None:
    # GIVEN a program with some hundred operations, so that its log goes on in blocks that were not there at its start
    text = """\
    import ctypes, mmap, os, sys
    for _ in range(100):
        os.close(os.open(sys.argv[1], os.O_RDONLY))
    # WHEN it looks which pages of its log are in memory
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    size = 4 << 20
    log = os.open(sys.argv[2], os.O_RDONLY)
    there = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, log, 0)
    assert libc.mincore(at, size, there) == 0, os.strerror(ctypes.get_errno())
    print(sum(byte & 1 for byte in there) * mmap.PAGESIZE)
    """
    outcome = succeeded(program.traced(text, data, program.folder / "run.pyio"))
    # THEN it is those that it uses, and the ones that every log begins with; a file system may have some larger pages
    assert len(outcome.select(op="close", path=data)) == 100
    assert int(outcome.stdout) <= outcome.path.stat().st_size + (5 << 19)
