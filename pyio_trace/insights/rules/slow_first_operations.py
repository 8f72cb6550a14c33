"""The first read or write of each file takes far longer than those that follow.

The first write finds space for the file, on a parallel file system on several
servers; the first read waits for the device, and starts readahead. Fewer
and larger files, opened early or by a thread, spread this over more bytes. The first
call may just be the largest: it may take as long as later ones do for as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.access_lines import ACCESSES, empty_calls
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.slow_calls import SLOW, Ints
from pyio_trace.log import runs
from pyio_trace.log.sorting import distinct
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_REMEDIES = {
    OpClass.READ: Remedy(
        "Ask for the next file before it is needed.",
        "for path in paths:\n    work(Path(path).read_bytes())",
        "with ThreadPoolExecutor(2) as pool:\n    for data in pool.map(lambda p: Path(p).read_bytes(), paths):\n"
        "        work(data)",
    ),
    OpClass.WRITE: Remedy(
        "Reserve the space before the first write, or write to fewer files.",
        "f = open(path, 'wb')",
        "f = open(path, 'wb')\nos.posix_fallocate(f.fileno(), 0, size)",
    ),
}


_KEYS = ("kind", "site", "path", "process")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    rows = _first_calls(run)
    order = np.lexsort([rows["kind"], rows["site"]])
    rows = {name: values[order] for name, values in rows.items()}
    new = (np.diff(rows["site"], prepend=-2) != 0) | (np.diff(rows["kind"], prepend=-2) != 0)
    starts = np.flatnonzero(new)
    files = np.diff(starts, append=len(order))
    firsts = np.add.reduceat(rows["took"], starts) if len(starts) else starts
    enough = (files >= limits["files"]) & (firsts >= limits["share"] * run.wall_ns)
    for start, count in zip(starts[enough].tolist(), files[enough].tolist(), strict=True):
        yield from _of_line(run, {name: values[start : start + count] for name, values in rows.items()}, limits)


def _first_calls(run: Observed) -> dict[str, Ints]:
    """For each process, file and line that reads or writes it several times: calls, whole (ns) and moved (bytes) of
    all; took (ns) and bytes of the first, both 0 if it was not slow."""
    table = run.calls.where(own=True, layer=(Layer.POSIX, Layer.STDIO), kind=(OpClass.READ, OpClass.WRITE), errno=0)
    columns = table.columns
    order = np.lexsort([columns["first"], *(columns[name] for name in _KEYS)])
    starts = runs.starts(*(columns[name][order] for name in _KEYS))
    found = {name: columns[name][order[starts]] for name in (*_KEYS, "first")}
    for name, source in (("calls", "calls"), ("whole", "time"), ("moved", "moved")):
        values = columns[source][order]
        found[name] = np.add.reduceat(values, starts) if len(starts) else values
    found["took"], found["bytes"] = _slow_ones(run.of(SLOW), found)
    several = np.flatnonzero((found["calls"] > 1) & (found["path"] >= 0))
    return {name: values[several] for name, values in found.items()}


def _slow_ones(slow: dict[str, Ints], wanted: dict[str, Ints]) -> tuple[Ints, Ints]:
    """ns and bytes of the call of each key at the time `first`; 0: it was not slow."""
    moves = np.flatnonzero(slow["moves"] == 1)
    order = moves[np.argsort(slow["time"][moves], kind="stable")]
    if not len(order):
        none = np.zeros(len(wanted["first"]), np.int64)
        return none, none
    at = order[np.minimum(np.searchsorted(slow["time"][order], wanted["first"]), len(order) - 1)]
    same = slow["time"][at] == wanted["first"]
    for name in _KEYS:
        same &= slow[name][at] == wanted[name]
    return np.where(same, slow["duration"][at], 0), np.where(same, slow["bytes"][at], 0)


def _of_line(run: Observed, rows: dict[str, Ints], limits: Mapping[str, float]) -> Iterator[Finding]:
    """rows: the files that one line reads, or writes."""
    files, took = len(rows["took"]), int(rows["took"].sum())
    kind, site = int(rows["kind"][0]), int(rows["site"][0])
    what = "read" if kind == OpClass.READ else "write"
    later = int(rows["calls"].sum()) - files - _ends(run, run.calls.site(site), what)
    if later < files:  # most files are moved in one call
        return
    usual = max((int(rows["whole"].sum()) - took) // later, 1)
    each = max(int((rows["moved"] - rows["bytes"]).sum()) / later, 1)
    expected = usual * np.maximum(rows["bytes"] / each, 1)
    beyond = np.maximum(rows["took"] - expected, 0)
    calls = run.calls.where(site=site, kind=kind, path=distinct(rows["path"]).tolist())
    most = run.times(calls)
    times = {process: min(int(beyond[rows["process"] == process].sum()), most[process]) for process in most}
    gain = run.gain(times, "what first calls take beyond the mean of the others, for as many bytes")
    if np.median(rows["took"] / expected) < limits["ratio"] or gain.ns < limits["share"] * run.wall_ns:
        return
    yield Finding(
        title=f"The first {what} of a file takes {took / expected.sum():.0f} times as long as later ones",
        evidence=[
            Evidence(
                f"{number(files)} first {what}s took {seconds(took)}, {seconds(took // files)} each; "
                f"{number(later)} later ones {seconds(usual)} each.",
                {"files": files, "first_ns": took, "later": later, "usual_ns": usual},
            )
        ],
        remedy=_REMEDIES[kind],
        confidence=Confidence(0.6, "why a first call is slow is not in the log"),
        severity="warning",
        query=sql.rows(
            {"site": run.calls.site(site), "op_class": what, "layer": ["posix", "stdio"]},
            select="path, time, duration / 1e9 AS seconds, bytes_moved", group="", order="path, time",
        ),
        **run.about(calls, gain),
    )  # fmt: skip


def _ends(run: Observed, line: str | None, what: str) -> int:
    """How many calls of a line found the end of a file: they take no time, and so say nothing of the others."""
    return sum(empty_calls(one) for one in run.of(ACCESSES).lines if (one.line, one.direction) == (line, what))


RULE = Rule(
    "balance",
    find,
    limits={
        "files": Limit(4, "read, or written, by one line in several calls each, at least"),
        "ratio": Limit(10, "times as long as later calls take for as many bytes, in the median, at least"),
        "share": Limit(0.02, "of the wall time that first calls take beyond others, at least"),
    },
    needs=(SLOW, ACCESSES),
)
