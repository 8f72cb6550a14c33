"""A child that has dropped its privileges writes over the log that it shares with its parent."""

from __future__ import annotations

import os

import pytest

from tests.support.programs import Runner

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop privileges")

PROGRAM = """
    import ctypes, mmap, os, sys, threading, time, warnings

    warnings.simplefilter("ignore")  # from 3.12 on fork() warns if a joined thread has not left the kernel yet

    turns = mmap.mmap(-1, 16)  # how often the parent has worked; what the child has come to

    def mapped(name):
        for line in open("/proc/self/maps"):
            if line.rstrip().endswith(name):
                start, end = line.split()[0].split("-")
                return int(start, 16), int(end, 16)
        return None

    def forge(start, end):
        header = ctypes.c_uint64.from_address(start + 24)  # next
        used = min(header.value, end - start)
        words = (ctypes.c_uint64 * (used // 8)).from_address(start)
        heads = [*range(2560), *(at + i for at in range(2560, used // 8, 512) for i in range(64))]
        values = [0, 1, 2**64 - 1, 2**63, 2**64 - 4096, end - start, used + 1, used - 4096, 0xFFFFFFFF00000001]
        for step, most in (1, 48), (16, 512), (512, len(heads)):  # one by one first: a full log hides what others do
            for value in values:
                for first in range(0, most, step):
                    some = heads[first : first + step]
                    before = [words[at] for at in some]
                    for at in some:
                        words[at] = value
                    seen, deadline = turns[0], time.monotonic() + 1
                    while turns[0] == seen and time.monotonic() < deadline:
                        time.sleep(0)
                    for at, word in zip(some, before):
                        words[at] = word
        for at in heads:
            words[at] = 2**64 - 4096

    def work(n):
        name = os.path.join(sys.argv[1], f"file-{n % 50}")
        with open(name, "w+b") as f:
            f.write(b"%d" % n * 100)
            f.seek(0)
            copy = os.dup(f.fileno())
            assert f.read() == b"%d" % n * 100 and os.pread(copy, 1, 0) == (b"%d" % n)[:1]
            os.close(copy)
        try:
            os.stat(f"{name}/{n}")
        except NotADirectoryError:
            return 1

    log = mapped(sys.argv[2]) if len(sys.argv) > 2 else None
    done = sum(work(n) for n in range(100))
    child = os.fork()
    if child == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        if log:
            forge(*log)
        turns[8] = 1
        os._exit(0)
    n = 0
    while not turns[8]:
        thread = threading.Thread(target=work, args=(n,))  # a new thread claims a chunk of its own
        thread.start()
        thread.join()
        n += 1
        turns[0] = n % 256
    status = os.waitpid(child, 0)[1]
    again = os.fork()
    if again == 0:
        os._exit(work(1))
    done += os.waitpid(again, 0)[1] >> 8
    print(done, status, bool(log) == (len(sys.argv) > 2))
    sys.exit(3)
"""


@pytest.mark.parametrize("mode", ["trace", "profile", "ring"])
def test_a_child_that_dropped_its_privileges_forges_the_log(program: Runner, mode: str) -> None:
    # GIVEN a root program whose child has become nobody and writes over all that its parent shares with it
    program.folder.joinpath("files").mkdir()
    env = {"PYIO_TRACE_MODE": mode, "PYIO_TRACE_MAX_LOG_SIZE": "64M", "PYIO_TRACE_RING_SIZE": "1M"}
    # WHEN it runs bare and traced
    bare = program.bare(PROGRAM, program.folder / "files")
    traced = program.traced(PROGRAM, program.folder / "files", "run.pyio", env=env)
    # THEN the parent's output and status are the same, and one line says what happened
    assert (traced.status, traced.stdout) == (bare.status, bare.stdout) == (3, "101 0 True\n")
    assert len(traced.stderr.splitlines()) <= 1
