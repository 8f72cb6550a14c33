"""HDF5 files that are opened again for every item: each opening reads the file's metadata again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.libraries import is_netcdf
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import MOST_NAMED, Observed, site_of
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import seconds

_OPENS = ("File.__init__", "H5Fopen", "H5Fcreate", "pandas.HDFStore")
_CLOSES = ("File.close", "H5Fclose", "HDFStore.close")
_TEXT = "Open the file once in each process, at its first use: after a fork, not before it."
_H5PY = Remedy(
    f"{_TEXT} Keep the dataset, too: each f['x'] opens it, without what HDF5 had in memory of it.",
    "def __getitem__(self, n):\n    with h5py.File(self.path) as f:\n        return f['x'][n]",
    "def __getitem__(self, n):\n    if self.data is None:\n        self.data = h5py.File(self.path)['x']\n"
    "    return self.data[n]",
    "h5py",
)
_NETCDF4 = Remedy(
    _TEXT,
    "for n in items:\n    with netCDF4.Dataset(path) as f:\n        use(f['x'][n])",
    "with netCDF4.Dataset(path) as f:\n    for n in items:\n        use(f['x'][n])",
    "netCDF4",
)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Files that some process opens often; all processes that do so are one finding."""
    calls = calls_of(observed, *_OPENS, *_CLOSES)
    for (path,), every in calls.by("path"):
        of_file = _without_making(every)
        opens = of_file.of(*_OPENS)
        often = max((len(part) for _, part in opens.by("process")), default=0)
        if path >= 0 and often and often >= limits["opens"]:
            yield _finding(observed, of_file, opens)


def _without_making(calls: Group) -> Group:
    """The calls without those at lines that open the file once in each process: such a line may have made it."""
    once = {code for (code,), part in calls.of(*_OPENS).by("site") if len(part) <= len(part.processes())}
    return calls.where(code not in once for code in calls.column("site").tolist())


def _finding(observed: Observed, both: Group, opens: Group) -> Finding:
    time = both.total("duration")
    needed = len(opens.processes()) / len(opens)
    gain = observed.gain(both.scaled(int(time * (1 - needed))), "all openings and closings but the first of a process")
    evidence = Evidence(
        f"{len(opens):,} openings and their closings took {seconds(time)}, {seconds(both.leaf_ns)} of it in system "
        "calls: HDF5 reads the file's metadata each time.",
        {"opens": len(opens), "duration_ns": time, "io_ns": both.leaf_ns},
    )
    by_netcdf = is_netcdf(opens.paths()[0]) and opens.ops()[0].startswith("H5")
    remedy = _NETCDF4 if by_netcdf else _H5PY
    name = opens.paths()[0].rpartition("/")[2]
    title = f"{name} is opened {len(opens):,} times"
    confidence = Confidence(0.9, "openings and closings are calls of their own")
    return library_use.finding(observed, both, title, gain, [evidence], remedy, confidence, sites=_lines(opens))


def _lines(opens: Group) -> list[Site]:
    """The lines that open it, the one that does so most often first: creating a file may take longer."""
    often = sorted(opens.by("site"), key=lambda one: -len(one[1]))
    return [site for (code,), _ in often if (site := site_of(opens.calls.sites[code] if code >= 0 else None))][
        :MOST_NAMED
    ]


RULE = Rule(
    "HDF5",
    find,
    {"opens": Limit(20, "openings of a file by one process", few=5)},
    NEEDS,
    topic="metadata",
    yields_to=("written-again",),
    trial=Trial("pyio_trace.insights.trials.datasets_read:opened_once", rows="files"),
)
