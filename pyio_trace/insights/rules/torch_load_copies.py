"""Large files that torch.load reads whole into memory, and could map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Calls of torch.load without mmap=True."""
    loads = calls_of(observed, "torch.load")
    large = loads.column("asked") >= limits["bytes"]
    group = loads.where(
        bool(one) and not detail.get("mmap") for one, detail in zip(large, loads.details, strict=True)
    )  # fmt: skip
    if not len(group):
        return
    gain = observed.gain(
        group.scaled(group.total("duration")), "the loads; what is then used of the tensors is read later"
    )
    evidence = Evidence(
        f"{len(group):,} torch.load read {size(group.total('asked'))} in {seconds(group.total('duration'))}, "
        f"{seconds(group.leaf_ns)} of it in system calls.",
        {"loads": len(group), "bytes": group.total("asked"), "io_ns": group.leaf_ns},
    )
    remedy = Remedy(
        "Map the file: pages are read when they are used, and processes share them.",
        "state = torch.load(path)",
        "state = torch.load(path, mmap=True)",
        "torch",
    )
    confidence = Confidence(0.6, "the bytes are in the log", ["how much of the tensors is used is not known"])
    title = f"torch.load copies {size(group.total('asked'))} into memory"
    yield library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule("PyTorch", find, {"bytes": Limit(64 << 20, "bytes of a file that count as large")}, NEEDS)
