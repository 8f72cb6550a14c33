"""Runs a program that is data: `python steps.py STEPS.json RESULTS.json`, in the folder of its files.

A step is [where, operation, arguments...]; where: "main" or "thread".  Every call that is to be found in the log is
made in `do`, `do_map` or `do_file`; what the rest of this file does for itself is told from it by the function's name.
"""

from __future__ import annotations

import json
import mmap
import os
import queue
import sys
import threading
import zlib
from typing import Any

Result = Any


def do(op: str, args: list[Any], fds: dict[int, int]) -> Result:
    """One step by plain calls: what it returns, bytes as their length and checksum."""
    if op == "open":
        slot, name, flags = args
        fds[slot] = os.open(name, flags, 0o644)
        return fds[slot]
    if op in ("dup", "dup2"):
        slot, source = args[0], fds[args[1]]
        if op == "dup":
            fds[slot] = os.dup(source)
        else:
            fds[slot] = os.dup2(source, fds.pop(args[2]), inheritable=False)
        return fds[slot]
    if op == "close":
        return os.close(fds.pop(args[0]))
    if op in ("rename", "link"):
        return getattr(os, op)(args[0], args[1])
    if op == "unlink":
        return os.unlink(args[0])
    if op == "truncate":
        return os.truncate(args[0], args[1])
    if op == "stat":
        return os.stat(args[0]).st_size
    if op in ("sendfile", "copy_file_range"):
        return getattr(os, op)(fds[args[0]], fds[args[1]], *args[2:])
    fd, rest = fds[args[0]], args[1:]
    if op == "fstat":
        return os.fstat(fd).st_size
    if op in ("write", "pwrite"):
        return getattr(os, op)(fd, _data(rest[0]), *rest[1:])
    if op in ("writev", "pwritev"):
        return getattr(os, op)(fd, [_data(n) for n in rest[0]], *rest[1:])
    if op in ("readv", "preadv"):
        buffers = [bytearray(n) for n in rest[0]]
        return getattr(os, op)(fd, buffers, *rest[1:]), zlib.crc32(b"".join(buffers))
    result = getattr(os, op)(fd, *rest)
    return (len(result), zlib.crc32(result)) if isinstance(result, bytes) else result


def do_map(args: list[Any], fds: dict[int, int]) -> Result:
    """Maps a file, changes it through memory, and unmaps it."""
    with mmap.mmap(fds[args[0]], args[1], offset=args[2]) as mapped:
        mapped[:3] = b"map"
        mapped.flush()
        return len(mapped)


def do_file(op: str, args: list[Any], files: dict[int, Any]) -> Result:
    """One step on a file object: how much was moved, or where it is."""
    slot, *rest = args
    if op == "file":
        name, mode, buffering = rest
        files[slot] = open(name, mode, buffering)  # noqa: SIM115
        return None
    file = files[slot]
    if op == "write":
        return file.write("x" * rest[0] if hasattr(file, "encoding") else bytes(rest[0]))
    if op == "lines":
        return sum(len(line) for line in file)
    result = getattr(file, op)(*rest)
    return len(result) if isinstance(result, (bytes, str)) else result


def _data(n: int) -> bytes:
    return bytes(range(256)) * (n // 256) + bytes(n % 256)


def _step(op: str, args: list[Any], fds: dict[int, int]) -> Result:
    try:
        if op.startswith("file."):
            return do_file(op[5:], args, fds)
        return do_map(args, fds) if op == "map" else do(op, args, fds)
    except OSError as problem:
        return f"errno {problem.errno}"
    except ValueError as problem:  # of a file object; a thread that ends would be waited for
        return type(problem).__name__


class Worker:
    """A second thread, which makes the steps given to it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Result] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._told.put(_step(*self._asked.get()))

    def step(self, *step: Any) -> Result:
        """Passes a step to the thread and waits for its result."""
        self._asked.put(step)
        return self._told.get()


def run(steps: list[Any], fds: dict[int, int], results: str) -> list[Result]:
    """Makes the steps; a fork is ["main", "fork", [steps of the child]]."""
    worker: Worker | None = None
    told: list[Result] = []
    for number, (where, op, *args) in enumerate(steps):
        if op == "fork":
            theirs = f"{results}.{number}"
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    write(run(args[0], dict(fds), theirs), theirs)
                    status = 0
                finally:
                    os._exit(status)
            told.append(["exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), read(theirs)])
        elif where == "thread":
            worker = worker or Worker()
            told.append(worker.step(op, args, fds))
        else:
            told.append(_step(op, args, fds))
    return told


def read(path: str) -> Any:
    """JSON from a file."""
    with open(path) as file:
        return json.load(file)


def write(value: Any, path: str) -> None:
    """JSON to a file."""
    with open(path, "w") as file:
        json.dump(value, file)


if __name__ == "__main__":
    write(run(read(sys.argv[1]), {}, sys.argv[2]), sys.argv[2])
