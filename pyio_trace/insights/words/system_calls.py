"""Functions of os that a program calls itself, without a file object."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_MAPPED = Remedy(
    "Map the file, or read it once: what is in memory then needs no call.",
    "for at in places:\n    use(os.pread(fd, 64, at))",
    "data = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)\nfor at in places:\n    use(data[at : at + 64])",
)
_OPENED = (
    "for item in items:\n    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
    "    os.write(fd, item); os.close(fd)"
)

WORDS: Words = {
    (m.STEPPED_BACK, "os"): _MAPPED,
    (m.READ_AGAIN, "os"): Remedy(
        "Read it once, and keep it, if it fits into memory.",
        "def read(path):\n    fd = os.open(path, os.O_RDONLY)\n    data = os.read(fd, 1 << 20); os.close(fd)\n"
        "    return data",
        "@functools.cache\ndef read(path):\n    fd = os.open(path, os.O_RDONLY)\n"
        "    data = os.read(fd, 1 << 20); os.close(fd)\n    return data",
    ),
    (m.SMALL_READS, "os"): Remedy(
        "Read large blocks: a file object's buffer does that.",
        "while data := os.read(fd, 64):\n    use(data)",
        "with open(fd, 'rb', buffering=1 << 20) as f:\n    while data := f.read(64):\n        use(data)",
    ),
    (m.SMALL_WRITES, "os"): Remedy(
        "Write large blocks: a file object's buffer does that.",
        "for item in items:\n    os.write(fd, item)",
        "with open(fd, 'wb', buffering=1 << 20) as f:\n    for item in items:\n        f.write(item)",
    ),
    (m.OPENED_TO_READ, "os"): Remedy(
        "Open the file once.",
        "for at in places:\n    fd = os.open(path, os.O_RDONLY)\n    use(os.pread(fd, 64, at)); os.close(fd)",
        "fd = os.open(path, os.O_RDONLY)\nfor at in places:\n    use(os.pread(fd, 64, at))\nos.close(fd)",
    ),
    (m.OPENED_TO_ADD, "os"): Remedy(
        "Open the file once.",
        _OPENED,
        "fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\nfor item in items:\n    os.write(fd, item)\n"
        "os.close(fd)",
    ),
}
