"""A trainer that waits for batches whose fetch has not ended: data loading that compute does not hide.

A batch counts as not fetched while its worker is in the next fetch: only after that
can the worker's other thread hand it over.

What the trainer waited is the most that faster fetches, or more workers, can
bring. The workers that would hide the fetches follow from the time of a fetch
and of the compute between two batches; more than there are cores do not help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import LOADER, Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS
from pyio_trace.insights.loader_use import Loader, Work, loaders
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import counted, seconds

#: A line with less of the fetches' time than this share is not what makes them slow.
_MUCH = 0.1


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Loaders with workers whose trainer waits."""
    for loader in loaders(observed):
        least = max(limits["share"] * loader.whole_ns, limits["ms"] * 1e6)
        if loader.workers and loader.exposed_ns >= least > 0:
            yield _finding(observed, loader)


def _finding(observed: Observed, loader: Loader) -> Finding:
    exposed, batches = loader.exposed_ns, loader.sum("batches")
    share = exposed / loader.whole_ns
    how = "waits for batches up to the end of their fetches, without those for workers to start"
    gain = observed.gain({loader.trainer: exposed}, how)
    fetch, compute = loader.sum("fetch_ns") // batches, loader.compute_ns // batches
    evidence = [
        Evidence(
            f"{batches:,} batches were waited for {seconds(loader.sum('wait_ns'))}, {seconds(exposed)} of it until "
            f"they were fetched: {share:.0%} of the epochs.",
            {LOADER: loader.label, "batches": batches, "wait_ns": loader.sum("wait_ns"), "not_ready_ns": exposed},
        ),
        _workers(observed, loader, fetch, compute),
    ]
    work = loader.work[0] if loader.work else None
    evidence.append(_inside(loader, work))
    if work is not None and work.time < _MUCH * loader.sum("fetch_ns"):
        work = None
    waits = loader.waits.sites()
    sites = [*([work.site] if work is not None and work.site is not None else []), *waits]
    title = f"The trainer waits for batches {share:.0%} of its time"
    confidence = Confidence(0.9, "each wait is joined with the fetch that it waited for")
    return library_use.finding(
        observed, loader.waits, title, gain, evidence, _remedy(observed, loader, work, fetch, compute), confidence,
        sites=list(dict.fromkeys(sites)), query=loader.fetches.query("cpu_time / 1e6 AS cpu_ms", "detail"),
    )  # fmt: skip


def _needed(fetch: int, compute: int) -> int:
    """Workers whose fetches together take as long as the compute of a batch."""
    return min(-(-fetch // max(compute, 1)), 1 << 20)


def _workers(observed: Observed, loader: Loader, fetch: int, compute: int) -> Evidence:
    needed, cores = _needed(fetch, compute), observed.overview.cores
    text = f"A fetch takes {seconds(fetch)}, the compute of a batch {seconds(compute)}: "
    if compute and (cores is None or needed <= cores):
        text += f"{counted(needed, 'worker')} would hide it"
        text += " if all fetches took as long" if needed <= loader.workers else ""
        text += f"; there {'is' if loader.workers == 1 else 'are'} {loader.workers}."
    else:
        text += f"no number of workers hides that on {cores or 'these'} cores; fetches have to become faster."
    return Evidence(text, {"fetch_ns": fetch, "compute_ns": compute, "needed": needed, "workers": loader.workers})


def _inside(loader: Loader, work: Work | None) -> Evidence:
    """Where the time of the fetches went."""
    fetches = max(loader.sum("fetch_ns"), 1)
    if work is None or work.time < _MUCH * fetches:
        seen = sum(one.time for one in loader.work)
        text = (
            f"{max(1 - seen / fetches, 0):.0%} of the fetches' time is in no call that is seen: the dataset computes."
        )
        return Evidence(text, {"fetch_ns": fetches, "seen_ns": seen})
    where = f" at {work.site}" if work.site else ""
    text = (
        f"{work.count:,} {work.op}{where} took {seconds(work.time)}, {min(work.time / fetches, 1):.0%} of the fetches; "
    )
    text += f"{seconds(work.leaf)} of that in system calls"
    values: dict[str, int | float | str] = {"calls": work.count, "time_ns": work.time, "io_ns": work.leaf}
    if work.cpu is not None and 2 * (work.cpu + work.leaf) < work.time:
        text += f", {seconds(work.cpu)} on a processor; most of it is waiting for one, or for another thread."
        values["cpu_ns"] = work.cpu
    else:
        text += "." if work.leaf * 2 >= work.time else ", the rest in the library."
    return Evidence(text, values)


def _remedy(observed: Observed, loader: Loader, work: Work | None, fetch: int, compute: int) -> Remedy:
    if work is not None and work.op in ("File.__init__", "H5Fopen") and work.time * 3 >= loader.sum("fetch_ns"):
        return Remedy(
            "Open the file once in each worker, not for every item.",
            "def __getitem__(self, n):\n    with h5py.File(self.path) as f:\n        return f['x'][n]",
            "def __getitem__(self, n):\n    if self.file is None:    # in the worker, after the fork\n"
            "        self.file = h5py.File(self.path)\n    return self.file['x'][n]",
            "h5py",
        )
    needed, cores = _needed(fetch, compute), observed.overview.cores or 1
    if needed > max(cores, loader.workers):
        return Remedy(
            "Make an item cheaper: read it in fewer calls, store it decoded, or several items together.",
            library="torch",
        )
    if needed <= loader.workers >= cores:  # more would only compete for the cores
        return Remedy(
            "Let workers fetch further ahead, so that a fetch which takes long finds others done.",
            f"DataLoader(data, num_workers={loader.workers})",
            f"DataLoader(data, num_workers={loader.workers}, prefetch_factor=8)",
            "torch",
        )
    return Remedy(
        "Use more workers, and keep them between epochs.",
        f"DataLoader(data, num_workers={loader.workers})",
        f"DataLoader(data, num_workers={max(needed, loader.workers + 1)}, persistent_workers=True)",
        "torch",
    )


RULE = Rule(
    "PyTorch",
    find,
    {
        "share": Limit(0.1, "of the epochs that the trainer waits for fetches"),
        "ms": Limit(50, "that it waits for them, at least"),
    },
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.readers:more", rows="loader"),
    each_call=True,
)
