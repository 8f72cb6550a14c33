"""Items of a dataset that are small files of their own: each costs an open, a few calls and a close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, loaders
from pyio_trace.insights.observed import OVERHEAD, Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders whose workers open many small files."""
    for loader in loaders(observed):
        if not loader.workers:
            continue
        calls = observed.calls.where(process=loader.fetches.processes(), layer=Layer.POSIX, own=True)
        files = calls.where(kind=OpClass.OPEN, errno=0)
        count, opens = files.distinct("path"), files.total("calls")
        if not count or count < limits["files"]:
            continue
        of_files = calls.where(path=sorted(set(files.columns["path"].tolist())))
        moved = of_files.where(kind=OpClass.READ).total("moved")
        if moved <= limits["bytes"] * opens:
            yield _finding(observed, loader, of_files, (count, opens, moved))


def _finding(observed: Observed, loader: Loader, calls: CallTable, figures: tuple[int, int, int]) -> Finding:
    """calls: on the files; figures: how many files, their opens, the bytes read of them."""
    count, opens, moved = figures
    metadata = calls.where(kind=OVERHEAD)
    gain = observed.gain(observed.times(metadata), "opening, closing and asking about the files, in the workers")
    time = metadata.total("time")
    evidence = Evidence(
        f"{opens:,} openings of {count:,} files, {size(moved // opens)} read of each; {seconds(time)} in calls other "
        f"than reads. The trainer waited {seconds(loader.exposed_ns)} for fetches.",
        {"files": count, "opens": opens, "read": moved, "metadata_ns": time, "not_ready_ns": loader.exposed_ns},
    )
    files = observed.files(calls)
    costs = gain.ns * 20 >= time or not time
    title = f"A small file for each item: {opens:,} openings"
    remedy = Remedy(
        "Put many items into one file: an array, an HDF5 or Parquet file, or tar shards.",
        "np.load(f'images/{n}.npy')",
        "images = np.load('images.npy', mmap_mode='r')    # made once\nimages[n]",
        "numpy",
    )
    return Finding(
        title if costs else title + ", which cost the trainer nothing",
        gain.ns,
        gain.recoverable,
        [evidence],
        sql.rows(
            {"layer": "posix", "process": loader.fetches.processes()},
            select="path, op, sum(calls) AS calls, sum(duration) / 1e6 AS ms",
            group="path, op",
            order="ms DESC",
        ),
        remedy,
        sites=observed.sites(calls),
        files=files,
        processes=loader.fetches.processes(),
        persistence=observed.persistence(loader.waits.first, loader.waits.last),
        confidence=Confidence(0.8, "what the trainer waited bounds it"),
        severity="critical" if costs else "ok",
    )


RULE = Rule(
    "PyTorch",
    find,
    {
        "files": Limit(200, "different files that workers open"),
        "bytes": Limit(256 << 10, "read of a file that count as small"),
    },
    NEEDS,
    topic="metadata",
    trial=Trial("pyio_trace.insights.trials.files:packed", rows="files"),
    each_call=True,
)
