"""A program's last moments are as untraced: nothing of ours waits in it, and what it does last is in the log."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import TIMEOUT, Outcome, Runner, clean_environment, kill_session
from tests.support.waiting import wait_until

SOURCE = Path(__file__).resolve().parents[1] / "csrc" / "ending.c"
WRITES, HANGS, CRASHES, EXITS, PRINTS, KILLS = 1, 2, 4, 8, 16, 32
IMPORTS = """\
import ctypes, os, signal, subprocess, sys, threading, time
lib = ctypes.CDLL("./ending.so")
"""
DAEMON = """
end, told = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(told)
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        os.read(end, 1)  # until the program has ended
        open("by-daemon", "w").write("after its end")
        os.rename("by-daemon", "done")
    os._exit(0)
os.close(end)
os.wait()
"""
#: name -> (what the program does last, its status or those that libcs give it); nothing: it ends with 7.
DEEDS = {
    "falls off the end": ("", 7),
    "a destructor writes": (f"lib.arm({WRITES | PRINTS})", 7),
    "a destructor crashes": (f"lib.arm({WRITES | CRASHES})", -11),
    "a destructor ends it": (f"lib.arm({WRITES | EXITS})", 9),
    "a destructor ends it by a signal": (f"lib.arm({WRITES | KILLS})", -15),
    "an alarm while a destructor hangs": (f"lib.arm({HANGS}); signal.alarm(1)", -14),
    "an alarm while an exit handler hangs": ("lib.hang_at_exit(); signal.alarm(1)", -14),
    "a timer while a destructor hangs": (f"lib.arm({HANGS}); signal.setitimer(signal.ITIMER_REAL, 0.5)", -14),
    "exit in an exit handler": ("lib.exit_again(9)", 9),
    "exit in a thread": ("lib.exit_in_thread(5)", 5),
    "two threads end it at once": ("lib.exit_in_two_threads(5)", 5),
    "quick_exit": ("lib.exit_quickly(5)", 5),
    "_exit with a thread at work": ("lib.start_writer(); os._exit(5)", 5),
    "_exit in a signal handler": ("signal.signal(signal.SIGUSR1, lambda *_: os._exit(5)); "
                                  "os.kill(os.getpid(), signal.SIGUSR1)", 5),
    "exit in a forked child": ("os.fork() or sys.exit(3); os.wait()", 7),
    "by SIGINT": ("signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT)", -2),
    "by SIGTERM with an exit handler": ("import atexit; atexit.register(print, 'never'); "
                                        "os.kill(os.getpid(), signal.SIGTERM)", -15),
    "by SIGHUP": ("signal.raise_signal(signal.SIGHUP)", -1),
    "by SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    "abort": ("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()", -6),
    "a blocked signal waits": ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGALRM]); "
                               "os.kill(os.getpid(), signal.SIGTERM); signal.alarm(1)", 7),
    "no children waited for": ("signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.fork() or os._exit(0)", 7),
    "streams that exit flushes": ("lib.leave_unflushed()\n"
                                  "subprocess.Popen(['sleep', '1'], stdin=-3, stdout=-3, stderr=-3)\n", 7),
    "streams are closed before": ("lib.close_streams()", 7),
    # glibc 2.36 ends; 2.43 waits for the thread, which holds the lock of its stream
    "a thread waits for input": ("signal.alarm(5); lib.start_reader(); lib.leave_unflushed()", (7, -14)),
    "a daemon lives on": (DAEMON, 7),
    "it becomes another program": ("print('first', flush=True); os.execvp('sh', ['sh', '-c', 'echo then; exit 6'])", 6),
    "an uncaught exception": ("raise RuntimeError('as intended')", 1),
    "a pool of processes": ("import concurrent.futures as f, multiprocessing as m\n"
                            "pool = f.ProcessPoolExecutor(2, mp_context=m.get_context('fork'))\n"
                            "print(pool.submit(os.getenv, 'HOME').result() is None)", 7),
    "a queue's thread": ("import multiprocessing as m; q = m.Queue(); q.put(bytes(100_000)); print(len(q.get()))", 7),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/csrc/ending.c as a library."""
    path = tmp_path_factory.mktemp("ending") / "ending.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", path, SOURCE], check=True)
    return path


def files_of(folder: Path, but: frozenset[str] = frozenset()) -> dict[str, bytes]:
    """What the program left, without what is ours.  by-thread: how much is chance."""
    ours = {"program.py", "ending.so", "run.pyio", "run.parquet", "by-thread", "__pycache__"}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ours | but}


def left(runner: Runner, deed: str, *, traced: bool, library: Path) -> tuple[Outcome, dict[str, bytes]]:
    """The program in a folder of its own, and the files it has left once all of it has ended."""
    folder = runner.folder / ("traced" if traced else "bare")
    folder.mkdir()
    shutil.copy(library, folder)
    here = Runner(folder)
    text = f"{IMPORTS}{deed}\nsys.exit(7)\n"
    outcome = here.traced(text, log="run.parquet") if traced else here.bare(text)
    if "by-daemon" in deed:
        wait_until((folder / "done").exists, "the daemon")
    if "leave_unflushed" in deed:
        wait_until((folder / "by-command").read_bytes, "the command")
    return outcome, files_of(folder)


@pytest.mark.parametrize("deed", DEEDS)
def test_the_end_is_as_untraced(program: Runner, library: Path, deed: str) -> None:
    # GIVEN a program that ends in this way WHEN it is run bare and traced
    text, expected = DEEDS[deed]
    bare, by_bare = left(program, text, traced=False, library=library)
    traced, by_traced = left(program, text, traced=True, library=library)
    # THEN status, output and files are the same
    status = bare.status
    assert status in (expected if isinstance(expected, tuple) else (expected,))
    assert (traced.status, traced.stdout) == (bare.status, bare.stdout)
    assert traced.stderr.replace("/traced/", "/bare/") == bare.stderr
    assert by_traced == by_bare
    # AND the log says how it ended, if the program could know
    live = traced.path.with_suffix(".pyio")
    log = Outcome(0, "", "", traced.path if traced.path.exists() else live)
    ended = log.processes[0]["ended"]
    if status >= 0:
        assert ended == f"exit {status}" or "execvp" in text
    else:
        assert ended.startswith((f"signal {-status} ", "lost"))
    # AND what a destructor writes is in it
    if "by-destructor" in by_bare:
        assert (
            sum(row["bytes_moved"] for row in log.select(op="write", path=live.parent / "by-destructor")) == 30 * 4096
        )


# ---- while the log is packed ------------------------------------------------------

#: Lets the interpreter that packs the log wait until a file is there.
HOLDS = """\
import os, time
if os.environ.get("PYIO_TRACE") == "0":
    open("packing", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


class Held:
    """A traced program that has ended, and whose log is being packed."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.log = folder / "run.parquet"

    def go(self) -> tuple[int, str]:
        """Lets the packing go on; the status, and what was said."""
        (self.folder / "go").touch()
        return self.said()

    def said(self) -> tuple[int, str]:
        """Waits for the end."""
        assert self.process.stderr is not None
        text = self.process.stderr.read()
        return self.process.wait(TIMEOUT), text


@contextlib.contextmanager
def held(program: Runner, text: str, library: Path, *words: str, quiet: bool = False) -> Iterator[Held]:
    """The program, from the moment when its log is being packed."""
    shutil.copy(library, program.folder)
    (program.folder / "at-start").mkdir()
    program.write(HOLDS, "at-start/sitecustomize.py")
    script = program.write(f"{IMPORTS}{text}\nsys.exit(7)\n")
    env = clean_environment(PYTHONPATH=str(program.folder / "at-start"))
    command = [*words, sys.executable, "-m", "pyio_trace", "-o", "run.parquet", *(["-q"] if quiet else []), script]
    process = subprocess.Popen(
        command, cwd=program.folder, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until((program.folder / "packing").exists, "the packing to begin")
        yield Held(process, program.folder)
    finally:
        kill_session(process)


def test_nothing_of_the_program_goes_on_while_its_log_is_packed(program: Runner, library: Path) -> None:
    # GIVEN a program with a thread that writes, a lock of a file, 200 MiB, a pipe and an alarm, which has ended
    text = """
import fcntl
lib.start_writer()
lock = open("lock", "w"); fcntl.flock(lock, fcntl.LOCK_EX)
much = b"x" * (200 << 20)
print("the last line")
signal.alarm(1)
"""
    with held(program, text, library) as ended:
        # WHEN its log is being packed THEN its output has ended
        assert ended.process.stdout is not None and ended.process.stdout.read() == "the last line\n"
        # AND its thread writes no more
        file = program.folder / "by-thread"
        size = file.stat().st_size
        # AND its lock is free, its memory too, and its alarm does not ring
        with open(program.folder / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        resident = int(Path(f"/proc/{ended.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident < 2 << 20
        assert not select.select([], [], [], 1.2)[0]  # longer than the alarm
        assert file.stat().st_size == size
        # AND once it is packed, the program ends with its own status
        status, said = ended.go()
    assert status == 7 and said.startswith("pyio_trace: program.py")
    assert ended.log.exists() and not ended.log.with_suffix(".pyio").exists()


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_log_is_packed_ends_the_packing(
    program: Runner, library: Path, number: signal.Signals, quiet: bool
) -> None:
    # GIVEN a program whose log is being packed WHEN a scheduler ends it
    with held(program, "", library, quiet=quiet) as ended:
        ended.process.send_signal(number)
        status, said = ended.said()
    # THEN its status is its own, and one line says where the live log is, which is whole
    assert status == 7
    live = program.folder / "run.pyio"
    assert said == "" if quiet else re.fullmatch(rf"pyio-trace: .*{live}.*\n", said)
    assert Outcome(0, "", "", live).processes[0]["ended"] == "exit 7" and not ended.log.exists()


def test_signals_that_the_program_ignored_are_ignored_still(program: Runner, library: Path) -> None:
    # GIVEN a program started by nohup WHEN its terminal goes away while its log is packed THEN it is packed
    with held(program, "", library, "nohup") as ended:
        ended.process.send_signal(signal.SIGHUP)
        status, said = ended.go()
    assert status == 7 and "pyio_trace: program.py" in said and ended.log.exists()


def test_a_program_without_its_stub_is_packed_all_the_same(program: Runner, library: Path) -> None:
    # GIVEN a program whose stub is no longer the file that it was
    text = """
from pyio_trace import native
import pyio_trace.capture.runtime as runtime
shutil = __import__("shutil")
stub = os.path.join(os.path.dirname(native.__file__), "pyio-trace-end")
shutil.copy(stub, "stub")
real = native.core.finish_with
class Core:
    def __getattr__(self, name): return getattr(real.__self__, name)
    def finish_with(self, argv, quiet, stub): real(argv, quiet, os.path.abspath("stub").encode())
native.core = Core()
runtime.finish_at_exit(os.environ["LIVE"], os.environ["FINAL"], quiet=True, mode="600")
os.rename("stub", "other"); shutil.copy("other", "stub")
lib.arm(1)
signal.alarm(100)
"""
    shutil.copy(library, program.folder)
    live, final = program.folder / "run.pyio", program.folder / "run.parquet"
    env = {"LIVE": str(live), "FINAL": str(final)}
    # WHEN it ends THEN its status is its own, and all it did is in the packed log
    outcome = program.traced(f"{IMPORTS}{text}\nsys.exit(7)\n", log="run.parquet", env=env)
    assert (outcome.status, outcome.stderr) == (7, "")
    assert len(outcome.select(op="write", path=program.folder / "by-destructor")) == 30


def test_whichever_thread_ends_it_the_log_is_packed(program: Runner, library: Path) -> None:
    # GIVEN a program that two threads end at the same moment, many times WHEN it is traced
    shutil.copy(library, program.folder)
    for _ in range(8):
        outcome = program.traced(f"{IMPORTS}lib.exit_in_two_threads(5)\n", log="run.parquet")
        # THEN its log is packed each time
        assert outcome.status == 5
        assert outcome.processes[0]["ended"] == "exit 5" and not outcome.path.with_suffix(".pyio").exists()
        outcome.path.unlink()


def test_what_was_read_ahead_is_put_back(program: Runner, library: Path) -> None:
    # GIVEN a program that reads one line of its input through libc's buffer, and another that reads on
    shutil.copy(library, program.folder)
    program.write("one\ntwo\nthree\n", "lines")
    script = program.write(f"{IMPORTS}lib.read_line()\n")
    outcomes = []
    for words in ([], ["-m", "pyio_trace", "-q", "-o", "run.parquet"]):
        # WHEN they share a file as input THEN the second gets what the first did not take, as untraced
        command = " ".join(map(str, [sys.executable, *words, script]))
        outcomes.append(program.command(["sh", "-c", f"({command}; cat) < lines"], log="run.parquet").visible)
    assert outcomes[0] == outcomes[1] == (0, "one\ntwo\nthree\n", "")
