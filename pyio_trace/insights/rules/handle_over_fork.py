"""A file is opened before a fork, and used by the parent and the child after it.

Both have the same position in the file: a seek or a read of one moves the other.
A library's handle (h5py.File) has caches as well, which then differ. Results may
be wrong without an error. Open the file after the fork, in each process: in
`__getitem__` of a Dataset, or in a `worker_init_fn`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Rule
from pyio_trace.units import counted

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


_MOVING = ("read", "readv", "lseek")
_USING = (OpClass.READ, OpClass.WRITE, OpClass.SEEK)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    files = {group["process"]: group.rows for group in run.calls.where(role=Role.IO).by("process")}
    requests = run.calls.where(layer=(Layer.APP, Layer.HDF5), role=Role.REQUEST)
    asked = {group["process"]: group.rows for group in requests.by("process")}
    none = run.calls.where(process=[])
    seen: set[tuple[str, ...]] = set()
    for child in run.processes:
        if child["start"] != "fork" or child["index"] not in files or child["parent"] not in files:
            continue
        used, parents = _shared(files[child["index"]], files[child["parent"]], child["begin"])
        moving = used.where(op=_MOVING)
        handles = used.where(path=_library_paths(asked.get(child["index"], none)))
        kind, calls = ("position", moving) if len(moving) else ("handle", handles)
        what = (kind, *run.files(calls))
        if len(calls) and what not in seen and len(seen) < MOST_NAMED:  # of several children alike, the first
            seen.add(what)
            yield _finding(run, child, kind, calls, parents.where(path=calls.codes("path")))


def _shared(child: CallTable, parent: CallTable, forked: int) -> tuple[CallTable, CallTable]:
    """The calls of a child, and of its parent, on files that only the parent opened, if it used them after the fork.
    forked: ns since the epoch."""
    again = set(child.where(kind=OpClass.OPEN, errno=0).codes("path"))
    before = set(parent.where(kind=OpClass.OPEN, errno=0).codes("path")) - again
    used = child.where(kind=_USING, path=before)
    if not len(used):
        return used, used
    later = parent.rows(parent.columns["last"] > forked).where(kind=_USING, path=used.codes("path"))
    return used.where(path=later.codes("path")), later


def _finding(run: Observed, child: dict[str, Any], kind: str, calls: CallTable, parents: CallTable) -> Finding:
    index, parent = child["index"], child["parent"]
    return Finding(
        title=f"A {kind} in a file is shared over a fork: {run.files(calls)[0].rpartition('/')[2]}",
        evidence=[
            Evidence(
                f"The child made {counted(calls.total('calls'), 'call')} on it without opening it, its parent "
                f"{counted(parents.total('calls'), 'call')}, some of them later.",
                {"child_calls": calls.total("calls"), "parent_calls": parents.total("calls"), "child": index},
            )
        ],
        recoverable_ns=0,
        recoverable=Recoverable("the processes share a position, or have caches that differ", "none", run.wall_ns),
        remedy=_remedy(kind, run.is_loader_worker(index)),
        sites=[*run.sites(calls), *run.sites(parents)][:MOST_NAMED],
        files=run.files(calls),
        processes=[parent, index],
        confidence=Confidence(0.9, "no open in the child, and both use the file after the fork"),
        severity="critical",
        query=sql.rows(
            {"path": calls.paths()[:MOST_NAMED], "process": [parent, index], "op_role": "io"},
            select="process, " + sql.SUMS,
            group="process, op",
        ),
    )


def _remedy(kind: str, of_loader: bool) -> Remedy:
    """kind: what is shared, "position" or "handle"; of_loader: whether the child is a worker of a DataLoader."""
    library, opened = ("h5py", "h5py.File({})") if kind == "handle" else ("python", "open({}, 'rb')")
    if of_loader:
        before = "class Images(Dataset):\n    def __init__(self, path):\n"
        after = f"{before}        self.path, self.file = path, None\n    def __getitem__(self, n):\n"
        after += f"        self.file = self.file or {opened.format('self.path')}\n        ..."
        before += f"        self.file = {opened.format('path')}"
    else:
        before = f"f = {opened.format('path')}\n"
        before += "with multiprocessing.Pool() as pool:\n    pool.map(work, items)    # uses f"
        after = f"def start():\n    global f\n    f = {opened.format('path')}\n"
        after += "with multiprocessing.Pool(initializer=start) as pool:\n    pool.map(work, items)"
    return Remedy("Open the file in each process.", before, after, library)


def _library_paths(requests: CallTable) -> list[int]:
    """Codes of the paths on which a library (h5py, HDF5) made requests."""
    return [
        group["path"]
        for group in requests.by("path", "op")
        if group["path"] >= 0 and requests.op(group["op"]).startswith(("Dataset.", "DatasetID.", "H5D"))
    ]


RULE = Rule("fork trap", find, untried="the remedy makes results right, and saves no time")
