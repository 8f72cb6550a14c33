"""Sound logs to start from: small, with one of everything the format has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from pyio_trace.log import layout
from tests.support.logwriter import OP, LogWriter

#: Names that a terminal, a CSV or a JSON reader may take for something else.
NASTY = (
    b"/n/\x1b]0;title\x07\x1b[31mred", b"/n/new\nline\r\n", b"/n/\xff\xfe not utf-8", b"/n/\xed\xa0\x80 surrogate",
    "/n/\x9b31m \x85 \u2028 \u202e".encode(), b'/n/"quoted", comma;semicolon', b"/n/\\backslash\t\x00nul", b"=1+1",
    b"::error file=a::b ::stop-commands::c", b"/n/##[group]a ##vso[task.b]\n::add-mask::c",
    "/n/\u061c\u200b\u2060\ufeff\xad\ufe0f\u3164\U000e0072 unseen".encode(),
)  # fmt: skip


def rich() -> bytes:
    """Processes, threads with several chunks, spans, coalesced and wide rows, forks, copies, sums, nasty names."""
    writer = LogWriter(tick_kind=layout.TICKS_TSC, rate=0.5)
    top = writer.process(
        100, argv=["python", "x.py", "\x1b[2J"], begin=2_000, cwd=writer.string("/home"), stack_state=1
    )
    child = writer.process(101, start=layout.START_FORK, ppid=100, parent=top, begin=2_500, end=90_000,
                           end_kind=layout.END_SIGNAL, end_status=9, note=b"a note\x1b[1m", blind=5)  # fmt: skip
    writer.process(102, start=layout.START_SPAWN, ppid=101, begin=3_000, end=4_000, end_kind=layout.END_EXIT,
                   followed=0, executable=b"/bin/\x1b[31mtrue")  # fmt: skip
    later = writer.process(102, start=layout.START_JOINED, ppid=101, begin=3_500)
    writer.count(top, "READ", 5, 50, 100, 1)
    writer.count(child, "PWRITE", 9, 1 << 40, 1 << 40, 2)
    writer.count(0, "WRITE", 1)
    home = writer.string("/home")
    paths = [writer.string("x/../y", base=home), *(writer.string(name) for name in NASTY)]
    code, deep = writer.code("/a.py", "f"), writer.code("/home/\x1b[1mu;v\n.py", "\u202eg")
    loader = writer.code("<frozen importlib._bootstrap>", "g")
    stacks = [writer.stack((code, 1), (deep, 2)), writer.stack((loader, 2), (code, 3), truncated=1)]
    stacks.append(writer.stack((writer.code("/usr/lib/python3.11/os.py", "h"), 4), submitters=(stacks[1], stacks[0])))
    for number, process in enumerate((top, child, later)):
        thread = writer.thread(process, 100 + number)
        begin = 3_000 + 10_000 * number
        desc = writer.desc(3, paths[number], dev=1, ino=2 + number, kind=1, process=process)
        append = writer.desc(4, paths[number], dev=1, ino=2 + number, open_flags=os.O_APPEND | os.O_CREAT)
        same = writer.desc(5, paths[number + 3], root=desc)
        span = thread.record("SPAN_USER", begin=begin, duration=5_000, aux=writer.string("sp\x1b[7man"),
                             offset=writer.string('{"a": "\\u001b"}'))  # fmt: skip
        asked = thread.record("A_BUF_READ", begin=begin + 10, duration=900, desc=desc, size=90, result=90, parent=span,
                              link=1, stack=stacks[0])  # fmt: skip
        thread.record("OPEN", begin=begin + 20, desc=paths[number], aux=os.O_TRUNC, offset=desc, result=3,
                      stack=stacks[1], parent=asked)  # fmt: skip
        for step in range(90):  # more than a page of records
            op = ("READ", "WRITE", "PREAD")[step % 3]
            at = -1 if step % 3 < 2 else step
            thread.record(op, begin=begin + 30 + step, desc=(desc, append, same)[step % 3], aux=3, offset=at, size=10,
                          result=10, stack=stacks[step % 2], parent=asked, link=1)  # fmt: skip
        wide = thread.record("READ", begin=begin + 200, desc=desc, aux=3, flags=layout.WIDE)
        thread.record("EXT", begin=1 << 33, parent=wide, offset=1 << 33)
        thread.record("LSEEK", begin=begin + 210, desc=desc, aux=3, offset=7, size=2)
        thread.record("RENAME", begin=begin + 220, desc=paths[1], aux=paths[2])
        thread.record("SENDFILE", begin=begin + 230, desc=desc, aux=append, size=10, result=10, stack=stacks[2])
        copy = thread.record("COPY_FILE_RANGE_AT", begin=begin + 235, desc=desc, aux=same, size=10, result=10)
        thread.record("OUTPUT", begin=begin + 235, parent=copy, offset=1 << 40)
        thread.record("DUP", begin=begin + 240, desc=desc, aux=3, offset=same, result=4)
        thread.record("STAT", begin=begin + 250, desc=paths[5], errno=2)
        thread.record("A_TEXT_NEXT", begin=begin + 300, flags=layout.COALESCED, desc=desc, aux=9, offset=77, size=5,
                      result=5, stack=stacks[0])  # fmt: skip
        thread.record("READ", begin=begin + 400, state=layout.BEGUN, desc=desc, aux=3, size=5)
    _sums(writer, top, desc, stacks[0], paths[2])
    for number, state in enumerate(layout.SAMPLE_STATES):
        writer.sample(top, 100, state, begin=50_000 + 100 * number, ticks=100, stack=stacks[number % 3], cpu=number)
    for number, kind in enumerate(layout.SYSTEM_KINDS):
        writer.system(kind, begin=50_000 + 100 * number, ticks=100, name=kind, pid=number, device=1)
    return writer.bytes()


def _sums(writer: LogWriter, process: int, desc: int, stack: int, path: int) -> None:
    """Two chunks of sums of like operations, as the mode profile makes them."""
    for kind, step, ops in (
        (layout.CHUNK_SUMS, layout.PROFILE_SIZE, ("STAT", "RENAME", "OPEN", "SPAN_USER")),
        (layout.CHUNK_SUMS_DATA, layout.PROFILE_DATA_SIZE, ("READ", "WRITE", "SENDFILE", "OUTPUT")),
    ):
        at = writer.chunk(kind, layout.PAGE, process, ticks=50_000) + layout.HEAP_START
        for number, op in enumerate(ops):
            entry = np.zeros((), layout.PROFILE)
            entry["heap"] = (layout.HEAP_PROFILE, step)
            entry["process"], entry["tid"], entry["op"], entry["stack"] = process, 100 * number, OP[op], stack
            entry["desc"] = path if kind == layout.CHUNK_SUMS else desc
            entry["aux"] = path if op == "RENAME" else writer.string("sum") if op == "SPAN_USER" else desc
            entry["opened"] = desc if op == "OPEN" else writer.string('{"deep": [[1]]}') if op == "SPAN_USER" else 0
            entry["parent"] = at - step >> layout.ID_SHIFT if op == "OUTPUT" else 0
            entry["begun"], entry["count"], entry["asked"], entry["moved"] = 8, 8 - number % 2, 800, 700
            entry["ticks"], entry["longest"], entry["first"], entry["last"] = 900, 90, 50_000, 60_000
            writer.put(at, entry)
            if kind == layout.CHUNK_SUMS_DATA:
                data = np.zeros((), layout.PROFILE_DATA)
                data["placed"], data["sizes"][0], data["common"][0] = 8, 8, (100, 8)
                writer.put(at + layout.PROFILE_SIZE, data)
            at += step


_PROGRAM = """
import os, sys, threading
import pyio_trace
def work(name):
    with pyio_trace.span("work", name=name), open(name, "w+") as f:
        for i in range(50):
            f.write("line\\n")
        f.flush(); f.seek(0)
        sum(len(line) for line in f)
        os.fsync(f.fileno())
threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(2)]
for t in threads: t.start()
for t in threads: t.join()
pid = os.fork()
if pid == 0:
    work("child"); os._exit(3)
os.waitpid(pid, 0)
try: os.stat("nothing")
except OSError: pass
"""


def captured(folder: Path) -> bytes:
    """The log of a real run, with threads and a fork."""
    live = folder / "captured.pyio"
    words = [sys.executable, "-m", "pyio_trace", "-q", "-o", str(live), "-c", _PROGRAM]
    subprocess.run(words, cwd=folder, check=True)
    data = live.read_bytes()
    live.unlink()
    return data
