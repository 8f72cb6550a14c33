"""A file is written from the start for each item, though most of its content was there before.

A state, a list of results or a table is saved as a whole whenever something is added to it: by opening the file with
mode "w", by truncating it, or as a new file that is renamed over the old one. Twice the items then make four times the
bytes. Or the file is read, changed in one place and written back, as an array library does with a chunk of which a
program writes only a part. Append only what is new (a line of JSON, a row of a database), write whole chunks, or write
the whole less often.

Content that keeps its size and is not read in between, such as the latest checkpoint, is no finding, and neither is a
file of SQLite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import OpClass
from pyio_trace.insights import libraries, sql
from pyio_trace.insights.file_events import FILE_EVENTS
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.line_walls import formatter_of, with_formatters, with_libraries
from pyio_trace.insights.observed import MOST_NAMED, patterns, site_of
from pyio_trace.insights.rewrites import Rewritten, rewritten
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.rules.read_again import DESCRIBES
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Gain, Observed

#: What writing a file consists of.
_KINDS = (OpClass.OPEN, OpClass.WRITE, OpClass.CLOSE, OpClass.META, OpClass.SYNC, OpClass.SPAN)
_TEXT = "Append only what is new, or write the whole at the end or for every hundredth item."
#: What a program calls itself, without a library around it.
_PLAIN = ("", "os", "io", *libraries.FILE_OBJECTS)
_REMEDIES = {
    "": Remedy(
        _TEXT,
        "for item in items:\n    lines.append(item)\n    Path(path).write_text('\\n'.join(lines))",
        "with open(path, 'a') as f:\n    for item in items:    # a line each\n        print(item, file=f, flush=True)",
    ),
    "changed": Remedy(
        "Keep it in memory, and write it once at the end, or for every hundredth change.",
        "for key, value in changes:\n    state = json.loads(Path(path).read_text())\n    state[key] = value\n"
        "    Path(path).write_text(json.dumps(state))",
        "state = json.loads(Path(path).read_text())\nfor key, value in changes:\n    state[key] = value\n"
        "Path(path).write_text(json.dumps(state))",
    ),
    "zarr": Remedy(
        "Write whole chunks (or whole shards, if it has them) in one call: to write a part of one, all of it is read, "
        "unpacked, packed and written again.",
        "for n, row in enumerate(rows):\n    array[n] = row",
        "step = array.chunks[0]    # or array.shards[0]\nfor n in range(0, len(rows), step):\n"
        "    array[n : n + step] = rows[n : n + step]",
        "zarr",
    ),
    "zarr.json": Remedy(
        "Set all attributes in one call, and append many rows at a time: each call writes the file that describes the "
        "array again.",
        "for key, value in items:\n    array.attrs[key] = value",
        "array.update_attributes(dict(items))\n# zarr 2: array.attrs.update(dict(items))",
        "zarr",
    ),
    "json": Remedy(
        _TEXT,
        "for item in items:\n    done.append(item)\n    with open(path, 'w') as f:\n        json.dump(done, f)",
        "with open(path, 'a') as f:    # JSON lines: each item is one\n    for item in items:\n"
        "        f.write(json.dumps(item) + '\\n')\n        f.flush()",
        "json",
    ),
    "pickle": Remedy(
        _TEXT,
        "for item in items:\n    done.append(item)\n    with open(path, 'wb') as f:\n        pickle.dump(done, f)",
        "with open(path, 'ab') as f:    # only the new item; load() one by one\n    for item in items:\n"
        "        pickle.dump(item, f)\n        f.flush()",
        "pickle",
    ),
    "csv": Remedy(
        _TEXT,
        "for rows in parts:\n    table = pandas.concat([table, rows])\n    table.to_csv(path, index=False)",
        "for n, rows in enumerate(parts):    # only the new rows\n"
        "    rows.to_csv(path, mode='a', header=n == 0, index=False)",
        "pandas",
    ),
    "pandas": Remedy(
        "Write it once, at the end, or each part to a file of its own.",
        "for rows in parts:\n    table = pandas.concat([table, rows])\n    table.to_pickle(path)",
        "pandas.concat(parts).to_pickle(path)",
        "pandas",
    ),
    "numpy": Remedy(
        "Write it at the end, or for every hundredth item; or write only the new rows to a mapped array.",
        "for item in items:\n    rows.append(item)\n    numpy.save(path, rows)",
        "for item in items:\n    rows.append(item)\nnumpy.save(path, rows)",
        "numpy",
    ),
    "xarray": Remedy(
        "Write only what is new: a file for each part, which open_mfdataset() joins; or write the whole at the end.",
        "for n, part in enumerate(parts):\n    data = xarray.concat([data, part], 'time')\n    data.to_netcdf(path)",
        "for n, part in enumerate(parts):    # only the new part\n    part.to_netcdf(f'part{n:06}.nc')\n"
        "data = xarray.open_mfdataset('part*.nc')",
        "xarray",
    ),
    "h5py": Remedy(
        "Write only what is new, to a dataset that grows.",
        "for item in items:\n    rows.append(item)\n    with h5py.File(path, 'w') as f:\n        f['x'] = rows",
        "with h5py.File(path, 'w') as f:\n"
        "    x = f.create_dataset('x', (0, 8), maxshape=(None, 8), chunks=(1000, 8))\n"
        "    for item in items:    # f.flush() makes it safe\n"
        "        x.resize(len(x) + 1, axis=0)\n        x[-1] = item",
        "h5py",
    ),
    "netCDF4": Remedy(
        "Write only what is new, along an unlimited dimension.",
        "for item in items:\n    rows.append(item)\n    with netCDF4.Dataset(path, 'w') as f:\n"
        "        f.createDimension('n', len(rows)); f.createDimension('m', 8)\n"
        "        f.createVariable('x', 'f8', ('n', 'm'))[:] = rows",
        "with netCDF4.Dataset(path, 'w') as f:\n"
        "    f.createDimension('n', None); f.createDimension('m', 8)\n"
        "    x = f.createVariable('x', 'f8', ('n', 'm'), chunksizes=(1000, 8))\n"
        "    for n, item in enumerate(items):    # f.sync() makes it safe\n        x[n] = item",
        "netCDF4",
    ),
    "parquet": Remedy(
        "Write each part once, as a row group.",
        "for rows in parts:\n    table = pandas.concat([table, rows])\n    table.to_parquet(path)",
        "with pyarrow.parquet.ParquetWriter(path, schema) as writer:\n    for rows in parts:\n"
        "        writer.write_table(rows)",
        "pyarrow",
    ),
}

_CHANGED = _REMEDIES["changed"].text
#: For what is changed by reading and writing all of it, by the reader.
_CHANGED_BY = {
    "pandas": Remedy(
        f"{_CHANGED} A database changes the rows alone.",
        "for rows in parts:\n    table = pd.read_parquet(path)\n"
        "    table = pd.concat([table[~table.id.isin(rows.id)], rows])\n    table.to_parquet(path)",
        "table = pd.read_parquet(path)    # once\nfor rows in parts:\n"
        "    table = pd.concat([table[~table.id.isin(rows.id)], rows])\ntable.to_parquet(path)",
        "pandas",
    ),
    "mailbox": Remedy(
        "Make all changes, then flush once: each flush writes the whole mailbox.",
        "for key in keys:\n    box.remove(key)\n    box.flush()",
        "for key in keys:\n    box.remove(key)\nbox.flush()",
        "mailbox",
    ),
}
#: Readers of which the words about a state in JSON are true.
_STATES = ("", "json", "pickle", *libraries.FILE_OBJECTS)
_BY_MANY = Remedy(
    "Several processes change it: let one of them keep it in memory, and send it the changes; or use a database, which "
    "changes a part alone."
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    by_line: dict[tuple[int, ...], list[Rewritten]] = defaultdict(list)
    for one in rewritten(run.of(FILE_EVENTS), run.calls.path, limits["times"]):
        changed = one.grows or _is_read_back(run, one)
        if changed and not run.is_database(one.name) and sum(one.sizes) >= limits["ratio"] * one.sizes[-1]:
            by_line[_lines(run, one)].append(one)
    for lines, same in by_line.items():
        whole, needed = _bytes(same)
        calls = _calls(run, lines, same)
        share = 1 - needed / whole
        gain = run.gain(
            run.times(calls, share, value="outer"),
            "the share of the bytes that were written before, in the time of the calls", "estimate",
        )  # fmt: skip
        sites = [site for code in lines for site in run.site_list(run.calls.site(code))]
        gain = with_libraries(run, gain, sites, share, calls.codes("process"), whole)
        gain = with_formatters(run, gain, sites, share)
        if len(calls) and gain.ns >= limits["share"] * run.wall_ns:
            yield _finding(run, same, calls, gain, formatter_of(run, sites))


def _is_read_back(run: Observed, one: Rewritten) -> bool:
    """Whether the functions and processes that write a name read about as much of it before they write it: each version
    is made from the one before.  A line that reads the last version, too, copies or checks what was written."""
    writes = run.calls.where(own=True, path=one.paths, kind=OpClass.WRITE)
    read = run.calls.where_paths([one.name]).transfers("read").where(process=writes.codes("process"))
    read = read.rows(read.columns["last"] <= writes.columns["last"].max(initial=0))
    functions = {_function(run.calls.site(code)) for code in _lines(run, one)}
    own = [code for code in read.codes("site") if _function(run.calls.site(code)) in functions]
    if own:
        own.append(-1)  # a library may read most of it in threads, which have no line
    return 2 * read.where(site=own).total("moved") >= sum(one.sizes[:-1])


def _function(line: str | None) -> tuple[str, str]:
    """(file, function) of ``file:line:function``."""
    site = site_of(line)
    return ("", "") if site is None else (site.file, site.function)


def _bytes(same: list[Rewritten]) -> tuple[int, int]:
    """(bytes of all versions, bytes of the last ones)."""
    return sum(sum(one.sizes) for one in same), sum(one.sizes[-1] for one in same)


def _lines(run: Observed, one: Rewritten) -> tuple[int, ...]:
    """The program's lines (codes) that write the versions of a name."""
    return tuple(sorted(run.calls.where(own=True, path=one.paths, kind=OpClass.WRITE).codes("site")))


def _calls(run: Observed, lines: tuple[int, ...], same: list[Rewritten]) -> CallTable:
    """What these lines do to the versions, and around it."""
    own = run.calls.where(own=True, kind=_KINDS)
    paths = {path for one in same for path in one.paths}
    return own.rows(np.isin(own.columns["site"], lines) & np.isin(own.columns["path"], [*paths, -1]))


def _finding(run: Observed, same: list[Rewritten], calls: CallTable, gain: Gain, formatter: str) -> Finding:
    """formatter: the module that makes the text."""
    (whole, needed), times = _bytes(same), sum(len(one.sizes) for one in same)
    what = same[0].name.rpartition("/")[2][:40] if len(same) == 1 else counted(len(same), "file")
    grew = sum(one.grows for one in same) * 2 > len(same)
    how = "They grew, and were written again" if grew else "Each was read, changed and written back as a whole"
    about = run.about(calls, gain)
    return Finding(
        title=f"{what} {'is' if len(same) == 1 else 'are'} written from the start {number(times)} times: "
        f"{whole / needed:.3g} times the bytes",
        evidence=[
            Evidence(
                f"{counted(times, 'version')} had {size(whole)}, the last of each {size(needed)}. {how}. "
                f"The calls took {seconds(calls.total('outer'))}.",
                {"times": times, "written": whole, "bytes": needed, "time_ns": calls.total("outer")},
            )
        ],
        remedy=_remedy(run, same, calls, formatter, grew),
        confidence=Confidence(0.85, "the bytes of each version are in the log", ["who needs it in between is not"]),
        query=sql.rows({"path": calls.paths()[:MOST_NAMED], "site": calls.lines()[:MOST_NAMED]}),
        **about | {"files": patterns([one.name for one in same])},
    )


def _library(run: Observed, calls: CallTable) -> str:
    """The library that writes; the one that the program calls, where that one has words of its own."""
    first = next(iter(libraries.readers(run, calls)), "")
    return first if first == "xarray" else libraries.library_of(run, calls)


def _remedy(run: Observed, same: list[Rewritten], calls: CallTable, formatter: str, grew: bool) -> Remedy:
    library, reader = _library(run, calls), next(iter(libraries.readers(run, calls)), "").partition("/")[0]
    if library == "zarr" and all(DESCRIBES.search(one.name) for one in same):
        return _REMEDIES["zarr.json"]
    if grew or library == "zarr":
        known = [name for name in (library, formatter, reader) if name and name in _REMEDIES]
        known += [""] if reader in _PLAIN else []
        return _REMEDIES[known[0]] if known else Remedy(_TEXT)
    if len(calls.where(kind=(OpClass.WRITE, OpClass.OPEN)).codes("process")) > 1:
        return _BY_MANY
    if reader in _CHANGED_BY:
        return _CHANGED_BY[reader]
    return _REMEDIES["changed"] if reader in _STATES else Remedy(_CHANGED)


RULE = Rule(
    "amount",
    find,
    limits={
        "times": Limit(5, "that the content of one name is written from the start, at least"),
        "ratio": Limit(2, "times the bytes of the last version that all versions have, at least"),
        "share": Limit(0.02, "of the wall time that writing them again takes, at least"),
    },
    needs=(FILE_EVENTS,),
    yields_to=("shelve-sync",),
)
