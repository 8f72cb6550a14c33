"""Data that do not fit into memory are written to files, and read again: Dask and Ray call this spilling.

Give workers more memory, or keep less: smaller partitions, no persist() of what
is used once, results written as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, seconds, size

#: Where Dask's workers and Ray's keep what they spill.
_PLACES = {"dask": r".*/dask-scratch-space[^/]*/.*/storage/", "ray": r".*/ray_spilled_objects|.*/ray/session_.*/spill"}
_REMEDIES = {
    "dask": Remedy(
        "Let less be in memory at once: smaller partitions, fewer results kept.",
        "frame = dd.read_parquet(path).persist()\nframe.sum().compute(); frame.mean().compute()",
        "frame = dd.read_parquet(path, blocksize='64MiB')\ndask.compute(frame.sum(), frame.mean())",
        "dask",
    ),
    "ray": Remedy(
        "Let less be in the object store at once: drop references early, hand over smaller blocks.",
        "parts = [load.remote(path) for path in paths]\nresults = ray.get([work.remote(part) for part in parts])",
        "results = [ray.get(work.remote(load.remote(path)))\n           for path in paths]    # several: ray.wait",
        "ray",
    ),
}


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for library, pattern in _PLACES.items():
        calls = run.calls.matching(pattern).where(role=(Role.IO, Role.SYNC))
        written = calls.where(kind=OpClass.WRITE).total("moved")
        if not written or written < limits["bytes"]:
            continue
        read = calls.where(kind=OpClass.READ).total("moved")
        files = calls.distinct("path")
        gain = run.gain(run.times(calls), "all calls on these files; packing the data is not in it")
        yield Finding(
            title=f"{size(written)} were spilled to files, {size(read)} read back",
            evidence=[
                Evidence(
                    f"{counted(files, 'file')} took {seconds(calls.total('time'))} in "
                    f"{counted(calls.distinct('process'), 'process', 'processes')}.",
                    {"written": written, "read": read, "files": files, "time_ns": calls.total("time")},
                )
            ],
            remedy=_REMEDIES[library],
            confidence=Confidence(0.85, "the names of these files are those of spilled data"),
            query=sql.rows({"op_role": ["io", "sync"]}, more=f"regexp_matches(path, {sql.literal(pattern)})"),
            **run.about(calls, gain),
        )


RULE = Rule("Dask and Ray", find, limits={"bytes": Limit(1 << 20, "spilled, at least")})
