"""numpy.load and the like of the same whole file, again and again at one line: probably for a part of it each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.analysis.reducers.reuse import ReuseOfBytes
from pyio_trace.insights import libraries, library_use, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.library_use import NEEDS, Group, calls_of, joined
from pyio_trace.insights.line_walls import with_libraries, with_own_code
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.rules.read_again import is_made_anew
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import counted, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable

_REUSE = ReuseOfBytes()
_TEXT = ("numpy.loadtxt", "numpy.genfromtxt")
_LOADS = ("numpy.load", "numpy.fromfile", "torch.load", *_TEXT)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines that load a file several times in one process, outside of epochs."""
    loads = calls_of(observed, *_LOADS)
    # Blocks of a file, one after the other, are no file that is read again.
    once = {one.path for one in observed.of(_REUSE).rows if one.times is not None and one.times < limits["read"]}
    for (site,), of_line in loads.by("site"):
        again = [
            part for (_, path), part in of_line.by("process", "path")
            if path >= 0 and len(part) >= limits["times"] and once.isdisjoint(part.paths())
            and not is_made_anew(observed, loads.calls.paths[path], part.total("read"))
        ]  # fmt: skip
        if site >= 0 and again:
            group = joined(again)
            if group.total("read") >= limits["bytes"] * len(group):
                yield _finding(observed, group, len(again))


def _finding(observed: Observed, group: Group, files: int) -> Finding:
    count, time = len(group), group.total("duration")
    how = f"{count - files:,} of {count:,} loads read a file that the process had read before"
    gain = observed.gain(group.scaled(int(time * (count - files) / count)), how, "estimate")
    beside = _read_beside(observed, group)
    others = observed.sites(beside)
    if others:
        gain = _with_others(observed, gain, beside, others, (count - files) / count)
    read, once = group.total("read"), _once(group)
    paths = group.paths()
    name = paths[0].rpartition("/")[2] if len(paths) == 1 else counted(len(paths), "file")
    op = max(group.ops(), key=len)
    evidence = Evidence(
        f"{count:,} {op} of {name} read {size(read)}, which is {size(once)} of file, and took {seconds(time)}.",
        {"loads": count, "files": files, "read": read, "once": once},
    )
    more = [Evidence(f"They are read each time at {', '.join(map(str, others))}, too.")] if others else []
    call = f"{op.replace('numpy.', 'np.')}(path)"
    after = {
        "numpy.load": "array = np.load(path, mmap_mode='r')    # once: reads what is used\nrow = array[n]",
        "torch.load": "state = torch.load(path, mmap=True)    # once",
        "numpy.fromfile": "array = np.memmap(path, dtype, 'r', shape=shape)    # once",
    }.get(op, f"array = {call}    # once\nrow = array[n]")
    text = "Load it once and keep it, or map it, so that only what is used is read."
    if op in _TEXT:
        text = "Load it once and keep it; np.save() stores it in a form that need not be parsed, and can be mapped."
    remedy = Remedy(text, f"{call}[n]", after, op.partition(".")[0])
    reader = next(iter(libraries.readers(observed, observed.calls.where_paths(paths), group.lines())), "")
    if (m.LOADED_WHOLE, reader) in words.table():
        remedy = words.remedy(m.LOADED_WHOLE, [reader])
    confidence = Confidence(0.85, "each load is a call of its own", ["which part of it is used is not known"])
    title = f"{name} is read whole {count:,} times"
    if len(paths) > 1:
        title = f"{name} are read whole, {count:,} times in all"
    sites = [*library_use.places(observed, group), *others]
    return library_use.finding(observed, group, title, gain, [evidence, *more], remedy, confidence, sites=sites)


def _read_beside(observed: Observed, group: Group) -> CallTable:
    """The reads of the same files at other lines of the program that read each of them about as often: a check of their
    sums, or of their kind."""
    reads = observed.calls.where_paths(group.paths()).where(process=group.processes(), own=True).transfers("read")
    often = [
        part["site"] for part in reads.by("site") if 2 * part.moved * len(group.paths()) >= _once(group) * len(group)
    ]
    return reads.where(site=[code for code in often if reads.site(code) not in group.lines()])


def _with_others(observed: Observed, gain: Gain, reads: CallTable, sites: list[Site], share: float) -> Gain:
    """The gain, and the same share of what other lines spend on these files; "upper" if that is most of it."""
    how, read = "the share of what these lines do with the files", reads.total("moved")
    more = observed.gain(observed.times(reads, share), how, gain.recoverable.bound)
    more = with_libraries(observed, more, sites, share, reads.codes("process"), read)
    more = with_own_code(observed, more, sites, share, read)
    bound = more.recoverable.bound if more.ns > gain.ns else gain.recoverable.bound
    how = f"{gain.recoverable.how}; {seconds(more.ns)} of it at the other lines that read these files"
    return Gain(min(gain.ns + more.ns, observed.wall_ns), replace(gain.recoverable, how=how, bound=bound, terms=[]))


def _once(group: Group) -> int:
    """The bytes of one load of each file."""
    return sum(part.total("read") // len(part) for _, part in group.by("path"))


RULE = Rule(
    "numpy and pandas",
    find,
    {
        "times": Limit(3, "loads of a file at one line of a process"),
        "read": Limit(1.5, "times that each byte of a file is read, on average, at least"),
        "bytes": Limit(
            512 << 10, "bytes read by a load, on average; of a file that numpy maps, Python 3.14 reads 256 KiB"
        ),
    },
    (*NEEDS, _REUSE),
    yields_to=("tasks-read-again", "loader-duplicated"),
    trial=Trial("pyio_trace.insights.trials.loads:kept"),
)
