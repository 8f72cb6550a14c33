"""Programs that hang, each in its own way, as text; HANG is what a test says it should be found doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyio_trace.running.waits import ThreadWait, Waits, waits_of
from tests.support.programs import Runner, clean_environment, kill_session
from tests.support.waiting import wait_until

#: Each hangs in the line that has the comment HERE.
FIFO = """
    import os
    os.mkfifo("fifo")
    print("ready", flush=True)
    open("fifo")  # HERE
"""
FLOCK = """
    import fcntl, sys
    file = open(sys.argv[1], "r+")
    print("ready", flush=True)
    fcntl.flock(file, fcntl.LOCK_EX)  # HERE
"""
FCNTL = """
    import fcntl, sys
    file = open(sys.argv[1], "r+")
    print("ready", flush=True)
    fcntl.lockf(file, fcntl.LOCK_EX)  # HERE
"""
READ = """
    import sys
    print("ready", flush=True)
    open(sys.argv[1], "rb").read()  # HERE
"""
FULL_PIPE = """
    import os
    reader, writer = os.pipe()
    print("ready", flush=True)
    os.write(writer, bytes(1 << 20))  # HERE
"""
POOL = """
    import multiprocessing, os, signal
    def work(number):
        os.kill(os.getpid(), signal.SIGKILL)
    if __name__ == "__main__":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print("ready", flush=True)
            pool.map(work, range(2))  # HERE
"""
CYCLE = """
    import threading
    one, two = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)
    def work(first, second):
        with first:
            both.wait()
            with second: pass  # HERE
    threads = [threading.Thread(target=work, args=pair) for pair in ((one, two), (two, one))]
    for thread in threads: thread.start()
    print("ready", flush=True)
    for thread in threads: thread.join()  # MAIN
"""
CHILD = """
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    print("ready", flush=True)
    child.wait()  # HERE
"""
SOCKET = """
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    print("ready", server.getsockname()[1], flush=True)
    client.recv(1)  # HERE
"""
SLEEP = """
    import time
    print("ready", flush=True)
    time.sleep(600)  # HERE
"""
QUEUE = """
    import queue
    print("ready", flush=True)
    queue.Queue().get()  # HERE
"""
PAIR = """
    import socket
    one, two = socket.socketpair()
    print("ready", flush=True)
    one.recv(1)  # HERE
"""
POLL = """
    import os, select
    reader, writer = os.pipe()
    other, more = os.pipe()
    print("ready", flush=True)
    select.select([reader, other], [], [])  # HERE
"""
MAPPED = """
    import mmap, sys
    file = open(sys.argv[1], "r+b")
    shared = mmap.mmap(file.fileno(), 0)
    print("ready", flush=True)
    open(sys.argv[2], "rb").read()  # HERE
"""
GRANDCHILD = """
    import subprocess
    print("ready", flush=True)
    subprocess.run(["sh", "-c", "sleep 600 & exec true"], capture_output=True)  # HERE
"""
SEMAPHORE = """
    import multiprocessing
    lock = multiprocessing.get_context("fork").Lock()
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()  # HERE
"""


def line_of(text: str, mark: str = "# HERE") -> int:
    """The number of the line that has the mark, as the program has it."""
    return next(at for at, line in enumerate(text.splitlines(), 1) if mark in line)


class Hanging:
    """A program that hangs.  said: the words of its first line."""

    def __init__(self, process: subprocess.Popen[str], said: list[str]) -> None:
        self.pid, self.said, self._process = process.pid, said, process

    def until(self, found: Callable[[Waits], object], what: str) -> Waits:
        """What it waits for, once that is so."""
        last: list[Waits] = []

        def look() -> object:
            last[:] = [waits_of(self.pid)]
            return found(last[0])

        wait_until(look, what)
        return last[0]

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def hanging(
    program: Runner, text: str, *words: object, traced: bool, env: dict[str, str] | None = None
) -> Iterator[Hanging]:
    """A program that has said that it is ready, and then hangs."""
    extra = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"} if traced else {}
    process = subprocess.Popen(
        [sys.executable, str(program.write(text)), *map(str, words)], cwd=program.folder, text=True,
        env=clean_environment(**extra, **(env or {})), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = process.stdout.readline().split()
        assert said[:1] == ["ready"]
        yield Hanging(process, said)
    finally:
        kill_session(process)
        process.stdout.close()


def main_thread(waits: Waits) -> ThreadWait:
    """The main thread of the process that was asked for."""
    return next(one for one in waits.processes[0].threads if one.main)


def log_of(program: Runner) -> Path:
    """The live log of a traced program."""
    return program.folder / "run.pyio"
