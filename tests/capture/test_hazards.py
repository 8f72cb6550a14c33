"""Hazards found in a review of the capture: programs that tracing once broke, or that once damaged the log.

Each test is the smallest program that showed the fault.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import Runner, clean_environment, succeeded

HELPER = Path(__file__).resolve().parents[1] / "csrc" / "hazards" / "loads.c"


def test_a_failed_start_of_a_program_while_suppressed(program: Runner, data: Path) -> None:
    # GIVEN a vfork whose record is suppressed WHEN its child fails to exec and _exits in the parent's memory
    text = """\
    import os, subprocess, sys, pyio_trace
    with pyio_trace.suppress():
        try: subprocess.run(["/nonexistent/program"])
        except FileNotFoundError: pass
        subprocess.run(["/bin/true"], close_fds=True)
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.pread(fd, 10, 0)
    """
    # THEN the run has not ended with the child
    outcome = succeeded(program.traced(text, data))
    assert len(outcome.select(op="pread", path=data)) == 1
    assert outcome.process(outcome.pid)["ended"] == "exit 0"


@pytest.mark.parametrize("kind", ["REAL", "VIRTUAL", "PROF"])
def test_an_alarm_that_the_program_does_not_live_to_see(program: Runner, kind: str) -> None:
    # GIVEN an alarm set for shortly after the program's end WHEN the end of the run takes longer THEN the status is 0
    text = """\
    import os, signal, sys, time
    for n in range(100_000): os.access("/", 0)
    signal.setitimer(getattr(signal, "ITIMER_" + sys.argv[1]), 0.1)
    """
    for _ in range(5):  # a busy machine may take that long for the end of the program itself
        outcome = program.traced(text, kind, log="run.parquet", env={"PYIO_TRACE_QUIET": None})
        if outcome.status == 0:
            break
    assert (outcome.status, outcome.stdout) == (0, "")


def test_a_thread_that_waits_for_the_terminal(program: Runner, tmp_path: Path) -> None:
    # GIVEN a daemon thread in input(), which holds the lock of C's stdin WHEN the program ends
    # the first word of `syscall` is the call a thread sleeps in: read is 0 on x86-64, 63 on aarch64
    script = program.write("""\
    import threading
    from waiting import wait_until
    thread = threading.Thread(target=input, daemon=True)
    thread.start()
    syscall = f"/proc/self/task/{thread.native_id}/syscall"
    wait_until(lambda: open(syscall).read().split()[0] in ("0", "63"), "a read of the terminal")
    """)
    program.write_waiting()
    if _status_at_a_terminal(script, {}, 10) is None:
        pytest.skip("this C library waits for that lock in exit() itself (glibc 2.43 does)")
    # THEN it does end
    traced = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(tmp_path / "run.pyio"), "PYIO_TRACE_QUIET": "1"}
    assert _status_at_a_terminal(script, traced, 240) == 0


def _status_at_a_terminal(script: Path, variables: dict[str, str], patience: float) -> int | None:
    """How a script ends whose input is a terminal; None: it does not."""
    ours, theirs = pty.openpty()
    environment = clean_environment(**variables)
    process = subprocess.Popen([sys.executable, script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    try:
        return process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("name", ["queue", "calendar", "numpy", "types"])
def test_modules_of_the_current_folder(program: Runner, tmp_path: Path, name: str) -> None:
    # GIVEN a file next to the script with the name of a module we need WHEN the run ends THEN it is not imported
    (tmp_path / f"{name}.py").write_text("raise SystemExit('imported ' + __name__)\n")
    outcome = program.traced("open('/dev/null').close()", flags=["-P"], env={"PYIO_TRACE_QUIET": None})
    assert outcome.status == 0
    assert "imported" not in outcome.stderr and ", 1 process, " in outcome.stderr


def test_variables_meant_for_the_program_alone(program: Runner) -> None:
    # GIVEN a program told to be interactive and strict WHEN its run ends THEN what ends it is neither
    environment = {"PYTHONINSPECT": "1", "PYTHONWARNINGS": "error", "PYTHONVERBOSE": None, "PYIO_TRACE_QUIET": None}
    outcome = program.traced("open('/dev/null').close()", env=environment, stdin="")
    assert "SystemExit" not in outcome.stderr and ", 1 process, " in outcome.stderr


def test_stderr_is_closed(program: Runner, tmp_path: Path) -> None:
    # GIVEN no stderr WHEN tracing cannot start, and when it can THEN the program runs as it does untraced
    for log in ("nowhere/run.pyio", "run.pyio"):
        outcome = program.traced(
            "import pyio_trace.auto; print('ran')", log=log, before=lambda: os.close(2), env={"PYIO_TRACE_QUIET": None}
        )
        assert (outcome.status, outcome.stdout) == (0, "ran\n")


def test_a_subinterpreter(program: Runner, data: Path) -> None:
    # GIVEN a second interpreter in the process, which runs the .pth again WHEN it does I/O
    text = """\
    import sys
    try: import _interpreters as interpreters
    except ImportError: import _xxsubinterpreters as interpreters
    number = interpreters.create()
    code = f"import os; fd = os.open({sys.argv[1]!r}, os.O_RDONLY); os.pread(fd, 10, 0); os.close(fd)"
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    run(number, code)
    interpreters.destroy(number)
    """
    # THEN nothing is said, and the I/O is there
    outcome = succeeded(program.traced(text, data))
    assert outcome.stderr == ""
    assert len(outcome.select(op="pread", path=data)) == 1


def test_a_stop_in_the_middle_of_a_coalesced_call(program: Runner, tmp_path: Path) -> None:
    # GIVEN a thread whose small reads make one record, now inside a decoder of Python's WHEN tracing stops there
    text = """\
    import codecs, threading, pyio_trace
    inside, stopped, calls = threading.Event(), threading.Event(), []
    class Decoder(codecs.IncrementalDecoder):
        def decode(self, data, final=False):
            calls.append(len(data))
            if len(calls) == 20:
                inside.set(); stopped.wait(60)
            return data.decode()
    def find(name):
        if name == "halting":
            return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=Decoder, name=name)
    codecs.register(find)
    with open("text", "w") as file: file.write("x" * 1_000_000)
    def work():
        with open("text", encoding="halting") as file:
            while file.read(100): pass
    for n in range(2):
        calls.clear(); inside.clear(); stopped.clear()
        with pyio_trace.trace(f"{n}.pyio"):
            thread = threading.Thread(target=work); thread.start()
            assert inside.wait(60)
        stopped.set(); thread.join()
    """
    # THEN the thread goes on unharmed, and both logs are whole
    succeeded(program.bare(text))
    for n in range(2):
        outcome = program.command(["true"], log=f"{n}.pyio")
        assert outcome.select(op="TextIOWrapper.read")
        assert "torn" not in outcome.log.losses()


def test_an_error_inside_a_run_of_small_calls(program: Runner, tmp_path: Path) -> None:
    # GIVEN small writes that make one record WHEN some of them fail
    text = """\
    import resource
    file = open("data", "wb", buffering=0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    failed = 0
    for n in range(15):
        try: file.write(b"x" * 10)
        except OSError: failed += 1
    assert failed == 5
    """
    outcome = succeeded(program.traced(text))
    rows = outcome.select(op="FileIO.write", path=tmp_path / "data")
    # THEN each failure is a row with its errno, and all calls are counted
    good = [row for row in rows if row["errno"] == 0]
    assert (sum(row["calls"] for row in good), sum(row["bytes_moved"] for row in good)) == (10, 100)
    assert [row["errno"] for row in rows if row["errno"]] == [27] * 5


def test_suppression_that_outlives_a_stretch(program: Runner, data: Path) -> None:
    # GIVEN suppress() entered in one traced stretch and left after it WHEN there is another stretch
    text = """\
    import os, sys, pyio_trace
    quiet = pyio_trace.suppress()
    with pyio_trace.trace("first.pyio"): quiet.__enter__()
    quiet.__exit__(None, None, None)
    with pyio_trace.trace("second.pyio"): os.stat(sys.argv[1])
    """
    succeeded(program.bare(text, data))
    # THEN it is not suppressed
    assert len(program.command(["true"], log="second.pyio").select(op="stat", path=data)) == 1


def test_a_limit_on_the_address_space_set_by_the_program(program: Runner) -> None:
    # GIVEN a program that limits its own address space below what the log maps WHEN it allocates well within the limit
    text = """\
    import os, resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    block = bytearray(200 << 20)
    for n in range(1000): os.access("/", 0)
    """
    # THEN it may, and is traced on
    outcome = succeeded(program.traced(text))
    assert len(outcome.select(op="access", path="/")) == 1000


@pytest.mark.slow
def test_a_child_that_can_map_less_of_the_log(program: Runner) -> None:
    # GIVEN a log larger than what a child under a limit may map WHEN the child finds no room
    text = """\
    import os, resource, subprocess, sys
    for n in range(900_000): os.access("/", 0)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
    subprocess.run([sys.executable, "-c", "import os; os.access('/etc', 0)"], preexec_fn=limit, check=True)
    for n in range(1000): os.access("/usr", 0)
    """
    # THEN the others' log is not full
    outcome = succeeded(program.traced(text))
    assert len(outcome.select(op="access", path="/usr")) == 1000
    assert "full" not in str(outcome.log.losses().get("reason", ""))


@pytest.mark.parametrize(
    "flags", [["-mpyio_trace"], ["-Ompyio_trace"], ["-OW", "error", "-m", "pyio_trace"],
              ["--check-hash-based-pycs", "always", "-m", "pyio_trace"],
              ["-c", "import sys; from pyio_trace.cli.main import main; main(sys.argv[1:])"]],
)  # fmt: skip
def test_ways_to_name_the_launcher(program: Runner, tmp_path: Path, flags: list[str]) -> None:
    # GIVEN Python options, joined or separate WHEN a script is launched THEN that script runs
    script = program.write("import sys; print(sys.argv[1:], sys.flags.optimize)")
    words = [sys.executable, *flags, "-q", "-o", tmp_path / "run.pyio", script, "-x", ""]
    outcome = succeeded(program.command(words))
    assert outcome.stdout == f"['-x', ''] {int('O' in flags[0])}\n"


def test_a_script_whose_name_is_an_option(program: Runner) -> None:
    program.write("print('ran')", name="-c.py")
    outcome = succeeded(program.command([sys.executable, "-m", "pyio_trace", "-q", "-o", "run.pyio", "--", "-c.py"]))
    assert outcome.stdout == "ran\n"


def test_watching_a_module_whose_loader_is_shared() -> None:
    # GIVEN an instrument for a module that is built in, as mmap is in some Pythons WHEN it is looked for and imported
    code = """\
import importlib.util
from importlib.machinery import BuiltinImporter
from pyio_trace.capture.instrumentation import import_hooks
seen = []
import_hooks.watch("_symtable", seen.append)
importlib.util.find_spec("_symtable")
import _symtable
assert seen == [_symtable] and _symtable.__loader__ is _symtable.__spec__.loader is BuiltinImporter
assert "exec_module" in vars(BuiltinImporter)
"""
    # THEN it is instrumented once, and the loaders of all others are unchanged
    subprocess.run([sys.executable, "-c", code], check=True, env=clean_environment(), cwd="/")


def test_somebody_elses_wrapper_of_work_stays(program: Runner) -> None:
    # GIVEN a wrapper put around ours WHEN tracing stops THEN it is still there, and works
    text = """\
    import concurrent.futures.thread as module, pyio_trace
    Work = module._WorkItem
    making, submit = Work.__init__, module.ThreadPoolExecutor.submit
    with pyio_trace.trace("run.pyio"):
        ours = Work.run
        assert module.ThreadPoolExecutor.submit is submit
        assert type(ours) is not type(submit)
        theirs = lambda self, *args: ours(self, *args)
        Work.run = theirs
    assert Work.run is theirs and Work.__init__ is making
    with module.ThreadPoolExecutor(1) as pool: assert pool.submit(abs, -1).result() == 1
    """
    succeeded(program.bare(text))


def test_no_frame_of_the_interpreters_own(program: Runner, data: Path) -> None:
    # GIVEN a class called often enough to be specialised WHEN its __init__ does I/O
    text = """\
    import os, sys
    class Reader:
        def __init__(self, path):
            os.stat(path)
    for n in range(1000): Reader(sys.argv[1])
    """
    outcome = succeeded(program.traced(text, data))
    rows = outcome.select(op="stat", path=data)
    # THEN the stack shows what a traceback would
    assert len(rows) == 1000 and not any("__init__:0:" in str(row["call_stack"]) for row in rows)
    assert {row["site"] for row in rows} == {f"{program.folder}/program.py:4:Reader.__init__"}


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_threads_that_load_libraries(program: Runner, data: Path, tmp_path: Path) -> None:
    # GIVEN threads that load, use and unload libraries of many sizes at once
    compiler = ["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", str(HELPER), "-lpthread", "-o"]
    for n in range(8):
        binding = "-Wl,-z,now" if n % 2 else "-Wl,-z,lazy"
        subprocess.run([*compiler, str(tmp_path / f"lib{n}.so"), f"-DLIBRARY={n * 3000 + 1}", binding], check=True)
    subprocess.run([*compiler, str(tmp_path / "driver.so")], check=True)
    text = """\
    import ctypes, sys
    driver = ctypes.CDLL(sys.argv[1] + "/driver.so")
    sys.exit(driver.loads(sys.argv[1].encode(), sys.argv[2].encode(), 8, 6, 100))
    """
    # WHEN they run, also stopping and starting between THEN no load's I/O is missed
    outcome = succeeded(program.traced(text, tmp_path, data))
    assert len(outcome.select(op="pread", path=data)) == 600


def test_a_fork_while_others_load(program: Runner, data: Path) -> None:
    # GIVEN a thread that asks for symbols all the time, so that the loader's objects are looked through
    text = """\
    import ctypes, os, sys, threading
    done = threading.Event()
    def work():
        while not done.is_set():
            ctypes.CDLL(None).getpid
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads: thread.start()
    for n in range(50):
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).getppid
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    done.set()
    for thread in threads: thread.join()
    """
    # WHEN it forks THEN no child waits for a lock that nobody holds (the runner's time limit tells)
    succeeded(program.traced(text, data))
