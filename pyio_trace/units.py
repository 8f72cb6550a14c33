"""Formats nanoseconds, bytes and counts for people."""

from __future__ import annotations

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_SIZES = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def seconds(ns: int) -> str:
    """``"1.53 s"``, ``"12 ms"``, ``"840 ns"``, ``"3 min 20 s"``, ``"2 h 5 min"``."""
    whole = ns // 1_000_000_000
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if whole >= 180:
        return f"{whole // 60} min {whole % 60} s"
    for unit, name in _TIMES:
        if ns >= unit:
            return f"{_three(ns / unit)} {name}"
    return f"{ns} ns"


def size(count: int) -> str:
    """``"4 KiB"``, ``"1.21 GiB"``, ``"17 B"``."""
    for unit, name in _SIZES:
        if count >= unit:
            return f"{_three(count / unit)} {name}"
    return f"{count} B"


def number(count: int) -> str:
    """``"1,234,567"``."""
    return f"{count:,}"


def percent(share: float | None) -> str:
    """``"82 %"``, ``"0.4 %"``, ``"-"`` for None."""
    if share is None:
        return "-"
    value = share * 100
    if value >= 10 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.1 else "<0.1 %"


def significant(value: float) -> str:
    """Three significant figures, more for large numbers: ``"1.53"``, ``"12.7"``, ``"2,490"``."""
    return number(round(value)) if value >= 999.5 else _three(value)


def _three(value: float) -> str:
    """Three significant figures: 1.53, 12.7, 127; whole numbers without a point."""
    if value == int(value):
        return str(int(value))
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def shortened(text: str, width: int) -> str:
    """At most `width` characters, cut at the start: the end of a path says more."""
    if len(text) <= width or width < 4:
        return text
    return "..." + text[-(width - 3) :]


def counted(count: int, one: str, many: str = "") -> str:
    """``"1 call"``, ``"1,234 calls"``; many: the plural, if it is not one + "s"."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"
