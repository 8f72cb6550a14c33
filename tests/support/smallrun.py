"""A small run made by hand; its figures can be worked out on paper.

Two processes on one host.  Ticks are ns and start at 1,000; process 100 lives
from 1,000 to 1,001,000, process 200 from 500,000 until it is killed at 900,000.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

START = 1_700_000_000_000_000_000


def small_run(path: Path) -> Path:
    """Write the run; see the comments for what is in it."""
    writer = LogWriter()
    top = writer.process(100, argv=["python", "train.py"], begin=1_000, end=1_001_000, end_kind=layout.END_EXIT,
                         end_status=0, stack_state=1, version=b"3.11.7")  # fmt: skip
    child = writer.process(200, argv=["python", "-c", "pass"], ppid=100, parent=top, start=layout.START_FORK,
                           begin=500_000, end=900_000, end_kind=layout.END_SIGNAL, end_status=9,
                           blind=1, note=b"no stacks: unknown Python")  # fmt: skip
    code = writer.code("/home/u/train.py", "main")
    ten, twenty = writer.stack((code, 10)), writer.stack((code, 20))
    loader = writer.stack((writer.code("<frozen importlib._bootstrap>", "_find_and_load"), 1), (code, 1))
    data, out = writer.desc(3, "/d/in.bin", kind=1, dev=1, ino=11), writer.desc(4, "/d/out.bin", kind=1, dev=1, ino=12)
    fifo = writer.desc(5, "/d/fifo", kind=3, dev=1, ino=13)

    one = writer.thread(top, 100)
    # an import: kept apart.  app 3,000 ns around posix 2,000 ns, 500 bytes
    load = one.record("A_RAW_READALL", begin=2_000, duration=3_000, desc=data, result=500, stack=loader)
    one.record("READ", begin=2_100, duration=2_000, desc=data, size=500, result=500, parent=load, link=1, stack=loader)
    # open: 1,000 ns
    opened = writer.string("/d/in.bin")
    one.record("OPENAT", begin=9_000, duration=1_000, desc=opened, aux=os.O_RDONLY, offset=data, result=3, stack=ten)
    # a user's span, 100,000 ns, is not I/O; in it an app read of 100 bytes, 10,000 ns, around a read of 8,192, 6,000 ns
    epoch = one.record("SPAN_USER", begin=10_000, duration=100_000, aux=writer.string("epoch"))
    asked = one.record("A_BUF_READ", begin=20_000, duration=10_000, desc=data, size=100, result=100, parent=epoch,
                       link=1, stack=ten)  # fmt: skip
    one.record("PREAD", begin=21_000, duration=6_000, desc=data, aux=3, offset=0, size=8_192, result=8_192,
               parent=asked, link=1, stack=ten)  # fmt: skip
    # plain posix, line 20: a read of bytes 4,096 to 12,288, a write of 1,000 bytes, a failed stat
    one.record("PREAD", begin=40_000, duration=5_000, desc=data, aux=3, offset=4_096, size=8_192, result=8_192,
               stack=twenty)  # fmt: skip
    one.record("PWRITE", begin=50_000, duration=20_000, desc=out, aux=4, offset=0, size=1_000, result=1_000,
               stack=twenty)  # fmt: skip
    one.record("STAT", begin=80_000, duration=2_000, desc=writer.string("/d/none"), errno=errno.ENOENT, stack=twenty)
    # 1,000 lines iterated: 50,000 ns, 30,000 bytes in all, spread over 200,000 ns; one read below it, 9,000 ns
    lines = one.record("A_TEXT_NEXT", begin=200_000, duration=50_000, flags=layout.COALESCED, desc=data, aux=1_000,
                       offset=200_000, result=30_000, stack=ten)  # fmt: skip
    one.record("PREAD", begin=300_000, duration=9_000, desc=data, aux=3, offset=12_288, size=32_768, result=30_000,
               parent=lines, link=1, stack=ten)  # fmt: skip

    # another thread of the same process, in the middle of the write: 10,000 of its 15,000 ns overlap
    two = writer.thread(top, 101)
    two.record("PREAD", begin=60_000, duration=15_000, desc=out, aux=4, offset=500, size=4_096, result=500)

    # the child: one read, then one of a FIFO that never returns
    three = writer.thread(child, 200)
    three.record("PREAD", begin=600_000, duration=1_000, desc=data, aux=3, offset=0, size=4_096, result=4_096)
    three.record("READ", begin=700_000, state=layout.BEGUN, desc=fifo, aux=5, size=10)

    writer.count(child, "PREAD", 7, moved=700, ticks=70)
    writer.header["lost"], writer.header["full_reason"] = 7, layout.FULL_DISK
    writer.header["full_since"] = 800_000
    return writer.save(path)
