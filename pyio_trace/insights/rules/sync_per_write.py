"""A program waits for a sync after each small write.

`os.fsync` returns when the data are on the device. On most devices that is slow,
however few the bytes. Where a crash may cost the last records, one sync at
the end or every few seconds is enough; a database or a log that is written in
batches does this by itself. Flushing a map (`mmap.flush`, `numpy.memmap.flush`) is a
sync as well, and some libraries sync each file that they write: a distributed
checkpoint, for example, with a file for each tensor. For SQLite see commit-per-row,
for HDF5 hdf5-flush-per-item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy, Term
from pyio_trace.insights.libraries import readers
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import Group
    from pyio_trace.insights.observed import Observed


_PYTHON = Remedy(
    "Sync once for many records.",
    "for record in records:\n    f.write(record)\n    f.flush(); os.fsync(f.fileno())",
    "for record in records:\n    f.write(record)\nf.flush(); os.fsync(f.fileno())",
)
_FILES = Remedy(
    "Keep the records in one file, and sync it once; or, if many files may be lost together, write all of them, have "
    "the system write what it holds once, and rename them then.",
    "for name, data in items:\n    with open(f'{name}.new', 'wb') as f:\n        f.write(data); f.flush(); "
    "os.fsync(f.fileno())\n    os.replace(f'{name}.new', name)",
    "for name, data in items:\n    Path(f'{name}.new').write_bytes(data)\nos.sync()\n"
    "for name, _ in items:\n    os.replace(f'{name}.new', name)",
)
#: How the names of a library's calls at the line begin -> what to write instead.
_REMEDIES = {
    "memmap.": Remedy(
        "Flush once, after the loop, or every hundredth time.",
        "for n, row in enumerate(rows):\n    result[n] = row\n    result.flush()",
        "for n, row in enumerate(rows):\n    result[n] = row\nresult.flush()",
        "numpy",
    ),
    "mmap.": Remedy(
        "Flush once, after the loop, or every hundredth time.",
        "for at, data in parts:\n    mapped[at:at + len(data)] = data\n    mapped.flush()",
        "for at, data in parts:\n    mapped[at:at + len(data)] = data\nmapped.flush()",
    ),
    "torch.distributed.checkpoint.": Remedy(
        "Write one file for each rank, which is synced once; dcp.async_save() waits for it beside the training.",
        "writer = FileSystemWriter(path, single_file_per_rank=False)\ndcp.save(state, storage_writer=writer)",
        "writer = FileSystemWriter(path, single_file_per_rank=True)\ndcp.save(state, storage_writer=writer)",
        "torch",
    ),
}
_LMDB = Remedy(
    "Put many items in one transaction: each waits until it is on the device.",
    "for key, value in items:\n    with env.begin(write=True) as txn:\n        txn.put(key, value)",
    "with env.begin(write=True) as txn:\n    for key, value in items:\n        txn.put(key, value)",
    "lmdb",
)
_DUCKDB = Remedy(
    "Write many rows in one transaction, or take them from a table or a file at once (INSERT INTO t FROM frame): each "
    "transaction waits until it is on the device.",
    "for row in rows:\n    db.execute('INSERT INTO t VALUES (?, ?)', row)",
    "db.execute('BEGIN')\nfor row in rows:\n    db.execute('INSERT INTO t VALUES (?, ?)', row)\ndb.execute('COMMIT')",
    "duckdb",
)
_LIBRARY = Remedy("Write many items to one file, and sync it once.")
_BY_READER = {("lmdb",): _LMDB, ("duckdb",): _DUCKDB}
#: Libraries whose syncs are other rules'.
_OTHERS = ("File.", "Dataset.", "Group.", "H5", "Connection.", "Cursor.", "Shelf.")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    syncs = run.calls.where(role=Role.SYNC, own=True)
    syncs = syncs.where(path=[-1, *(n for n in syncs.codes("path") if not run.is_database(run.calls.path(n) or ""))])
    if not len(syncs):
        return
    writes = run.calls.where(layer=Layer.POSIX, kind=OpClass.WRITE)
    for place in syncs.by("site"):
        if place.calls < limits["syncs"]:
            continue
        written = writes.where(path=place.rows.codes("path")).total("moved")
        remedy = _remedy(run, place)
        if written > limits["bytes"] * place.calls or remedy is None:
            continue
        saved = run.times(place.rows, (place.calls - 1) / place.calls)
        terms = [Term("in fsync, fdatasync and msync", place.time)]
        gain = run.gain(saved, "the time in all but one sync", terms=terms)
        if 2 * place.rows.where(inside=1).total("calls") > place.calls:  # made by a library
            share = (place.calls - 1) / place.calls
            gain = with_libraries(run, gain, run.sites(place.rows), share, saved, written or None)
        mapped = len(place.rows.where(op=["msync"])) > 0
        count, of = number(place.calls), "" if mapped else f", for {size(written)} written"
        yield Finding(
            title=f"{count} syncs of a mapped file" if mapped else f"A sync after every {size(written // place.calls)}",
            evidence=[
                Evidence(
                    f"{count} syncs of {counted(place.rows.distinct('path'), 'file')} took {seconds(place.time)}{of}.",
                    {"syncs": place.calls, "written": written, "time_ns": place.time},
                )
            ],
            remedy=remedy,
            query=sql.rows({"site": run.calls.site(place["site"]), "op_role": "sync"}),
            **run.about(place.rows, gain),
        )


def _remedy(run: Observed, place: Group) -> Remedy | None:
    """None: the syncs of a line are another rule's."""
    requests = run.calls.where(site=place["site"], layer=(Layer.APP, Layer.HDF5))
    names = [requests.op(code) for code in requests.codes("op")]
    if any(name.startswith(_OTHERS) for name in names):
        return None
    found = [begin for begin in _REMEDIES if any(name.startswith(begin) for name in names)]
    if found:
        return _REMEDIES[found[0]]
    reader = readers(run, place.rows)[:1]
    if reader in _BY_READER:
        return _BY_READER[reader]
    if 2 * place.rows.where(inside=1).total("calls") > place.calls:
        return _LIBRARY
    return _FILES if 2 * place.rows.distinct("path") > place.calls else _PYTHON


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "syncs": Limit(20, "syncs of one line, at least", few=3),
        "bytes": Limit(65536, "written for each sync, at most"),
    },
    topic="sync",
    yields_to=("checkpoint-stall",),
    trial=Trial("pyio_trace.insights.trials.writes:synced_once", rows="files"),
)
