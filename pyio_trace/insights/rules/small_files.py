"""One small file for each item.

An open, a close and a few metadata calls cost more than the bytes of a small
file, and a parallel file system keeps each on a server of its own. Pack them:
a tar file read in order, an HDF5 or zarr array, a Parquet table, an SQLite
database. In workers of a DataLoader this costs the trainer nothing as long as it
never waits for a batch; the finding then says "ok".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import libraries, sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import OVERHEAD
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.rules.list_again import LISTING
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable, Group
    from pyio_trace.insights.observed import Observed

#: Libraries that do much for each file, however small: they read its header, and make tables or arrays of it.
_SET_UP = frozenset((
    "anndata", "duckdb", "h5py", "joblib", "netCDF4", "pandas", "polars", "pyarrow", "tables", "xarray",
))  # fmt: skip
#: ns that such a library takes for each byte, about.  The rest of its time is for the file.
_BYTE = 20


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(role=Role.IO, own=True)
    opened = calls.where(kind=OpClass.OPEN, errno=0)
    folders = run.calls.where(op=LISTING).codes("path")
    for place in opened.rows(~np.isin(opened.columns["path"], folders)).by("site"):
        files = place.rows.distinct("path")
        if files < limits["files"]:
            continue
        library = libraries.library_of(run, place.rows)
        if library == "zarr":  # zarr-small-chunks says more
            continue
        paths = place.rows.columns["path"]
        every = calls.where(path=paths[paths >= 0].tolist(), process=place.rows.codes("process"))
        whole = run.calls.where(role=Role.IO, path=paths[paths >= 0].tolist(), process=place.rows.codes("process"))
        moved = whole.where(kind=(OpClass.READ, OpClass.WRITE)).total("moved")  # also by threads of libraries
        if moved > limits["bytes"] * files:
            continue
        around = every.where(kind=OVERHEAD)
        opens = every.where(kind=OpClass.OPEN, errno=0).total("calls")  # by other lines, too
        share = place.calls / max(opens, place.calls)
        how = "opens, closes and other metadata calls, which an archive needs once"
        how += "" if share == 1 else f"; {percent(share)} of the files' opens are at this line"
        gain = run.gain(run.times(around, share), how)
        names = libraries.readers(run, place.rows, [run.calls.site(place["site"]) or ""])
        if names and names[0].partition("/")[0] in _SET_UP:
            processes = place.rows.codes("process")
            more = with_libraries(run, gain, run.sites(place.rows), share, processes, moved or None)
            gain = max(gain, replace(more, ns=more.ns - int(share * moved * _BYTE)), key=lambda one: one.ns)
        costs = gain.ns >= limits["cost"] * run.wall_ns or not run.overview.loaders
        yield Finding(
            title=f"{number(files)} files of {size(moved // files)} on average",
            evidence=[
                Evidence(
                    f"Opening, closing and the like took {seconds(around.total('time'))}, all calls on these files "
                    f"{seconds(every.total('time'))}.",
                    {"files": files, "bytes": moved, "time_ns": around.total("time")},
                )
            ],
            remedy=_remedy(run, place, every, names),
            severity="critical" if costs else "ok",
            confidence=Confidence(0.7, "an archive is opened once, but has an index to read"),
            query=sql.rows({"op_role": "io", "site": every.lines()}),
            **run.about(place.rows, gain),
        )


def _remedy(run: Observed, place: Group, every: CallTable, names: tuple[str, ...]) -> Remedy:
    """place: the opens at the line; every: all calls on the files; names: of the libraries that open them."""
    users = _users(run, place["site"], every)
    return words.remedy(
        m.FILES_WRITTEN if libraries.writes(users) else m.FILES_READ, names or libraries.readers(run, users)
    )


def _users(run: Observed, site: int, every: CallTable) -> CallTable:
    """The calls of the line that opens the files; if it moves no bytes itself, those of all lines that use them."""
    own = run.calls.where(site=site)
    moves = own.where(kind=(OpClass.READ, OpClass.WRITE)).total("calls")
    return own if moves else run.calls.where(site=every.codes("site"))


RULE = Rule(
    "metadata",
    find,
    limits={
        "files": Limit(1000, "opened by one line, at least", few=100),
        "bytes": Limit(131072, "read and written of each on average, at most"),
        "cost": Limit(0.005, "of the wall time; below, in a run with a DataLoader, the finding is ok"),
    },
    topic="metadata",
    yields_to=("create-and-delete",),
    trial=Trial("pyio_trace.insights.trials.files:packed", rows="files"),
)
