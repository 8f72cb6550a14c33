"""The same bytes of a file are read again: in a loop, in each epoch, or by each process.

What fits into memory can be read once and kept (`functools.cache`, a dict, a
dataset in memory). What is read by several processes can be divided among them
(shards, a sampler with ranks), or shared (`multiprocessing.shared_memory`,
`numpy.memmap`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.calls.name_patterns import last_names, role_of
from pyio_trace.analysis.reducers.library_calls import CallList, LibraryCalls
from pyio_trace.analysis.reducers.reuse import FileReuse, ReuseOfBytes
from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import libraries, library_use, sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.library_use import Group, Ints
from pyio_trace.insights.line_walls import parsed_at, parser_of, with_libraries, with_own_code, with_parsers
from pyio_trace.insights.observed import MOST_NAMED, site_of
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.rules.polling import is_watching
from pyio_trace.insights.source_files import content, statement
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.log.sorting import Places, distinct
from pyio_trace.units import counted, number, seconds, significant, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Gain, Observed


REUSE = ReuseOfBytes()
REQUESTS = LibraryCalls()
#: More paths than this are not listed in a query.
_LISTED = 20
_LOADERS = {"numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile"}
_EPOCHS = Remedy(
    "Keep the items in memory from the first epoch on, if they fit: each worker keeps its own.",
    "def __getitem__(self, n):\n    return self.read(n)",
    "# DataLoader(..., persistent_workers=True)\ndef __getitem__(self, n):\n"
    "    if n not in self.items: self.items[n] = self.read(n)\n    return self.items[n]",
    "torch",
)
_STREAM = Remedy(
    "Keep the items in memory from the first epoch on, if they fit: each worker keeps its own.",
    "def __iter__(self):\n    yield from self.read()",
    "# DataLoader(..., persistent_workers=True)\ndef __iter__(self):\n"
    "    if self.items is None: self.items = list(self.read())\n    yield from self.items",
    "torch",
)
_WORKERS = Remedy(
    "Load it in __init__, before the workers start: forked ones share its memory; or keep the workers "
    "(persistent_workers=True): each loads it once then.",
    "def __getitem__(self, n):    # in each worker\n    if self.data is None: self.data = load(self.path)\n"
    "    return self.data[n]",
    "def __init__(self, path):\n    self.data = load(path)    # once\n\ndef __getitem__(self, n):\n"
    "    return self.data[n]",
    "torch",
)
_DIGEST = Remedy(
    "Keep the digest of each file: hash it again only if its size, or the time of its last change, has become another.",
    "def digest(path):\n    with open(path, 'rb') as f:\n        return hashlib.sha256(f.read()).hexdigest()",
    "@functools.cache\ndef hashed(path, size, changed):\n    with open(path, 'rb') as f:\n"
    "        return hashlib.sha256(f.read()).hexdigest()\n\ndef digest(path):\n    now = os.stat(path)\n"
    "    return hashed(path, now.st_size, now.st_mtime_ns)",
)
#: For files that the kernel copies (sendfile, copy_file_range).
_COPIES = Remedy(
    "Link it instead of copying it, if the copies are only read: a link has no bytes of its own.",
    "for name in names:\n    shutil.copyfile(path, name)",
    "for name in names:\n    os.link(path, name)    # or os.symlink",
)
#: Of a program that sleeps between its reads: it may wait for a change.
_CHANGED = Remedy(
    "Read it again only if the time of its last change has become another; or once, if nothing changes it.",
    "def state():\n    with open(path) as f: return {load}",
    "@functools.cache\ndef state_at(changed):\n    with open(path) as f: return {load}\n\n"
    "def state():\n    return state_at(os.stat(path).st_mtime_ns)",
)
#: Readers to which that advice applies.
_PLAIN = (("text",), ("buffered",), ("raw",), ("os",), ("json",))
#: Files that describe what a store has.
DESCRIBES = re.compile(r"/(zarr\.json|\.zarray|\.zattrs|\.zgroup|\.zmetadata)\Z")
_LOOP = re.compile(rb"\bfor\b")
_HASH = re.compile(rb"\bhashlib\.\w|\b(md5|sha\d+|blake2[bs]|crc32|adler32|xxh\w+|file_digest)\s*\(")
_UPDATE = re.compile(rb"\.update\s*\(")
#: A line that reads this share of the bytes reads all of them.
_ALL = 0.9
#: More often than this in an epoch, no item is the cause: items have parts of the file in common.
_IN_ITEMS = 3


class _Requests:
    """Libraries' calls, by file and by line.

    Where a library reads in threads of its own, some of its calls have no bytes.  So the calls of one operation at one
    line count all together.
    """

    def __init__(self, calls: CallList) -> None:
        self._calls = calls
        self._places = {key: Places(calls[key]) for key in ("path", "site")}
        self._codes: dict[str, dict[str, list[int]]] = {}
        for key, texts in (("path", calls.paths), ("site", calls.sites)):
            codes = self._codes[key] = {}
            for code, text in enumerate(texts):
                codes.setdefault(text, []).append(code)

    def of(self, paths: Collection[str], lines: Collection[str] = ()) -> Group:
        """The calls that read these files, or a folder that one of them is in; and the calls at these lines that read
        without naming a file."""
        named = self._at("path", {folder for path in paths for folder in _with_folders(path)})
        of_line = self._at("site", lines)
        at = distinct(np.concatenate([named, of_line[self._calls["path"][of_line] < 0]]))
        kinds = self._calls["site"][at] * len(self._calls.ops) + self._calls["op"][at]
        return Group(self._calls, at[np.isin(kinds, kinds[self._calls["read"][at] > 0])])

    def meanwhile(self, reads: CallTable) -> Counter[str]:
        """The program's lines that were in a library's call without a file while these reads were made, with its ns."""
        calls, found = self._calls, Counter[str]()
        first, last = reads.columns["first"].min(), reads.columns["last"].max()
        during = (calls["time"] <= last) & (calls["time"] + calls["duration"] >= first)
        at = np.flatnonzero(during & (calls["path"] < 0) & (calls["site"] >= 0))
        for (code, op), part in Group(calls, at).by("site", "op"):
            line = calls.sites[code]
            if reads.code.is_own(line) and calls.ops[op].startswith(libraries.IN_THREADS):
                found[line] += part.total("duration")
        return found

    def _at(self, key: str, texts: Collection[str]) -> Ints:
        return self._places[key].of([code for text in texts for code in self._codes[key].get(text, ())])


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    requests = _Requests(run.of(REQUESTS))
    files: dict[str, list[FileReuse]] = {}
    for one in run.of(REUSE).rows:
        often = one.times is not None and one.times >= limits["times"]
        if not (often and one.again_bytes and role_of(one.path) == "data") or run.is_database(one.path):
            continue
        changes = (_is_added_to, _is_of_parts, _is_made_by_others, _sees_new_bytes, _is_sent)
        if not any(has(run, one) for has in changes):
            files.setdefault(_own_line(run, one) or run.pattern_of(one.path), []).append(one)
    for same in files.values():
        if sum(one.again_bytes for one in same) >= limits["bytes"]:
            yield _finding(run, same, requests)


def _is_added_to(run: Observed, one: FileReuse) -> bool:
    """Whether the line that reads a file also keeps adding to it, as with an archive.  Keeping what was read would not
    help then, because the file changes each time."""
    there = run.calls.where_paths([one.path]).where_line(one.line or "")
    return bool(
        there.where(kind=OpClass.WRITE).total("calls") > 1 and there.where(kind=OpClass.OPEN).total("calls") > 1
    )


def _is_of_parts(run: Observed, one: FileReuse) -> bool:
    """Whether each task of Dask that reads a file has a part of its own."""
    if (one.tasks or 0) <= 1:
        return False
    of_tasks = sum(1 for other in run.of(REUSE).rows if other.tasks and role_of(other.path) == "data")
    return library_use.reads_parts(run, one.tasks or 0, of_tasks)


def _is_made_by_others(run: Observed, one: FileReuse) -> bool:
    """Whether other processes write a file about as often as it is read: what was read is old then."""
    calls = run.calls.where_paths([one.path])
    reads, writes = calls.transfers("read"), calls.transfers("write")
    readers, writers = (distinct(some.columns["process"]).tolist() for some in (reads, writes))
    others = [process for process in writers if process not in readers]
    if not others or not len(reads):
        return False
    written = writes.where(process=others)
    began, ended = reads.columns["first"].min(), reads.columns["last"].max()
    opens = calls.where(kind=OpClass.OPEN, errno=0)
    made = opens.where(process=others).total("calls")
    during = (written.columns["last"] > began) & (written.columns["first"] < ended)
    return bool(during.any()) and 2 * made > opens.where(process=readers).total("calls")


def _sees_new_bytes(run: Observed, one: FileReuse) -> bool:
    return is_made_anew(run, one.path, one.read_bytes)


def _is_copied(reads: CallTable) -> bool:
    """Whether the kernel copied most of what was read."""
    return 2 * reads.where(kind=OpClass.COPY).total("moved") > reads.total("moved")


def _is_sent(run: Observed, one: FileReuse) -> bool:
    """Whether the kernel sends the file to a socket.  If it made copies, the same functions would open those."""
    reads = run.calls.where_paths([one.path]).transfers("read")
    if not _is_copied(reads):
        return False
    functions = {(site.file, site.function) for site in run.sites(reads)}
    opens = run.calls.where(kind=OpClass.OPEN, errno=0, layer=Layer.POSIX)
    near = [code for code in opens.codes("site") if (at := opens.site(code)) and _function(at) in functions]
    opens = opens.where(site=near)
    of_it = opens.where(path=reads.codes("path")).total("calls")
    return 2 * (opens.total("calls") - of_it) < of_it


def _function(line: str) -> tuple[str, str] | None:
    site = site_of(line)
    return None if site is None else (site.file, site.function)


def is_made_anew(run: Observed, path: str, read: int) -> bool:
    """Whether about as much is written to a file as is read of it (bytes): each reading then finds other bytes."""
    return 2 * read <= 3 * run.calls.where_paths([path]).transfers("write").total("moved")


def _own_line(run: Observed, one: FileReuse) -> str | None:
    return one.line if run.is_own(one.line) else None


def _finding(run: Observed, same: list[FileReuse], requests: _Requests) -> Finding:
    """same: files that a line of the program reads again; without one, those of a pattern."""
    line, paths = _own_line(run, same[0]), [one.path for one in same]
    again, read = sum(one.again_bytes for one in same), sum(one.read_bytes for one in same)
    once, others = sum(one.distinct_bytes for one in same), sum(one.other_process_bytes or 0 for one in same)
    epochs = max(one.epochs or 0 for one in same)
    reads = run.calls.where_paths(paths).transfers("read")
    opened = run.calls.where_paths(paths).where(kind=OpClass.OPEN, errno=0, layer=(Layer.POSIX, Layer.STDIO))
    by_epoch = 2 * read <= 3 * epochs * once or (
        2 * opened.total("calls") <= 3 * epochs * len(same) and epochs > 1 and read <= _IN_ITEMS * epochs * once
    )
    divided = others > again // 2
    gain = run.gain(run.times(reads, again / max(read, 1)), "the share of the reads that read bytes again", "estimate")
    lines = [line] if line else _lines(reads, requests)
    sites = [site for one in lines for site in run.site_list(one)] or run.sites(reads)
    if _is_copied(reads):
        gain = replace(gain, recoverable=replace(gain.recoverable, bound="upper"))
    calls = requests.of(paths, lines)
    whole = None if by_epoch or divided else _with_requests(run, calls, again / max(read, 1))
    if whole is not None and whole.ns > gain.ns:
        gain = whole
    decoded = _decoded(run, paths, lines, again / max(read, 1))
    if not by_epoch and decoded.ns > gain.ns:
        gain = decoded
    if not by_epoch:
        processes = reads.codes("process")
        gain = with_libraries(run, gain, sites, again / max(read, 1), processes, read)
        if not any(map(run.is_loader_worker, processes)):
            parsed = with_parsers(run, gain, [*sites, *parsed_at(run, sites)], again / max(read, 1))
            sites, gain = (sites if parsed is gain else [*sites, *parsed_at(run, sites)]), parsed
        gain = with_own_code(run, gain, sites, again / max(read, 1), read)
        if len(processes) == 1:
            gain = max(gain, _a_pass(run, gain, reads, once), key=lambda one: one.ns)
    patterns = list(dict.fromkeys(run.pattern_of(path) for path in paths))
    name = last_names(patterns[0]) if len(patterns) == 1 else counted(len(same), "file")
    text = f"{size(read)} read of {size(once)} in {counted(len(same), 'file')}, in "
    text += seconds(sum(one.time_ns for one in same))
    text += f"; {size(others)} had been read by another process" if others else ""
    text += f", over {number(epochs)} epochs." if epochs > 1 else "."
    values: dict[str, int | float | str] = {
        "bytes": read,
        "distinct": once,
        "again": again,
        "other_process": others,
        "files": len(same),
    }
    few = {"path": sorted(paths)} if len(paths) <= _LISTED or line is None else {"site": line}
    return Finding(
        title=f"{name}: each byte is read {significant(read / max(once, 1))} times",
        evidence=[Evidence(text, values), *([_evidence(calls)] if gain is whole else [])],
        remedy=_remedy(run, reads, lines, by_epoch, divided),
        confidence=Confidence(0.8, "ranges of bytes are in the log; whether they fit into memory is not known"),
        query=sql.rows(
            {**few, "op_class": ["read", "copy"], "layer": ["posix", "stdio"]},
            select="path, " + sql.SUMS,
            group="path, op",
        ),
        **{
            **run.about(reads, gain), "files": patterns[:MOST_NAMED],
            "sites": sites,
        },
    )  # fmt: skip


def _a_pass(run: Observed, gain: Gain, reads: CallTable, once: int) -> Gain:
    """If several lines read all of the bytes, such as one that counts lines and one that uses them: the time of the
    cheapest, which can be left out.  once: how many bytes all of them are."""
    passes = []
    for place in reads.by("site"):
        line = run.calls.site(place["site"])
        if run.is_own(line) and place.moved >= _ALL * once:
            passes.append(with_own_code(run, replace(gain, ns=0), run.site_list(line), once / place.moved, place.moved))
    return min(passes, key=lambda one: one.ns) if len(passes) > 1 else gain


def _remedy(run: Observed, reads: CallTable, lines: list[str], by_epoch: bool, divided: bool) -> Remedy:
    """by_epoch: about once in each epoch of a loader; divided: most of it had been read by another process."""
    if by_epoch:
        return _STREAM if any(":__iter__" in line or ".__iter__" in line for line in lines) else _EPOCHS
    if divided and reads.codes("process") and all(map(run.is_loader_worker, reads.codes("process"))):
        return _WORKERS
    if _is_copied(reads):
        return _COPIES
    calls = run.calls.where(layer=(Layer.POSIX, Layer.STDIO), path=reads.codes("path"), errno=0)
    opens = calls.where(kind=OpClass.OPEN).total("calls")
    made = calls.where(kind=OpClass.WRITE).distinct("path")  # opened for that, too
    stepped = opens - made < 2 * reads.distinct("path")
    names = libraries.readers(run, reads, lines)
    sites = [site for line in lines for site in run.site_list(line)]
    if all(map(DESCRIBES.search, reads.paths())):
        called = (one.function.partition(".")[0] for row in run.walls(sites) for one in row.called)
        known = [name for name in (*called, *names) if (m.DESCRIBED_AGAIN, name) in words.table()]
        return words.remedy(m.DESCRIBED_AGAIN, known)
    if names[:1] in (("tarfile",), ("zipfile",)) and _is_packed(run, reads, lines):
        return words.remedy(m.PACKED_AGAIN, ())
    if not stepped and any(map(_is_hashed, sites)):
        return _DIGEST
    if not stepped and names[:1] in _PLAIN and is_watching(run, sites):
        load = "json.load(f)" if names[0] == "json" else "f.read()"
        return replace(_CHANGED, before=_CHANGED.before.format(load=load), after=_CHANGED.after.format(load=load))
    if names[:1] in (("text",), ("buffered",)) and not stepped:
        module = parser_of(run, [*sites, *parsed_at(run, sites)])
        by_line = any(_LOOP.search(statement(site.file, site.line)) for site in sites)
        readers = ([f"{module}/lines"] if by_line else []) + [module] if module else []
        names = (*[one for one in readers if (m.READ_AGAIN, one) in words.table()][:1], *names)
    if not stepped and names[:1] in (("text",), ("buffered",)) and _grows(run, reads):
        return words.remedy(m.GROWN, names)
    if stepped and not divided and names[:1] == ("buffered",) and _fetches_more(run, reads):
        return words.remedy(m.FETCHED_MORE, names)
    remedy = words.remedy(m.READ_BY_EACH if divided else m.STEPPED_BACK if stepped else m.READ_AGAIN, names)
    return _with_function(remedy, run, lines) if names[:1] == ("numpy",) else remedy


def _is_packed(run: Observed, reads: CallTable, lines: list[str]) -> bool:
    """Whether these lines put what they read into an archive: they write other files."""
    writes = run.calls.where_lines(lines).transfers("write")
    return writes.total("moved") > 0 and not set(writes.codes("path")) & set(reads.codes("path"))


def _is_hashed(site: Site) -> bool:
    """Whether what a line reads is hashed there, or in the two lines after it."""
    source = content(site.file).split(b"\n")
    there = b"\n".join(source[max(site.line - 1, 0) : site.line + 2])
    before = b"\n".join(source[max(site.line - 8, 0) : max(site.line - 1, 0)])
    return bool(_HASH.search(there) or (_UPDATE.search(there) and _HASH.search(before)))


def _with_function(remedy: Remedy, run: Observed, lines: list[str]) -> Remedy:
    """numpy.load in the words is what these lines called: another function may read text."""
    around = run.calls.where_lines(lines)
    called = {around.op(code) for code in around.codes("op")} & _LOADERS
    if len(called) != 1 or "mmap_mode" in remedy.after:
        return remedy
    name = f"{called.pop()}("
    return replace(
        remedy, before=remedy.before.replace("numpy.load(", name), after=remedy.after.replace("numpy.load(", name)
    )


def _grows(run: Observed, reads: CallTable) -> bool:
    """Whether something is added to these files, at another line, between the first read and the last."""
    calls = run.calls.where(layer=(Layer.POSIX, Layer.STDIO), path=reads.codes("path"), errno=0)
    writes = calls.where(kind=OpClass.WRITE)
    began, ended = reads.columns["first"].min(), reads.columns["last"].max()
    during = (writes.columns["last"] > began) & (writes.columns["first"] < ended)
    added = writes.rows(during & ~np.isin(writes.columns["site"], reads.codes("site")))
    emptied = calls.where(op=("truncate", "ftruncate")).total("calls")
    return len(added) > 0 and not emptied and 2 * added.total("moved") < reads.total("moved")


def _fetches_more(run: Observed, reads: CallTable) -> bool:
    """Whether file objects gave the program less than half of what they read."""
    asked = run.calls.where(layer=Layer.APP, kind=OpClass.READ, role=Role.REQUEST, path=reads.codes("path"))
    return 0 < 2 * asked.total("moved") < reads.total("moved")


def _lines(reads: CallTable, requests: _Requests) -> list[str]:
    """The program's lines that lead to these reads, most bytes first.  A read in a library's own thread has none; the
    library's call has it."""
    own, moved = reads.rows(reads.own), Counter[str]()
    for group in own.by("site"):
        moved[own.site(group["site"]) or ""] = group.moved
    calls = requests.of(reads.paths())
    for (code,), part in calls.by("site"):
        if code >= 0 and reads.code.is_own(line := calls.calls.sites[code]):
            moved[line] = max(moved[line], part.total("read"))
    if not moved:
        moved = requests.meanwhile(reads)
    return [line for line, _ in moved.most_common(MOST_NAMED)]


def _with_requests(run: Observed, calls: Group, share: float) -> Gain | None:
    """The time of a share of libraries' calls, decoding included; None: there are no calls."""
    if not len(calls):
        return None
    how = "the share of these calls that reads bytes again, decoding included"
    return run.gain(calls.scaled(int(calls.total("duration") * share)), how, "estimate")


def _decoded(run: Observed, paths: list[str], lines: list[str], share: float) -> Gain:
    """The time of a share of the lines' calls of Python's file objects: a text file decodes what it reads."""
    calls = run.calls.where_paths(paths).where_lines(lines).where(layer=Layer.APP, kind=OpClass.READ)
    how = "the share of the reads of these file objects that reads bytes again, decoding included"
    return run.gain(run.times(calls, share, value="outer"), how, "estimate")


def _evidence(calls: Group) -> Evidence:
    """How long libraries' calls took."""
    time, ops = calls.total("duration"), calls.ops()
    what = ops[0] if len(ops) == 1 else "calls of libraries"
    text = f"{number(len(calls))} {what} took {seconds(time)}, {seconds(min(calls.leaf_ns, time))} of it in I/O."
    return Evidence(text, {"calls": len(calls), "time_ns": time})


def _with_folders(path: str) -> Iterator[str]:
    """The path, and the folders it is in."""
    while path.strip("/"):
        yield path
        path = path.rpartition("/")[0]


RULE = Rule(
    "accesses",
    find,
    limits={
        "times": Limit(2, "that each byte of a file is read, on average, at least"),
        "bytes": Limit(1 << 20, "read again from files of one name and line, at least", few=1 << 12),
    },
    needs=(REUSE, REQUESTS),
    yields_to=(
        "whole-file-again",
        "tasks-read-again",
        "hdf5-chunks-again",
        "hdf5-chunk-cache",
        "hdf5-contiguous",
        "hdf5-reopen-per-item",
        "loader-duplicated",
    ),
    trial=Trial("pyio_trace.insights.trials.reads:kept"),
)
