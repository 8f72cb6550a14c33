"""The programs that test_kills.py kills: they work by a plan and acknowledge each step once it is done.

The plan of a thread follows from its name alone, so the test knows every
operation, with path, offset, size and result, that a thread has made when it
acknowledged step N.  Run as a program, traced; imports the standard library
only.

    workload.py once LABEL FOLDER ACKS [STEPS]   one worker
    workload.py zygote FOLDER ACKS               a worker a line of stdin, forked; its pid is a line of stdout
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

THREADS = 2
SHARED_SIZE = 1 << 20
ENOENT = 2
MOST_STEPS = 400  #: of a thread, for the test has to look at them all
KINDS = ["pread", "pread", "pwrite", "write", "read", "stat", "file", "rename"]


class Expected(NamedTuple):
    """A row of the operations table.  path: in the folder; None: not to be compared."""

    layer: str
    op: str
    path: str
    offset: int | None
    size: int | None
    moved: int | None
    errno: int


class Step(NamedTuple):
    """One call, or one small transaction, between two acknowledgements."""

    kind: str
    path: str
    offset: int
    size: int
    rows: tuple[Expected, ...]


def plan(thread: str) -> Iterator[Step]:
    """The steps of a thread, without end."""
    chance = random.Random(thread)
    own, position, length, number = f"{thread}.own", 0, 0, 0
    yield Step("open", own, 0, 0, (Expected("posix", "open", own, None, None, None, 0),))
    while True:
        number += 1
        kind = chance.choice(KINDS)
        size, offset = chance.randrange(1, 3000), chance.randrange(SHARED_SIZE - 3000)
        path = f"{thread}.{number % 4}"  # few files, or removing them takes longer than the test
        if kind == "pread":
            yield _data(kind, "shared", offset, size, size)
        elif kind == "pwrite":
            offset %= 10_000
            length = max(length, offset + size)
            yield _data(kind, own, offset, size, size)
        elif kind == "write":
            yield _data(kind, own, position, size, size)
            position += size
            length = max(length, position)
        elif kind == "read":
            moved = max(0, min(size, length - position))
            yield _data(kind, own, position, size, moved)
            position += moved
        elif kind == "stat":
            missing = f"{thread}.missing"
            yield Step(kind, missing, 0, 0, (Expected("posix", "stat", missing, None, None, None, ENOENT),))
        elif kind == "file":
            yield Step(kind, path, 0, size, tuple(_file_rows(path, size)))
        else:
            missing = f"{thread}.missing"
            yield Step(kind, missing, 0, 0, (Expected("posix", "rename", missing, None, None, None, ENOENT),))


def _data(kind: str, path: str, offset: int, size: int, moved: int) -> Step:
    return Step(kind, path, offset, size, (Expected("posix", kind, path, offset, size, moved, 0),))


def _file_rows(path: str, size: int) -> Iterator[Expected]:
    """Of `with open(path, "wb") as file: file.write(...)`: the rows that matter, the rest (fstat, lseek) left out."""
    yield Expected("posix", "open", path, None, None, None, 0)
    yield Expected("app", "BufferedWriter.write", path, None, size, size, 0)
    yield Expected("posix", "write", path, 0, size, size, 0)
    yield Expected("posix", "close", path, None, None, None, 0)


def work(thread: str, acks: int, steps: int | None = None) -> None:
    """Does what the plan says; each acknowledgement is one atomic write into a pipe."""
    pid, tid = os.getpid(), threading.get_native_id()
    shared = os.open("shared", os.O_RDONLY)
    os.write(acks, f"{thread} {pid} {tid} 0\n".encode())
    own = -1
    for number, step in enumerate(plan(thread), 1):
        if step.kind == "open":
            own = os.open(step.path, os.O_RDWR | os.O_CREAT)
        else:
            _do(step, own, shared)
        os.write(acks, f"{thread} {pid} {tid} {number}\n".encode())
        if number == steps:
            return
        if number == MOST_STEPS:
            time.sleep(60)  # nobody has killed us so far


def _do(step: Step, own: int, shared: int) -> None:
    if step.kind == "pread":
        os.pread(shared, step.size, step.offset)
    elif step.kind == "pwrite":
        os.pwrite(own, bytes(step.size), step.offset)
    elif step.kind == "write":
        os.write(own, bytes(step.size))
    elif step.kind == "read":
        os.read(own, step.size)
    elif step.kind == "file":
        with open(step.path, "wb") as file:
            file.write(bytes(step.size))
    else:
        try:
            if step.kind == "stat":
                os.stat(step.path)
            else:
                os.rename(step.path, step.path + ".new")
        except FileNotFoundError:
            pass


def worker(label: str, acks: int, steps: int | None = None) -> None:
    """A child forked before the threads, one beside them, and the threads, all at work at once."""
    warnings.simplefilter("ignore")  # of forks beside threads
    children = [_fork(f"{label}-early", acks, steps)]
    threads = [threading.Thread(target=work, args=[f"{label}-t{n}", acks, steps]) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    children.append(_fork(f"{label}-late", acks, steps))
    for thread in threads:
        thread.join()
    for child in children:
        os.waitpid(child, 0)


def _fork(thread: str, acks: int, steps: int | None) -> int:
    pid = os.fork()
    if pid == 0:
        work(thread, acks, steps)
        os._exit(0)
    return pid


def zygote(acks: int) -> None:
    """Forks a worker for each line, in a session of its own, and waits for the last before the next."""
    pid = 0
    for line in sys.stdin:
        if pid:
            os.waitpid(pid, 0)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            print(os.getpid(), flush=True)
            worker(line.strip(), acks)
            os._exit(0)
    if pid:
        os.waitpid(pid, 0)


def main(words: list[str]) -> None:
    """See above."""
    if words[0] == "once":
        _, label, folder, acks, *steps = words
        os.chdir(folder)
        worker(label, int(acks), int(steps[0]) if steps else None)
    else:
        _, folder, acks = words
        os.chdir(folder)
        zygote(int(acks))


if __name__ == "__main__":
    main(sys.argv[1:])
