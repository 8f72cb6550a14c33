"""What a picture of a log has to show, worked out from its operations table; and logs to try it on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyio_trace
from pyio_trace.cli.main import main
from tests.support.logwriter import LogWriter

#: Formats that show single operations, and those that show sums.
SINGLE, SUMS = ("chrome", "firefox", "perfetto"), ("folded", "pprof", "speedscope")
FORMATS = (*SINGLE, *SUMS)
LEFT_OUT = "left out (sum)"

#: A program with threads, a child, spans that hand work over, failing calls and runs of tiny calls.
PROGRAM = """\
import concurrent.futures, os
import pyio_trace
def work(n):
    with open(f"f{n}", "wb") as file:
        for _ in range(5):
            file.write(bytes(9000))
    return n
with pyio_trace.span("all"):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
if not os.fork():
    work(9)
    os._exit(0)
os.wait()
try: os.stat("none")
except FileNotFoundError: pass
with open("lines", "w") as file:
    for n in range(3000):
        file.write("line\\n")
with open("lines") as file:
    assert sum(1 for line in file) == 3000
"""


def export(log: Path, output: Path, to: str, *more: str) -> Path:
    """Exports a log, which must work."""
    assert main(["export", str(log), "--to", to, "-o", str(output), *more]) == 0
    return output


def shown(path: Path) -> Counter[tuple[Any, ...]]:
    """(operation, begin, end, bytes, calls, errno) of all operations that imports did not make."""
    log = pyio_trace.open(path)
    table = log.operations(["op", "time", "duration", "bytes_moved", "calls", "errno", "process", "detail", "imported"])
    ends = [one["end"] for one in log.processes().to_pylist()]
    last = max(one for one in [*ends, log.info()["end"]] if one is not None)
    found: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        if row["imported"]:
            continue
        length = row["duration"]
        if length is None:
            length = (ends[row["process"]] or last) - row["time"]
        span = re.search(r'"span_ns": ?(\d+)', row["detail"] or "")
        if row["calls"] > 1 and span:
            length = int(span[1])
        key = row["op"], row["time"], row["time"] + length, row["bytes_moved"], row["calls"], row["errno"]
        found[key] += 1
    return found


def outer_sums(path: Path) -> dict[str, int]:
    """Calls, bytes and time of outermost calls that imports did not make."""
    log = pyio_trace.open(path)
    table = log.operations(["op_class", "calls", "bytes_moved", "duration", "imported", "id", "op_role", "request_id"])
    found = {"calls": 0, "bytes": 0, "io_time": 0}
    for row in table.to_pylist():
        request = row["op_role"] == "request" and row["request_id"] == row["id"]
        leaf = row["op_role"] in ("io", "sync", "lock", "map") and row["request_id"] is None
        if row["imported"] or not (request or leaf):
            continue
        times = {"read": 1, "write": 1, "copy": 2}.get(row["op_class"], 0)
        found["calls"] += row["calls"]
        found["bytes"] += times * (row["bytes_moved"] or 0)
        found["io_time"] += row["duration"]
    return found


HOSTILE = (b"/d/\xff\xfe", "/d/\u202egnp.exe", "/d/</script><b>", '/d/a\nb\t"\\', "/d/" + "x" * 5000, "/d/;:1:")


def hostile_log(path: Path) -> Path:
    """A log with names that mean something to those who show them, in paths, code and commands."""
    writer = LogWriter()
    process = writer.process(7, argv=["python", "</script>\u202e.py"], begin=1_000, end=900_000)
    thread = writer.thread(process, 7)
    for place, name in enumerate(HOSTILE):
        text = name.decode("latin-1") if isinstance(name, bytes) else name
        code = writer.code(text, text)
        desc = writer.desc(3, name, kind=1, dev=1, ino=place + 1)
        thread.record("PREAD", begin=2_000 + place * 100, duration=50, desc=desc, aux=3, offset=0, size=9, result=9,
                      stack=writer.stack((code, 3)))  # fmt: skip
    return writer.save(path)


def many_operations(path: Path, count: int = 3000) -> Path:
    """A log of reads by three lines; the k-th takes 100 + k ns, moves 10 bytes."""
    writer = LogWriter()
    process = writer.process(5, argv=["python", "many.py"], begin=1_000, end=10_000_000)
    thread = writer.thread(process, 5)
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=1)
    stacks = [writer.stack((writer.code("/d/many.py", "f"), line)) for line in (1, 2, 3)]
    for k in range(count):
        thread.record("PREAD", begin=10_000 + k * 5_000, duration=100 + k, desc=desc, aux=3, offset=k, size=10,
                      result=10, stack=stacks[k % 3])  # fmt: skip
    return writer.save(path)
