"""torch.save of a part of a tensor writes the whole tensor.

A slice, a row or a chunk is a view: it shares the storage of the tensor that it was
taken from, and torch.save writes whole storages. Files are larger than what they
hold, take longer to write and to load, and use as much memory when they are
loaded. A clone has a storage of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, seconds, significant, size


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Lines whose torch.save writes storages that are larger than the tensors in them."""
    saves = calls_of(observed, "torch.save")
    views = saves.where(isinstance(detail.get("tensors"), int) for detail in saves.details)
    for _, group in views.by("site"):
        whole, needed = group.total("asked"), sum(max(detail["tensors"], 0) for detail in group.details)
        if whole >= limits["ratio"] * max(needed, 1) and whole - needed >= limits["bytes"]:
            yield _finding(observed, group, whole, needed)


def _finding(observed: Observed, group: Group, whole: int, needed: int) -> Finding:
    time = group.total("duration")
    gain = observed.gain(
        group.scaled(int(time * (1 - needed / whole))),
        "the share of the bytes that no saved tensor has, in the time of the calls", "estimate",
    )  # fmt: skip
    evidence = Evidence(
        f"{counted(len(group), 'torch.save', 'torch.save')} wrote storages of {size(whole)} for tensors of "
        f"{size(needed)}, in {seconds(time)}.",
        {"saves": len(group), "written": whole, "tensors": needed, "duration_ns": time},
    )
    remedy = Remedy(
        "Save a clone: of a view, the whole storage is written.",
        "torch.save(table[first:last], path)",
        "torch.save(table[first:last].clone(), path)",
        "torch",
    )
    title = f"Views of larger tensors are saved: {significant(whole / max(needed, 1))} times as many bytes as they have"
    confidence = Confidence(0.95, "the bytes of tensors and storages are in the log")
    return library_use.finding(observed, group, title, gain, [evidence], remedy, confidence)


RULE = Rule(
    "PyTorch",
    find,
    {
        "ratio": Limit(1.5, "times the bytes of the tensors that their storages have, at least"),
        "bytes": Limit(1 << 20, "that are written in vain, at least"),
    },
    NEEDS,
)
