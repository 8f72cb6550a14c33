"""A run whose names are made to do harm in a page."""

from __future__ import annotations

from pathlib import Path

from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

#: Of files.
NAMES = (
    "/d/<img src=x onerror=alert(1)>.h5", "/d/</script><script>alert(2)</script>", "/d/<!--<script>",
    "/d/a\u2028b\u2029c",
    "/d/\u202egnp.exe", "/d/\u200b\u200binvisible", "/d/\"onmouseover=\"alert(3)", "/d/{{7*7}}${alert(4)}",
    "/d/\x1b[31mred\nline",
    "/d/]]>&lt;&amp;", "/d/__proto__",
)  # fmt: skip
#: Bytes that are no UTF-8.
BROKEN = b"/d/\xff\xfe<svg onload=alert(5)>\xc3"


def hostile_run(path: Path, file: str = '/w/<b onclick="alert(6)">.py') -> Path:
    """file: of its source; the function main in its line 3."""
    writer = LogWriter()
    argv = ["python", "</title><script>alert(7)</script>.py", "\u202e<img src=y>"]
    process = writer.process(
        100, argv=argv, begin=1_000, end=9_000_000, end_kind=layout.END_EXIT, stack_state=1, version=b"3.11.7"
    )
    thread = writer.thread(process, 100)
    stack = writer.stack((writer.code(file, "main"), 3))
    name = writer.string("<script>alert(8)</script>")
    around = {"parent": thread.record("SPAN_USER", begin=10_000, duration=8_000_000, aux=name, stack=stack), "link": 1}
    for at, path_there in enumerate((*NAMES, BROKEN)):
        given = {"desc": writer.desc(3 + at, path_there, kind=1, dev=1, ino=100 + at), "offset": 4096 * at}
        given |= {"size": 4096, "result": 4096, "stack": stack}
        thread.record("PREAD", begin=100_000 * (at + 1), duration=50_000, **given, **around)
    return writer.save(path)
