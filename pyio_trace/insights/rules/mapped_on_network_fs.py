"""Pages of a mapped file come from a network file system.

Data from `numpy.memmap`, `numpy.load(mmap_mode=...)`, `torch.load(mmap=True)` and
`pyarrow.memory_map` is read when it is touched. On a network file system each page
that is not in memory may be a message to a server, and reading ahead helps only in
the order of the file. Copy the file to a local disk first, or read large
blocks. On NFS, what one machine writes through a mapping may not be seen on another
one until the file was closed and opened again: results may be wrong without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Recoverable, Remedy
from pyio_trace.insights.mapped_use import data_maps, is_remote, mappings_of, mostly_remote, storage_latency
from pyio_trace.insights.observed import MOST_NAMED, patterns
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.side_by_side import on_several_machines
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.results.overview_figures import ProcessTime
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in run.overview.processes:
        faults = run.processes[one.index]["major_faults"] or 0
        if faults >= limits["faults"] and mostly_remote(run, one.index):
            yield _of_process(run, one, faults)
    yield from _not_coherent(run)


def _of_process(run: Observed, process: ProcessTime, faults: int) -> Finding:
    rows = [row for row in mappings_of(run, process.index) if is_remote(run, row["path"])]
    paths = sorted({row["path"] for row in rows})
    calls = data_maps(run, process.index).where_paths(paths)
    least, most = sum(row["at_least"] for row in rows), sum(row["touched"] for row in rows)
    split, each = process.split, storage_latency(run)
    outside = split.other_ns + split.task_ns + split.library_ns
    if each is None:
        time, how = outside, "all that it spent outside of system calls, where page faults are"
        confidence = Confidence(0.4, "how long a page takes is not in the log")
    else:
        time = min(faults * each, outside)
        how = f"{number(faults)} page faults at {seconds(each)}, the mean of this run's reads from storage"
        confidence = Confidence(0.5, "the kernel counts faults by process, and not by file")
    gain = run.gain({process.index: time}, how)
    about = run.about(calls, gain) | {"files": patterns(paths), "processes": [process.index]}
    return Finding(
        title=f"{number(faults)} page faults waited for mapped files on a network file system",
        evidence=[
            Evidence(
                f"{process.name} touched {size(least)} to {size(most)} of {counted(len(paths), 'mapped file')} there; "
                f"{number(faults)} of all its page faults had to wait for data.",
                {"faults": faults, "files": len(paths), "at_least": least, "touched": most},
            )
        ],
        remedy=Remedy(
            "Copy the file to a local disk, or read large blocks: reading ahead only helps in the order of the file.",
            "data = numpy.load(path, mmap_mode='r')",
            "path = shutil.copy(path, os.environ['TMPDIR'])\ndata = numpy.load(path, mmap_mode='r')",
            "numpy",
        ),
        confidence=confidence,
        severity="warning",
        query=_query(paths),
        **about,
    )


def _not_coherent(run: Observed) -> Iterator[Finding]:
    """Files on NFS that one machine writes through a mapping while another one uses them."""
    rows = [row for row in run.mappings if row["path"] and run.mounts.kind_of(row["path"]) == "nfs"]
    rows = [row for row in rows if role_of(row["path"]) == "data" and row["process"] is not None]
    moved = run.calls.where(kind=(OpClass.READ, OpClass.WRITE), role=Role.IO, errno=0)
    found: dict[str, set[int]] = {}
    for path in sorted({row["path"] for row in rows}):
        own = [row for row in rows if row["path"] == path]
        writers = {row["process"] for row in own if row["shared"] and row["written"]}
        users = {row["process"] for row in own} | set(moved.where_paths([path]).codes("process"))
        apart = {one for one in users for writer in writers if on_several_machines(run, (writer, one))}
        if apart:
            found[path] = writers | apart
    if found:
        yield _shared(run, found, sum(row["written"] for row in rows if row["path"] in found))


def _shared(run: Observed, found: Mapping[str, set[int]], written: int) -> Finding:
    processes = sorted(set.union(*found.values()))
    files = counted(len(found), "file")
    mapped = [data_maps(run, process).where_paths(list(found)) for process in processes]
    return Finding(
        title=f"What is written to {files} through mappings may not be seen on other machines",
        recoverable_ns=0,
        recoverable=Recoverable("NFS brings changes to other machines by closing and opening", "none", run.wall_ns),
        evidence=[
            Evidence(
                f"About {size(written)} were written through mappings; processes on another machine used {files}, too.",
                {"written": written, "files": len(found), "processes": len(processes)},
            )
        ],
        remedy=Remedy(
            "Write with calls, and close the file before another machine opens it.",
            "data = numpy.memmap(path, mode='r+', shape=shape)\ndata[part] = results",
            "numpy.save(f'{path}.{rank}.npy', results)",
            "numpy",
        ),
        sites=[site for calls in mapped for site in run.sites(calls)][:MOST_NAMED],
        files=patterns(list(found)),
        processes=processes[:MOST_NAMED],
        confidence=Confidence(
            0.6, "processes of both ran at the same time", ["they may take turns by locks or messages"]
        ),
        severity="warning",
        query=_query(list(found)),
    )


def _query(paths: list[str]) -> Query:
    where = sql.condition("path", paths[:MOST_NAMED])
    return Query(f"SELECT process, path, length, at_least, touched, written\nFROM mappings\nWHERE {where}")


RULE = Rule(
    "accesses",
    find,
    limits={"faults": Limit(100, "page faults of a process that waited for data, at least")},
)
