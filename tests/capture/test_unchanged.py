# ruff: noqa: E501 - in the tables a program stands on one line
"""A traced program behaves as it does untraced: output, status, exceptions, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.programs import TIMEOUT, Runner, alike, clean_environment, succeeded
from tests.support.waiting import wait_until

PROGRAMS = {
    "prints": "print('out'); print('err', file=sys.stderr)",
    "unflushed output": "sys.stdout.write('no newline'); sys.stderr.write('none here')",
    "unflushed output and os._exit": "sys.stdout.write('lost'); os._exit(9)",
    "a buffer of C and os._exit": "ctypes.CDLL(None).printf(b'in a buffer of C'); os._exit(3)",
    "a buffer of C": "ctypes.CDLL(None).printf(b'in a buffer of C'); print('in Python')",
    "exit status 300": "sys.exit(300)",
    "exit with a message": "sys.exit('a message')",
    "exception": "open('/nonexistent/file')",
    "exception in a file's method": "open(os.devnull, 'rb').write(b'x')",
    "exception through layers": "json.load(io.TextIOWrapper(io.BytesIO(b'{')))",
    "exception in a thread": "t = threading.Thread(target=open, args=['/nonexistent']); t.start(); t.join()",
    "exception in a pool": "f = ThreadPoolExecutor(1).submit(open, '/nonexistent')\nwhile not f.done(): pass\nf.result()",
    "exception in to_thread": "asyncio.run(asyncio.to_thread(open, '/nonexistent'))",
    "bad utf-8": "open('bad', 'wb').write(b'\\xff'); open('bad', encoding='utf-8').read()",
    "unclosed file warning": "warnings.simplefilter('always'); open(os.devnull); gc.collect()",
    "keyboard interrupt": "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "caught interrupt": "\ntry:\n    os.kill(os.getpid(), signal.SIGINT); time.sleep(5)\nexcept KeyboardInterrupt:\n    print('caught')",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "SIGHUP": "os.kill(os.getpid(), signal.SIGHUP)",
    "SIGUSR1": "os.kill(os.getpid(), signal.SIGUSR1)",
    "SIGPIPE ignored": "print(signal.getsignal(signal.SIGPIPE)); r, w = os.pipe(); os.close(r); os.write(w, b'x')",
    "dispositions": "print([signal.getsignal(n) for n in sorted(signal.valid_signals())])",
    "mask": "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "descriptors": "print(sorted(os.listdir('/proc/self/fd')))",
    "faulthandler": "faulthandler.enable(); resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); ctypes.string_at(0)",
    "argv and main": "print(sys.argv[1:], __name__, __file__, sys.orig_argv[1:], os.getppid() > 1)",
    "module names": "print(sorted(n for n in vars() if not n.startswith('__')))",
    "atexit order": "atexit.register(print, 'last'); atexit.register(lambda: open('at-exit', 'w').write('x'))",
    "supports": "print(os.stat in os.supports_dir_fd, os.open in os.supports_dir_fd, open is io.open)",
    "errno": "print(ctypes.CDLL(None, use_errno=True).open(b'/nonexistent', 0), ctypes.get_errno())",
    "excepthook": "sys.excepthook = lambda *a: print('mine', a[0].__name__); open('/nonexistent')",
    "recursion": "def f(): f()\nf()",
    "stdin": "print(sys.stdin.readline(), input(), sys.stdin.read())",
    "closed stdout": "sys.stdout.close(); sys.stderr.close()",
    "closed descriptors": "os.close(0); os.close(1); os.close(2)",
    "locks": "import fcntl; f = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX); print('held')",
}  # fmt: skip
IMPORTS = "import asyncio, atexit, ctypes, faulthandler, gc, io, json, os, resource, signal, sys, threading, time, warnings\n" \
          "from concurrent.futures import ThreadPoolExecutor\n"  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_same_output_and_status(program: Runner, what: str) -> None:
    # GIVEN a program WHEN it is run bare and traced
    text = IMPORTS + PROGRAMS[what] + "\n"
    bare = program.bare(text, "an", "argument", stdin="one\ntwo\nthree\nfour\n")
    outcome = program.traced(text, "an", "argument", stdin="one\ntwo\nthree\nfour\n")
    # THEN output and status are the same
    alike(outcome, bare, lambda one: (one.status, one.stdout, _comparable(one.stderr)))
    # THEN its log can be read
    assert outcome.log.rows() > 0


def _comparable(text: str) -> list[str]:
    # A faulthandler report has addresses, of a thread and (3.14) of C frames, which differ from run to run, and a list
    # of the extension modules outside the standard library, including ours (docs/explanation/limits.md).
    varying = ("Current thread 0x", "  Binary file ", "Extension modules: ")
    return [line for line in text.splitlines() if line and not line.startswith(varying)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT], ids=lambda n: n.name)
@pytest.mark.parametrize("traced", [True, False])
def test_signal_from_outside(program: Runner, tmp_path: Path, number: signal.Signals, traced: bool) -> None:
    # GIVEN a program at work in a library call
    text = """\
    import resource, sys, time
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("log", "w") as log:
        log.write("begun")
        log.flush()
        print("ready", flush=True)
        time.sleep(60)
    """
    extra = (
        {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(tmp_path / "run.pyio"), "PYIO_TRACE_QUIET": "1"} if traced else {}
    )
    process = subprocess.Popen(
        [sys.executable, str(program.write(text))], cwd=tmp_path, env=clean_environment(**extra),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    # WHEN the signal comes (Ctrl-C: to the process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=240)
    # THEN it dies of that very signal, and Ctrl-C was a KeyboardInterrupt
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert "pyio" not in errors


def test_tracebacks_have_no_frame_of_ours(program: Runner) -> None:
    # GIVEN a program that prints stacks from inside everything that is instrumented
    text = """\
    import io, mmap, os, sys, traceback
    from concurrent.futures import ThreadPoolExecutor

    class Mine(io.FileIO):
        def __init__(self, *args):
            traceback.print_stack(file=sys.stdout)
            super().__init__(*args)
        def readinto(self, buffer):
            traceback.print_stack(file=sys.stdout)
            return super().readinto(buffer)

    def show(n):
        traceback.print_stack(file=sys.stdout)
        raise OSError("as intended")

    io.BufferedReader(Mine(__file__)).read(10)
    try:
        submitted = ThreadPoolExecutor(1).submit(show, 1)
        while not submitted.done():
            pass
        submitted.result()
    except OSError:
        traceback.print_exc(file=sys.stdout)
    try:
        open(__file__).write("x")
    except io.UnsupportedOperation:
        traceback.print_exc(file=sys.stdout)
    """
    # WHEN it is run THEN they are those of the bare run
    outcome, bare = succeeded(program.traced(text)), succeeded(program.bare(text))
    assert outcome.stdout == bare.stdout


def test_environment_of_the_program(program: Runner) -> None:
    # GIVEN a program that shows its environment
    text = "import os\nprint({k: v for k, v in os.environ.items() if not k.startswith('PYIO_TRACE')})\n"
    # WHEN it is run THEN the only additional variables are ours
    assert succeeded(program.traced(text)).stdout == succeeded(program.bare(text)).stdout


def test_interrupt_of_the_whole_group(program: Runner, tmp_path: Path) -> None:
    # GIVEN a traced program with a pool, at a terminal (one process group).  It looks at its result from time to time:
    # CPython 3.14 may miss a signal that comes just before it blocks in a lock (bare: 8 of 20 times on a busy machine).
    text = """\
    import multiprocessing, os, signal
    from waiting import wait_until
    def work(n):
        open(f"working-{n}", "x").close()
        signal.pause()
    if __name__ == "__main__":
        with multiprocessing.Pool(2) as pool:
            result = pool.map_async(work, range(2))
            try:
                wait_until(lambda: all(os.path.exists(f"working-{n}") for n in range(2)), "both workers")
                print("ready", flush=True)
                while not result.ready():
                    result.wait(0.1)
            except KeyboardInterrupt:
                print("caught")
    """
    program.write_waiting()
    env = clean_environment(PYIO_TRACE="1", PYIO_TRACE_OUTPUT=str(tmp_path / "run.pyio"), PYIO_TRACE_QUIET="1")
    words = [sys.executable, "-X", "faulthandler", str(program.write(text))]
    with (tmp_path / "errors").open("w+") as errors:
        process = subprocess.Popen(
            words, cwd=tmp_path, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        # WHEN Ctrl-C is pressed
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler says where its threads are
            process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
        errors.seek(0)
        # THEN it can catch it, and no process stays behind
        assert (out, process.returncode) == ("caught\n", 0), errors.read()
    wait_until(lambda: not group_exists(process.pid), "the end of the program's processes")


def group_exists(leader: int) -> bool:
    """Whether any process is left in a group."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True
