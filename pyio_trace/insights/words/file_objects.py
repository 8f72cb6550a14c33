"""Python's own file objects: text, buffered and raw ones; and json and pickle, which read and write through these."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_ONCE = "Read it once, and keep it, if it fits into memory."


def _cached(mode: str, read: str) -> Remedy:
    function = f"def read(path):\n    with open(path{mode}) as f: return {read}"
    return Remedy(_ONCE, function, f"@functools.cache\n{function}")


def _passes(mode: str, part: str) -> Remedy:
    return Remedy(
        "Read it once, and do all that is to be done with it.",
        f"with open(path{mode}) as f:\n    for key in keys:\n        f.seek(0)\n        use(f.read().count(key))",
        f"with open(path{mode}) as f:\n    {part} = f.read()\nfor key in keys:\n    use({part}.count(key))",
    )


def _opened(mode: str, act: str) -> Remedy:
    opening = f"with open(path, '{mode}') as f:"
    return Remedy(
        "Open the file once.",
        f"for item in items:\n    {opening}\n        {act}",
        f"{opening}\n    for item in items:\n        {act}",
    )


_READ_AT = _opened("rb", "f.seek(item.at); use(f.read(item.size))")
_LARGE = ", buffering=1 << 20"
_READ = "with open(path, 'rb'{}) as f:\n    while data := f.read(512): use(data)"
_WRITE = "with open(path, 'w{}'{}) as f:\n    for item in items: f.write(item)"


def _larger(small: str, binary: str = "b") -> tuple[Remedy, Remedy]:
    """Against small reads, and small writes."""
    return (
        Remedy("Read large blocks: 1 MiB and more.", _READ.format(small), _READ.format(_LARGE)),
        Remedy("Write large blocks: 1 MiB and more.", _WRITE.format(binary, small), _WRITE.format(binary, _LARGE)),
    )


_BLOCK = Remedy(
    "Read a block, and take it apart in memory.",
    "while data := f.read(8):\n    use(struct.unpack('d', data))",
    "for values in struct.iter_unpack('d', f.read()):\n    use(values)",
)
_JOIN = "for start in range(0, len(parts), 1000):\n    f.write({}.join(parts[start : start + 1000]))"
_JOIN_TEXT = "Join many parts, and write them in one call."
_PARTS = "for part in parts:\n    f.write(part)"

_SORTED = Remedy(
    "Read in the order of the file.",
    "for n in random.sample(range(count), 1000):\n    f.seek(n * size); use(f.read(size))",
    "for n in sorted(random.sample(range(count), 1000)):\n    f.seek(n * size); use(f.read(size))",
)
_MAPPED = Remedy(
    "Change the records in memory.",
    "for n in changed:\n    f.seek(n * 8); x = f.read(8)\n    f.seek(n * 8); f.write(x[::-1])",
    "with mmap.mmap(f.fileno(), 0) as data:\n    for n in changed:\n"
    "        data[n * 8 : n * 8 + 8] = data[n * 8 : n * 8 + 8][::-1]",
)
_OWN_FILE = Remedy(
    "Let each process write large blocks of its own.",
    "with open('out', 'r+b', buffering=0) as f:\n    for n, record in enumerate(records):\n"
    "        f.seek((n * ranks + rank) * 100); f.write(record)",
    "with open(f'out.{rank}', 'wb') as f:\n    f.write(b''.join(records))",
)

_EXACTLY = Remedy(
    "Read without a buffer: it is filled anew at each place, with more than is used.",
    "with open(path, 'rb', buffering=1 << 20) as f:\n    for at in places:\n        f.seek(at); use(f.read(100))",
    "with open(path, 'rb', buffering=0) as f:\n    for at in places:\n        f.seek(at); use(f.read(100))",
)

WORDS: Words = {
    (m.FETCHED_MORE, "buffered"): _EXACTLY,
    (m.READ_AGAIN, "text"): _cached("", "f.read()"),
    (m.READ_AGAIN, "buffered"): _cached(", 'rb'", "f.read()"),
    (m.READ_AGAIN, "raw"): _cached(", 'rb'", "f.read()"),
    (m.READ_AGAIN, "json"): _cached("", "json.load(f)"),
    (m.READ_AGAIN, "json/lines"): _cached("", "[json.loads(one) for one in f]"),
    (m.READ_AGAIN, "pickle"): _cached(", 'rb'", "pickle.load(f)"),
    (m.STEPPED_BACK, "text"): _passes("", "text"),
    (m.STEPPED_BACK, "buffered"): _passes(", 'rb'", "data"),
    (m.OPENED_TO_READ, "buffered"): _READ_AT,
    (m.OPENED_TO_READ, "raw"): _READ_AT,
    (m.OPENED_TO_READ, "text"): Remedy(
        "Open the file once, and keep what is read.",
        "for n in numbers:\n    with open(path) as f:\n        use(f.readlines()[n])",
        "with open(path) as f:\n    lines = f.readlines()\nfor n in numbers:\n    use(lines[n])",
    ),
    (m.OPENED_TO_ADD, "buffered"): _opened("ab", "f.write(item)"),
    (m.OPENED_TO_ADD, "raw"): _opened("ab", "f.write(item)"),
    (m.OPENED_TO_ADD, "text"): _opened("a", "f.write(item)"),
    (m.FILES_READ, "buffered"): Remedy(
        "Keep many items in one file.",
        "for path in paths:\n    use(Path(path).read_bytes())",
        "with zipfile.ZipFile('items.zip') as archive:    # made once\n"
        "    for name in archive.namelist():\n        use(archive.read(name))",
        "zipfile",
    ),
    (m.FILES_READ, "json"): Remedy(
        "Keep many items in one file: one on each line.",
        "for path in paths:\n    with open(path) as f: use(json.load(f))",
        "with open('items.jsonl') as f:    # made once\n    for line in f: use(json.loads(line))",
    ),
    (m.FILES_READ, "pickle"): Remedy(
        "Keep many items in one file.",
        "for path in paths:\n    with open(path, 'rb') as f: use(pickle.load(f))",
        "with open('items.pickle', 'rb') as f:    # made once\n    for item in pickle.load(f): use(item)",
    ),
    (m.FILES_WRITTEN, "buffered"): Remedy(
        "Keep many items in one file.",
        "for name, data in items:\n    Path(name).write_bytes(data)",
        "with zipfile.ZipFile('items.zip', 'w') as archive:\n"
        "    for name, data in items:\n        archive.writestr(name, data)",
        "zipfile",
    ),
    (m.FILES_WRITTEN, "json"): Remedy(
        "Keep many items in one file: one on each line.",
        "for name, item in items:\n    with open(name, 'w') as f: json.dump(item, f)",
        "with open('items.jsonl', 'w') as f:\n    for name, item in items:\n"
        "        f.write(json.dumps([name, item]) + '\\n')",
    ),
    (m.FILES_WRITTEN, "pickle"): Remedy(
        "Keep many items in one file.",
        "for name, item in items:\n    with open(name, 'wb') as f: pickle.dump(item, f)",
        "with open('items.pickle', 'wb') as f:\n    pickle.dump(dict(items), f)",
    ),
    (m.SMALL_READS, "text"): Remedy(
        "Read bytes in large blocks: of text, Python reads 8 KiB at a time, whatever the buffer.",
        "with open(path) as f:\n    for line in f: use(line)",
        f"with open(path, 'rb'{_LARGE}) as f:\n    for line in f: use(line.decode())",
    ),
    (m.SMALL_WRITES, "text"): _larger("", "")[1],
    (m.SMALL_READS, "buffered"): _larger("")[0],
    (m.SMALL_WRITES, "buffered"): _larger("")[1],
    (m.SMALL_READS, "raw"): _larger(", buffering=0")[0],
    (m.SMALL_WRITES, "raw"): _larger(", buffering=0")[1],
    (m.RANDOM_READS, "buffered"): _SORTED,
    (m.RANDOM_READS, "raw"): _SORTED,
    (m.CHANGED_IN_PLACE, "buffered"): _MAPPED,
    (m.CHANGED_IN_PLACE, "raw"): _MAPPED,
    (m.SHARED, "buffered"): _OWN_FILE,
    (m.SHARED, "raw"): _OWN_FILE,
    (m.LONG_CLOSE, "buffered"): Remedy(
        "Let a thread write and close, while the program goes on.",
        "with open(path, 'wb') as f:\n    f.write(data)",
        "pending = executor.submit(Path(path).write_bytes, data)\n...\npending.result()    # before the file is needed",
    ),
    (m.TINY_READS, "buffered"): _BLOCK,
    (m.TINY_READS, "raw"): _BLOCK,
    (m.TINY_READS, "text"): Remedy(
        "Read a block, and take it apart in memory.",
        "while letter := f.read(1):\n    use(letter)",
        "while block := f.read(1 << 20):\n    for letter in block:\n        use(letter)",
    ),
    (m.TINY_WRITES, "text"): Remedy(_JOIN_TEXT, _PARTS, _JOIN.format("''")),
    (m.TINY_WRITES, "buffered"): Remedy(_JOIN_TEXT, _PARTS, _JOIN.format("b''")),
    (m.TINY_WRITES, "raw"): Remedy(_JOIN_TEXT, _PARTS, _JOIN.format("b''")),
}
WORDS[m.OPENED_TO_ADD, "logging"] = Remedy(
    "Let the log grow larger before it is rotated: each rotation renames its files, and opens a new one.",
    "handler = logging.handlers.RotatingFileHandler(path, maxBytes=4000,\n    backupCount=3)",
    "handler = logging.handlers.RotatingFileHandler(path, maxBytes=10**7,\n    backupCount=3)",
    "logging",
)
WORDS[m.OPENED_TO_ADD, "logging/handlers"] = Remedy(
    "Make the handler once, where the program starts: each further one opens the file again, and writes each record "
    "once more, for as long as it is not removed.",
    "log = logging.getLogger('x')\n"
    "for item in items:\n    log.addHandler(logging.FileHandler(path))\n    log.error(item)",
    "log = logging.getLogger('x')\nlog.addHandler(logging.FileHandler(path))    # once\n"
    "for item in items:\n    log.error(item)",
    "logging",
)
_PLAIN = {(one, "buffered"): WORDS[one, "buffered"] for one in (m.FILES_READ, m.FILES_WRITTEN)}
WORDS |= {(mechanism, reader): words for (mechanism, _), words in _PLAIN.items() for reader in ("text", "raw")}
