"""The details of sums of like operations (docs/reference/modes.md), parsed."""

from __future__ import annotations

from dataclasses import field
from itertools import islice
from typing import Any

from pyio_trace.analysis.calls import details
from pyio_trace.light_dataclass import dataclass

#: No count, size or time in a sound log is larger; keeps sums of a damaged one within 64 bits.
_MOST = 1 << 50
#: Sizes in one sum; the tracer keeps fewer.
_MOST_SIZES = 64


@dataclass(frozen=True)
class SumDetail:
    """What the detail of a sum says.

    span, longest: ns; placed, consecutive, sequential: transfers; highest: end
    of the farthest transfer, bytes, or None; sizes: transfers by Darshan's
    labels; common: transfers by size in bytes; strides: by bytes from the end of the
    one before; switches: between reads and writes.
    """

    span: int = 0
    longest: int = 0
    placed: int = 0
    consecutive: int = 0
    sequential: int = 0
    highest: int | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    common: dict[int, int] = field(default_factory=dict)
    strides: dict[int, int] = field(default_factory=dict)
    switches: int = 0


def parse(text: str | None) -> SumDetail:
    """The detail of a sum; what is missing or of another type is 0 or empty."""
    found = details.parse(text)
    return SumDetail(
        span=_number(found.get("span_ns")),
        longest=_number(found.get("longest_ns")),
        placed=_number(found.get("placed")),
        consecutive=_number(found.get("consecutive")),
        sequential=_number(found.get("sequential")),
        highest=_number(found["highest"]) if "highest" in found else None,
        sizes=_numbers(found.get("sizes")),
        common=_by_size(found.get("common_sizes")),
        strides=_by_size(found.get("strides")),
        switches=_number(found.get("switches")),
    )


def _by_size(value: Any) -> dict[int, int]:
    return {int(size): n for size, n in _numbers(value).items() if _is_size(size)}


def _is_size(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 16


def _number(value: Any) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) else 0


def _numbers(value: Any) -> dict[str, int]:
    return {key: _number(one) for key, one in islice(value.items(), _MOST_SIZES)} if isinstance(value, dict) else {}
